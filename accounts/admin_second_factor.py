"""The pages between password and admin: where a second factor is proved, and where one is set up that is required."""

from __future__ import annotations

import base64
from typing import Any, Final

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.auth.views import LoginView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.safestring import mark_safe

from accounts import admin_sign_in, audit
from accounts.admin_forms import StaffSignInForm, busy, too_many
from accounts.admin_sign_in import Half
from accounts.audit import Event, Outcome
from accounts.mfa import factors, services, totp
from accounts.mfa.errors import InvalidMfaCode, MfaAlreadyEnabled, MfaNotStarted
from accounts.models import User
from ironauth.infrastructure.errors import Overloaded, Throttled

_LONGEST: Final = 64  # characters of a code as it is typed; the rest of it is no code
_WRONG: Final = "The code is wrong, has expired or was used before. Wait for the next one, or use a recovery code."
_AGAIN: Final = "Signing in took too long or was interrupted. Please begin again."


class CodeForm(forms.Form):
    """A code from an app or, in the same field, a recovery code."""

    code = forms.CharField(
        label="Code",
        max_length=_LONGEST,
        widget=forms.TextInput(
            attrs={
                "autofocus": True,
                "autocomplete": "one-time-code",
                "autocapitalize": "none",
                "autocorrect": "off",
                "spellcheck": "false",
            }
        ),
    )

    def __init__(self, data: Any = None, *, user: User) -> None:
        super().__init__(data)
        self.user = user


class ProofForm(CodeForm):
    """Judges the code as a sign-in through the API does: under the same count, once, on the hash pool."""

    def clean_code(self) -> str:
        """Use the code up. A wrong one is in the trail; a full pool and too many tries are said."""
        code: str = self.cleaned_data["code"]
        try:
            right = services.verify_code_blocking(self.user, code)
        except Overloaded as refused:
            raise busy(refused) from refused
        except Throttled as refused:
            raise too_many(refused) from refused
        if not right:
            audit.record(
                Event.ADMIN_SIGN_IN,
                outcome=Outcome.FAILURE,
                user_id=self.user.pk,
                details={"reason": InvalidMfaCode.code},
            )
            raise ValidationError(_WRONG, code=InvalidMfaCode.code)
        return code


class FirstCodeForm(CodeForm):
    """Confirms that the app has the secret it was shown; ``recovery_codes`` are there once it is valid."""

    recovery_codes: tuple[str, ...] = ()

    def clean_code(self) -> str:
        """Make the app a factor, as the API does."""
        code: str = self.cleaned_data["code"]
        try:
            made = async_to_sync(services.confirm_totp)(user_id=self.user.pk, code=code)
        except Overloaded as refused:
            raise busy(refused) from refused
        except InvalidMfaCode as refused:
            raise ValidationError(refused.detail, code=refused.code) from refused
        except (MfaNotStarted, MfaAlreadyEnabled) as refused:
            raise ValidationError(_AGAIN, code=refused.code) from refused
        self.recovery_codes = made.recovery_codes
        return code


class PasswordView(LoginView):
    """The first step. Whoever needs no second one is signed in by it."""

    form_class = StaffSignInForm
    next_page = "admin:index"

    def form_valid(self, form: Any) -> HttpResponse:
        """Sign in, or go on to the second step."""
        user, next_url = form.get_user(), self.get_success_url()
        if not admin_sign_in.needs_more(form.methods):
            return super().form_valid(form)
        if form.methods:
            admin_sign_in.begin(self.request, user, next_url)
            return redirect("admin:login_code")
        secret = base64.b32decode(async_to_sync(services.start_totp)(user_id=user.pk).secret)
        admin_sign_in.begin(self.request, user, next_url, setup=totp.seal(secret, user.pk))
        return redirect("admin:login_set_up")


def prove(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Ask for the code, and sign in by a right one."""
    whom = admin_sign_in.half(request, enrolling=False)
    if whom is None:
        return _begin_again(request)
    form = ProofForm(request.POST if request.method == "POST" else None, user=whom.user)
    if form.is_valid():
        admin_sign_in.complete(request, whom)
        return redirect(whom.next_url)
    by_app = factors.TOTP in services.methods_blocking(whom.user)
    recovery = not by_app or "recovery" in request.GET
    return _page(site, request, "admin/code.html", "Second step", form=form, recovery=recovery, by_app=by_app)


def set_up(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show the secret; by its first code sign in, and show the recovery codes, this once."""
    whom = admin_sign_in.half(request, enrolling=True)
    if whom is None:
        return _begin_again(request)
    form = FirstCodeForm(request.POST if request.method == "POST" else None, user=whom.user)
    if form.is_valid():
        admin_sign_in.complete(request, whom)
        return _page(
            site, request, "admin/recovery_codes.html", "Recovery codes", codes=form.recovery_codes, next=whom.next_url
        )
    return _page(site, request, "admin/set_up.html", "Set up a second factor", form=form, **_shown(whom))


def _shown(whom: Half) -> dict[str, Any]:
    """Return the secret that was begun with, as an app reads it and as people type it."""
    key_id, sealed = whom.setup or ("", b"")
    secret = totp.unseal(key_id, sealed, whom.user.pk)
    text = totp.as_text(secret)
    return {
        "qr_svg": mark_safe(totp.qr_svg(totp.uri(secret, whom.user.email))),  # noqa: S308 - made here, of squares
        "secret": " ".join(text[at : at + 4] for at in range(0, len(text), 4)),
    }


def _begin_again(request: HttpRequest) -> HttpResponse:
    messages.warning(request, _AGAIN)
    return redirect("admin:login")


def _page(site: AdminSite, request: HttpRequest, template: str, title: str, **context: Any) -> HttpResponse:
    request.current_app = site.name  # Django's own convention
    return TemplateResponse(
        request, template, {**site.each_context(request), "title": title, "subtitle": None, **context}
    )
