"""*Try it* on a sign-in provider's page: staff go there and come back, and read what came. Nothing else changes.

A trial belongs to the session of the admin that has begun it, is used once and lasts ten minutes. Beginning one needs
the same recent proof as changing the provider.
"""

import hmac
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from asgiref.sync import async_to_sync
from django.contrib.admin import ModelAdmin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from accounts.audit import recording as audit
from accounts.audit.recording import Event, Outcome
from accounts.federation.errors import UpstreamUnavailable
from accounts.federation.foresight import Foreseen, Would, foreseen
from accounts.federation.kinds.kind import UpstreamPerson
from accounts.federation.models import UpstreamProvider
from accounts.federation.queries import digest_of
from accounts.users.models import User
from ironauth.infrastructure.admin.actions import is_danger, page_act
from ironauth.infrastructure.admin.read_only import moment
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db import single_use
from tokens.admin.client_acts import caller_of
from tokens.upstream import answers, providers
from tokens.upstream.administration import sign_in_trial, trial_words
from tokens.upstream.administration.trial_words import Fault

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    Admin = ModelAdmin[UpstreamProvider]
else:
    Admin = object

_KEPT: Final = "ironauth_provider_trial"
_ONCE: Final = "provider-trial"
_BROUGHT: Final = ("state", "code", "iss", "error", "error_description", "user")
_NOT_THIS_ONE: Final = Fault(
    "state",
    "This answer belongs to no trial of this session: it was used, is more than ten minutes old, or was begun "
    "elsewhere.",
    "Begin the trial again. Nothing was asked of the provider.",
)
_SEALED: Final = Fault(
    "secret", "The stored secret cannot be opened with the master keys of this server.", "Type the client secret again."
)
WORDS: Final = {
    Would.SIGN_IN: "sign in to this account",
    Would.ASK_FACTOR: "be asked for the second factor of this account, and sign in to it",
    Would.BE_REFUSED: "be refused: this account cannot sign in",
    Would.CREATE: "make a new account and sign in to it",
    Would.ACCEPT_TERMS: "be asked to accept the terms; then a new account is made",
    Would.LINK: "be linked to this account, which has proved the same address, and sign in to it",
    Would.SIGN_IN_FIRST: "be asked to sign in to an account here once; then the identity is linked to it",
    Would.SIGN_UP_FIRST: "be asked to make an account, or to sign in to one; then the identity is linked to it",
}


class Line(NamedTuple):
    """One thing that came, in words."""

    name: str
    value: str


class ProviderTrial(Admin):
    """Mixin of the page of a provider."""

    def get_urls(self) -> list[URLPattern]:
        """Add the page that begins a trial, and the one where it ends."""
        view = self.admin_site.admin_view
        return [
            path("<uuid:provider_id>/try/", view(self.begin_trial), name="accounts_upstreamprovider_try"),
            path("tried/<slug:slug>/", view(self.end_trial), name="accounts_upstreamprovider_tried"),
            *super().get_urls(),
        ]

    @page_act(danger=False)
    def begin_trial(self, request: HttpRequest, provider_id: UUID) -> HttpResponse:
        """Lead to the provider by POST; tell what is wrong already. By GET: tell what a trial is."""
        row = self._tried_row(request, pk=provider_id)
        if request.method != "POST":
            return self._page(request, row)
        provider = providers.of_row(row)
        if provider is None:
            return self._ended(request, row, fault=_SEALED)
        try:
            begun = async_to_sync(sign_in_trial.begin)(provider)
        except UpstreamUnavailable as error:
            return self._ended(request, row, fault=trial_words.of_silence(error.cause))
        until = int(clock.unix()) + sign_in_trial.LIFE_S
        request.session[_KEPT] = {"state": digest_of(begun.state), "provider": str(row.pk), "until": until}
        return self._page(request, row, address=begun.address, fault=begun.fault)

    def end_trial(self, request: HttpRequest, slug: str) -> HttpResponse:
        """Judge what the provider has answered, and show it; once, and in the session that has begun it."""
        row = self._tried_row(request, slug=slug)
        answer = {name: value for name in _BROUGHT if (value := request.GET.get(name, ""))}
        provider = providers.of_row(row)
        if request.method != "GET" or not _is_expected(request, row, answer.get("state", "")):
            return self._page(request, row, fault=_NOT_THIS_ONE, status=HTTPStatus.BAD_REQUEST)
        if provider is None:
            return self._ended(request, row, fault=_SEALED)
        tried = async_to_sync(sign_in_trial.judged)(provider, answer)
        if tried.person is None:
            return self._ended(request, row, fault=tried.fault)
        counts = not tried.person.methods.isdisjoint(provider.second_factors)
        would = foreseen(row, tried.person, with_second_factor=counts)
        return self._ended(request, row, lines=_lines(tried.person, row, counts=counts), outcome=_outcome(row, would))

    def _tried_row(self, request: HttpRequest, **which: Any) -> UpstreamProvider:
        """Return the provider. Raises ``Http404``, and ``PermissionDenied`` for who may not change it."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        row = UpstreamProvider.objects.filter(**which).first()
        if row is None:
            raise Http404
        return row

    def _ended(
        self, request: HttpRequest, row: UpstreamProvider, *, fault: Fault | None = None, **shown: Any
    ) -> HttpResponse:
        """Leave the event of a trial that is over, and show its page."""
        details = {"provider": row.slug, **({"cause": fault.cause} if fault else {})}
        outcome = Outcome.FAILURE if fault else Outcome.SUCCESS
        audit.record(Event.PROVIDER_TRIED, outcome=outcome, actor_id=caller_of(request), details=details)
        return self._page(request, row, fault=fault, **shown)

    def _page(self, request: HttpRequest, row: UpstreamProvider, *, status: int = 200, **shown: Any) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": f"Try {row.name}",
            "opts": self.opts,
            "original": row,
            "redirect_uri": answers.redirect_uri(row.slug),
            "danger": is_danger(self.begin_trial),
            "media": self.media,
            **shown,
        }
        request.current_app = self.admin_site.name  # Django's own convention
        return TemplateResponse(request, "admin/accounts/upstreamprovider/trial.html", context, status=status)


def _is_expected(request: HttpRequest, row: UpstreamProvider, state: str) -> bool:
    """Use up the trial that this session has begun with this provider; tell whether the state is its own. One query."""
    kept: Any = request.session.get(_KEPT) or {}
    digest = digest_of(state)
    is_it = hmac.compare_digest(digest, kept.get("state", "")) and kept.get("provider") == str(row.pk)
    if not is_it or kept["until"] <= clock.unix():
        return False
    del request.session[_KEPT]
    return single_use.consume(_ONCE, UUID(bytes=sha256(state.encode()).digest()[:16]), kept["until"])


def _lines(person: UpstreamPerson, row: UpstreamProvider, *, counts: bool) -> list[Line]:
    """Return what came, each with what it is worth here."""
    shown = trial_words.shown
    trusted = "" if row.trusts_email else ", which does not count here (verifies addresses is off)"
    verified = "verified there" if person.email_verified else "not verified there"
    methods = ", ".join(sorted(map(shown, person.methods)))
    second = "a second factor here" if counts else "no second factor here"
    at = moment(datetime.fromtimestamp(person.auth_time, UTC)) if person.auth_time else "The provider does not say"
    return [
        Line("Issuer", shown(person.issuer)),
        Line("Subject", shown(person.subject)),
        Line("Address", f"{shown(person.email)}, {verified}{trusted}" if person.email else "None"),
        Line("Name", shown(person.name) or "None"),
        Line("How they signed in there (amr, acr)", f"{methods}: {second}" if methods else "The provider does not say"),
        Line("When they signed in there", at),
    ]


def _outcome(row: UpstreamProvider, told: Foreseen) -> list[Line]:
    """Return what a sign-in would have done, and with which account."""
    account = User.objects.filter(pk=told.user_id).first() if told.user_id else None
    lines = [Line("A sign-in would", WORDS[told.would])]
    if account is not None:
        lines.append(Line("Account", str(account)))
    if not row.enabled:
        lines.append(Line("But", "this provider is switched off: nobody can sign in with it yet"))
    return lines
