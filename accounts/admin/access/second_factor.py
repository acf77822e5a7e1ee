"""The pages between password and admin: where a second factor is proved, and where one is set up that is required."""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from asgiref.sync import async_to_sync
from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.auth.views import LoginView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import mark_safe

from accounts.admin.access import sign_in as admin_sign_in
from accounts.admin.access.sign_in import PendingSignIn
from accounts.admin.forms import StaffSignInForm, busy, too_many
from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.mfa import factors, proofs, services
from accounts.mfa.errors import InvalidMfaCode, MfaAlreadyEnabled, MfaNotStarted, TotpUnreadable
from accounts.mfa.passkeys import services as passkeys
from accounts.mfa.passkeys.challenges import Purpose
from accounts.mfa.passkeys.errors import InvalidPasskey
from accounts.mfa.totp import codes as totp
from accounts.mfa.totp import services as totp_services
from accounts.users.models import User
from ironauth.infrastructure.core import strict_json
from ironauth.infrastructure.core.errors import NotAuthenticated, Overloaded, Throttled
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.crypto.sealing import SealBrokenError
from ironauth.infrastructure.http import client_context

_LONGEST: Final = 64  # characters of a code as it is typed; the rest of it is no code
_WRONG: Final = "The code is wrong, has expired or was used before. Wait for the next one, or use a recovery code."
_UNREADABLE: Final = "Codes of your app cannot be checked at the moment. Use a recovery code, or try again later."
_AGAIN: Final = "Signing in took too long or was interrupted. Please try again."


@dataclass(frozen=True)
class Step:
    """A page on which a second factor is proved: what the trail calls it, what a passkey signs for, its address."""

    title: str
    event: Event
    purpose: Purpose
    here: str
    submit: str

    def actor_of(self, user: User) -> uuid.UUID | None:
        """Return who acts: nobody yet, at a sign-in."""
        return user.pk if self.event is Event.STEP_UP else None


SIGN_IN: Final = Step(
    "Second step", Event.ADMIN_SIGN_IN, Purpose.SECOND_FACTOR, here="admin:login_code", submit="Sign in"
)


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
    """Judges the code as a sign-in through the API does: under the same counts, once, on the hash pool."""

    def __init__(self, data: Any = None, *, user: User, address: str, step: Step) -> None:
        super().__init__(data, user=user)
        self.address, self.step = address, step

    def clean_code(self) -> str:
        """Use the code up. A wrong one is in the trail; a full pool, too many tries and a lost secret are said."""
        code: str = self.cleaned_data["code"]
        try:
            right = services.verify_code_blocking(self.user, code, address=self.address)
        except Overloaded as refused:
            raise busy(refused) from refused
        except TotpUnreadable as refused:
            raise ValidationError(_UNREADABLE, code=refused.code) from refused
        except Throttled as refused:
            by_app = totp.is_code(proofs.without_spaces(code))
            raise too_many(refused, ", or use a recovery code" if by_app else "") from refused
        if not right:
            audit.record(
                self.step.event,
                outcome=Outcome.FAILURE,
                actor_id=self.step.actor_of(self.user),
                user_id=self.user.pk,
                details={"reason": InvalidMfaCode.code},
            )
            raise ValidationError(_WRONG, code=InvalidMfaCode.code)
        return code


class PasskeyForm(forms.Form):
    """Judges what the page's script made of the passkey as a sign-in through the API does."""

    challenge_token = forms.CharField(required=False)
    credential = forms.CharField(required=False)

    def __init__(self, data: Any = None, *, user: User, address: str, step: Step) -> None:
        super().__init__(data)
        self.user, self.address, self.step = user, address, step

    def clean(self) -> dict[str, Any]:
        """Use the answer up. A wrong one is in the trail, whatever is wrong with it; too many tries are said."""
        try:
            passkeys.verify_blocking(
                _answer(self.cleaned_data.get("credential", "")),
                challenge_token=self.cleaned_data.get("challenge_token", ""),
                user_id=self.user.pk,
                purpose=self.step.purpose,
                event=self.step.event,
                address=self.address,
            )
        except Throttled as refused:
            raise too_many(refused) from refused
        except InvalidPasskey as refused:
            raise ValidationError(refused.detail, code=refused.code) from refused
        return self.cleaned_data


class FirstCodeForm(CodeForm):
    """Confirms that the app has the secret it was shown; ``recovery_codes`` are there once it is valid."""

    recovery_codes: tuple[str, ...] = ()

    def clean_code(self) -> str:
        """Make the app a factor, as the API does."""
        code: str = self.cleaned_data["code"]
        try:
            made = async_to_sync(totp_services.confirm_totp)(user_id=self.user.pk, code=code)
        except Overloaded as refused:
            raise busy(refused) from refused
        except Throttled as refused:
            raise too_many(refused) from refused
        except InvalidMfaCode as refused:
            raise ValidationError(refused.detail, code=refused.code) from refused
        except (MfaNotStarted, MfaAlreadyEnabled) as refused:
            raise ValidationError(_AGAIN, code=refused.code) from refused
        self.recovery_codes = made.recovery_codes
        return code


class PasswordView(LoginView):
    """The first step. Anybody who needs no second one is signed in by it."""

    form_class = StaffSignInForm
    next_page = "admin:index"

    def form_valid(self, form: Any) -> HttpResponse:
        """Sign in, or go on to the second step."""
        user, next_url = form.get_user(), self.get_success_url()
        if not admin_sign_in.needs_more(form.methods):
            return super().form_valid(form)
        details = {"on_the_way_to": Event.ADMIN_SIGN_IN.value}
        audit.record(Event.SECOND_FACTOR_ASKED, user_id=user.pk, details=details)
        if form.methods:
            admin_sign_in.begin(self.request, user, next_url)
            return redirect("admin:login_code")
        try:
            secret = base64.b32decode(async_to_sync(totp_services.start_totp)(user_id=user.pk).secret)
        except (MfaAlreadyEnabled, NotAuthenticated):  # set up, or deactivated, at this very moment
            return _begin_again(self.request)
        admin_sign_in.begin(self.request, user, next_url, setup=totp.seal(secret, user.pk))
        return redirect("admin:login_set_up")


def prove(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Ask for a code or a passkey, and sign in by a right one."""
    pending = admin_sign_in.half(request, enrolling=False)
    if pending is None:
        return _begin_again(request)
    asking = second_step(site, request, pending.user, SIGN_IN, again=reverse("admin:login"))
    if asking is not None:
        return asking
    admin_sign_in.complete(request, pending)
    return HttpResponseRedirect(pending.next_url)  # an address, which redirect() might take for the name of a page


def second_step(site: AdminSite, request: HttpRequest, user: User, step: Step, *, again: str) -> HttpResponse | None:
    """Return the page that asks for a code or a passkey; None once one was right, and is used up.

    ``again``: the address of the step before.
    """
    sent = request.POST if request.method == "POST" else None
    by_passkey = sent is not None and "credential" in sent
    address = client_context.address_of(request)
    form = ProofForm(None if by_passkey else sent, user=user, address=address, step=step)
    passkey = PasskeyForm(sent if by_passkey else None, user=user, address=address, step=step)
    if form.is_valid() or passkey.is_valid():
        return None
    offered = _offered(user, step.purpose, typed=form.is_bound, recovery="recovery" in request.GET)
    links = {"here": reverse(step.here), "again": again, "submit": step.submit}
    return page(site, request, "admin/code.html", step.title, form=form, passkey=passkey, **links, **offered)


def set_up(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show the secret; by its first code sign in, and show the recovery codes, this once.

    Not to who has a factor by now, set up elsewhere: anybody else who has the password would get in without it. Nor
    where the secret does not open, for its master key has left the settings.
    """
    pending = admin_sign_in.half(request, enrolling=True)
    shown = _shown(pending) if pending is not None and not services.methods_blocking(pending.user) else None
    if pending is None or shown is None:
        return _begin_again(request)
    form = FirstCodeForm(request.POST if request.method == "POST" else None, user=pending.user)
    if form.is_valid():
        admin_sign_in.complete(request, pending)
        return page(
            site,
            request,
            "admin/recovery_codes.html",
            "Recovery codes",
            codes=form.recovery_codes,
            next=pending.next_url,
        )
    return page(site, request, "admin/set_up.html", "Set up a second factor", form=form, **shown)


def _shown(pending: PendingSignIn) -> dict[str, Any] | None:
    """Return the secret that was begun with, as an app reads it and as people type it; None when it does not open."""
    key_id, sealed = pending.setup or ("", b"")
    try:
        secret = totp.unseal(key_id, sealed, pending.user.pk)
    except (MasterKeyMissingError, SealBrokenError):
        return None
    text = totp.as_text(secret)
    return {
        "qr_svg": mark_safe(totp.qr_svg(totp.uri(secret, pending.user.email))),  # noqa: S308 - made here, of squares
        "secret": " ".join(text[at : at + 4] for at in range(0, len(text), 4)),
    }


def _offered(user: User, purpose: Purpose, *, typed: bool, recovery: bool) -> dict[str, Any]:
    """Return what the page offers, and what a passkey is to sign: for each page another challenge.

    ``typed``: whether it says what is wrong with a code. ``recovery``: whether it is to ask for a recovery code.
    """
    methods = services.methods_blocking(user)
    by_app, by_passkey = factors.TOTP in methods, factors.PASSKEY in methods
    recovery = recovery or not (by_app or (by_passkey and not typed))
    options = None
    if by_passkey and not recovery:
        asked = passkeys.assertion_options_blocking(purpose, user_id=user.pk)
        options = msgspec.json.encode(asked).decode()
    return {"by_app": by_app, "by_passkey": by_passkey, "recovery": recovery, "options": options}


def _answer(text: str) -> dict[str, Any]:
    """Return the JSON object in ``text``; an empty one, which proves nothing, for anything else."""
    try:
        answer = strict_json.loads(text)
    except strict_json.InvalidJson:
        return {}
    return answer if isinstance(answer, dict) else {}


def _begin_again(request: HttpRequest) -> HttpResponse:
    messages.warning(request, _AGAIN)
    return redirect("admin:login")


def page(site: AdminSite, request: HttpRequest, template: str, title: str, **context: Any) -> HttpResponse:
    """Return a page of these steps."""
    request.current_app = site.name  # Django's own convention
    return TemplateResponse(
        request, template, {**site.each_context(request), "title": title, "subtitle": None, **context}
    )
