"""The pages between password and admin: one proves a second factor, the other sets up a factor that is required."""

from __future__ import annotations

import base64
from typing import Any, Final, NamedTuple

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
from accounts.audit.recording import Event
from accounts.mfa import factors, services
from accounts.mfa.errors import InvalidMfaCode, SecondFactorRefused
from accounts.mfa.second_factor import without_spaces
from accounts.mfa.totp import codes as totp
from accounts.mfa.totp import services as totp_services
from accounts.mfa.totp.errors import MfaAlreadyEnabled, MfaNotStarted, TotpUnreadable
from accounts.users.models import User
from accounts.users.proofs import Evidence, ProofRequest
from ironauth.infrastructure.core import strict_json
from ironauth.infrastructure.core.errors import NotAuthenticated, Overloaded, Throttled
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.crypto.sealing import SealBrokenError
from ironauth.infrastructure.http import client_context

_LONGEST: Final = 64  # characters of a code as typed; what exceeds them is no code
_WRONG: Final = "The code is wrong, has expired or was used before. Wait for the next one, or use a recovery code."
_UNREADABLE: Final = "Codes of your app cannot be checked at the moment. Use a recovery code, or try again later."
_AGAIN: Final = "Signing in took too long or was interrupted. Please try again."


class Step(NamedTuple):
    """A page on which a second factor is proved: its title, what the trail calls it, its address, and its button."""

    title: str
    event: Event
    here: str
    submit: str


SIGN_IN: Final = Step("Second step", Event.ADMIN_SIGN_IN, here="admin:login_code", submit="Sign in")


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
    """A second factor of any kind, judged as a sign-in through the API does: under the same counts, and once."""

    challenge_token = forms.CharField(required=False)
    credential = forms.CharField(required=False)

    def __init__(self, data: Any = None, *, user: User, address: str, step: Step) -> None:
        super().__init__(data, user=user)
        self.asked = ProofRequest(user.pk, step.event, address)
        #: Whether a code was typed; else the page's script sent the answer of an authenticator.
        self.typed = self.is_bound and "credential" not in self.data
        self.fields["code"].required = self.typed

    def clean(self) -> dict[str, Any]:
        """Use the proof up. A wrong one is in the trail; a full pool, too many tries and a lost secret are said."""
        sent = self.cleaned_data
        if self.typed and "code" not in sent:  # none was typed
            return sent
        if self.typed:
            shown = Evidence(code=sent["code"])
        else:
            answer = _answer(sent.get("credential", ""))
            shown = Evidence(challenge_token=sent.get("challenge_token", ""), credential=answer)
        try:
            async_to_sync(services.prove)(shown, self.asked)
        except Overloaded as refused:
            self._refuse(busy(refused))
        except TotpUnreadable as refused:
            self._refuse(ValidationError(_UNREADABLE, code=refused.code))
        except Throttled as refused:
            by_app = self.typed and totp.is_code(without_spaces(sent["code"]))
            self._refuse(too_many(refused, ", or use a recovery code from this site" if by_app else ""))
        except SecondFactorRefused as refused:
            self._refuse(ValidationError(_WRONG if self.typed else refused.detail, code=refused.code))
        return sent

    def _refuse(self, error: ValidationError) -> None:
        """Say it beside the field; of an answer that nobody typed, above the form."""
        self.add_error("code" if self.typed else None, error)


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
            admin_sign_in.sign_out(self.request)
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
    """Ask for a code or a passkey, and sign in by a right one.

    Args:
        site: The admin site that is signed in to.
        request: Its session remembers whose password was right.
    """
    pending = admin_sign_in.first_step(request, enrolling=False)
    if pending is None:
        return _begin_again(request)
    asking = second_step(site, request, pending.user, SIGN_IN, again=reverse("admin:login"))
    if asking is not None:
        return asking
    admin_sign_in.complete(request, pending)
    return HttpResponseRedirect(pending.next_url)  # an address, which redirect() might take for the name of a page


def second_step(site: AdminSite, request: HttpRequest, user: User, step: Step, *, again: str) -> HttpResponse | None:
    """Return the page that asks for a second factor; None once one was right, and is used up.

    Args:
        site: The admin.
        request: Asks for the page, or brings the proof.
        user: Whose second factor it is.
        step: Which page it is.
        again: The address of the step before.
    """
    sent = request.POST if request.method == "POST" else None
    form = ProofForm(sent, user=user, address=client_context.address_of(request), step=step)
    if form.is_valid():
        return None
    links = {"here": reverse(step.here), "again": again, "submit": step.submit}
    offered = _offered(user, form, recovery="recovery" in request.GET)
    return page(site, request, "admin/code.html", step.title, form=form, **links, **offered)


def set_up(site: AdminSite, request: HttpRequest) -> HttpResponse:
    """Show the secret; by its first code sign in, and show the recovery codes this once.

    Refused to anybody who has a factor by now, set up elsewhere: a stranger with the password would get in without that
    factor. Refused as well where the secret does not open because its master key has left the settings.

    Args:
        site: The admin site that is signed in to.
        request: Its session remembers whose password was right, and the sealed secret.
    """
    pending = admin_sign_in.first_step(request, enrolling=True)
    shown = _shown(pending) if pending is not None and not factors.methods_of(pending.user.pk) else None
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


def _offered(user: User, form: ProofForm, *, recovery: bool) -> dict[str, Any]:
    """Return what the page asks for, each kind with its challenge, and what a link offers instead.

    ``recovery``: whether a kind that stands in for the others was asked for. So it is where the page has to say what is
    wrong with a code, and none of the person's own kinds is typed.
    """
    methods = factors.methods_of(user.pk)
    own = [one for one in factors.FACTORS if one.stands_alone and one.name in methods]
    recovery = recovery or not own or (form.typed and not any(one.typed for one in own))
    stand_ins = [one for one in factors.FACTORS if not one.stands_alone]
    asked = stand_ins if recovery else own
    return {
        "asked": [(one.template, async_to_sync(one.challenge)(form.asked)) for one in asked],
        "instead": " or ".join(one.noun for one in (own if recovery else stand_ins)),
        "recovery": recovery,
    }


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
    """Return a page of these steps.

    Args:
        site: The admin site, for its header and its links.
        request: Answered by the page.
        template: The template's path.
        title: The heading, and the title of the window.
        **context: What the template needs in addition to the site's own context.
    """
    request.current_app = site.name  # Django's own convention
    return TemplateResponse(
        request, template, {**site.each_context(request), "title": title, "subtitle": None, **context}
    )
