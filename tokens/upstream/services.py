"""Sending somebody to another provider, and judging what they bring back; async, keyword-only, never sees a request."""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import IntegrityError

from accounts.audit import recording as audit
from accounts.audit.events import Reason
from accounts.audit.recording import Event, Outcome
from accounts.errors import InvalidCredentials
from accounts.federation import queries, units
from accounts.federation.errors import UpstreamRefused
from accounts.federation.kinds.kind import UpstreamPerson
from accounts.federation.queries import Begun
from accounts.federation.rules import Step
from accounts.privacy import terms
from accounts.users import services as accounts
from accounts.users.queries import Credentials
from accounts.users.services import Authenticated
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.errors import MfaRequired
from tokens.sessions.models import BY_UPSTREAM, LONG_AGO
from tokens.sign_in import mfa_token
from tokens.sign_in.proofs import ByUpstream
from tokens.upstream import answers, discovery, id_token
from tokens.upstream import units as session_units
from tokens.upstream.providers import Provider

log = get_logger()


class FirstStep(NamedTuple):
    """The identity opens nothing here yet.

    ``who`` names it for the person. ``name``: theirs there, "" without one. ``auth_time``: as of ``UpstreamPerson``.
    """

    step: Step
    who: str
    email: str
    auth_time: int
    name: str


async def begin(
    *,
    provider: Provider,
    page: str,
    browser: str,
    life_s: int,
    login_hint: str = "",
    user_id: UUID | None = None,
    max_age_s: int | None = None,
) -> str:
    """Return the address at the provider that somebody is sent to.

    Args:
        provider: Where they sign in.
        page: Where they come from, to go on there; of somebody who is signed in, ``begun_in``.
        browser: What this browser's cookie says.
        life_s: Seconds in which they have to be back.
        login_hint: The address they have typed, if any.
        user_id: Who is signed in and connects the identity; None for a sign-in.
        max_age_s: Seconds since they have authenticated there, at most; 0: they do it anew; None: it may be long ago.

    Raises:
        UpstreamUnavailable: The provider does not answer.
    """
    where = await discovery.endpoints(provider.id, provider.issuer, provider.kind)
    state = secrets.token_urlsafe(queries.STATE_BYTES)
    await database().write(
        queries.begin,
        provider_id=provider.id,
        state=state,
        browser=browser,
        page=page,
        life_s=life_s,
        user_id=user_id,
    )
    return answers.request_of(provider, where, state, login_hint=login_hint, max_age_s=max_age_s)


async def returned(*, slug: str, state: str, browser: str) -> Begun | None:
    """Use up a sign-in that has come back, and return it; None where it was not begun in this browser, or is old.

    Args:
        slug: The short name of the provider whose redirect URI was called.
        state: What the provider gave back.
        browser: What this browser's cookie says.
    """
    return await database().write_autocommit(queries.take, slug=slug, state=state, browser=browser)


async def verify(
    *, provider: Provider, begun: Begun, answer: Mapping[str, str], since: int | None = None
) -> ByUpstream | FirstStep:
    """Return the proof of a person who has signed in at the provider, or what they have to do here first.

    The browser carries the question to the provider and can change it: what the signed answer says counts alone.

    Args:
        provider: Which one it is.
        begun: The sign-in, used up.
        answer: The parameters the browser has brought.
        since: The unix second from which they have to have authenticated there; None: it may be long ago.

    Raises:
        UpstreamRefused: (401) the provider refused, or its answer does not hold.
        UpstreamUnavailable: (503) it does not answer.
        InvalidCredentials: (401) the account cannot be used.
        MfaRequired: (401) the person has a second factor.
        PasswordChangeRequired: (403) staff have asked for another password.
    """
    try:
        person = await answers.person_of(provider, answer)
        if since is not None and person.auth_time < max(since - id_token.LEEWAY_S, 1):  # 0: it does not say
            raise UpstreamRefused("auth_time")
        resolved = await _resolved(provider, begun, person)
    except UpstreamRefused as error:
        await _note_refusal(Event.SIGN_IN, provider, error)
        raise
    email = units.shown(person.email)  # a provider may say anything, and a page is made of it
    if resolved.step is not None:
        who = f"{provider.name} ({email})" if email else provider.name
        return FirstStep(resolved.step, who, email, person.auth_time, units.name_of(person.name))
    try:
        account = units.require_usable(resolved.account)
    except InvalidCredentials:
        closed = resolved.account
        details = {"reason": accounts.refusal_reason(closed, right=True), "provider": provider.slug}
        await audit.record_later(Event.SIGN_IN, outcome=Outcome.FAILURE, user_id=closed and closed.id, details=details)
        raise
    await accounts.require_admissible(account)
    with_second_factor = not person.methods.isdisjoint(provider.second_factors)
    if account.methods and not with_second_factor:
        raise _factor_asked(account, resolved.provider_id)
    by = (_proved_at(person.auth_time), with_second_factor, resolved.provider_id, resolved.identity_id, email)
    return ByUpstream(account.id, account.session_epoch, *by)


def _factor_asked(account: Credentials, provider_id: UUID | None) -> MfaRequired:
    """Return what asks for the second factor; its ticket is no good once the identity is removed."""
    ticket = mfa_token.mint(Authenticated(account.id, account.session_epoch), BY_UPSTREAM, provider_id)
    return MfaRequired(mfa_token=ticket, methods=account.methods)


def _proved_at(auth_time: int) -> datetime:
    """Return when somebody has authenticated at the provider: long ago where it does not say, and never after now.

    So what needs a recent proof asks for one here, unless the provider has signed that there was one.
    """
    return min(datetime.fromtimestamp(auth_time, UTC), clock.now()) if auth_time else LONG_AGO


async def accept_terms(*, waiting_id: UUID, browser: str, version: str, auth_time: int = 0) -> ByUpstream | Step | None:
    """Make the account of an identity that waits for consent to the terms, and return the proof of it.

    Args:
        waiting_id: The sign-in in whose row it waits.
        browser: What this browser's cookie says.
        version: Of the terms that the person has accepted.
        auth_time: When they have authenticated at the provider, unix seconds; 0 where it did not say.

    Returns:
        The proof; what comes first, where the rules say something else by now; None where nothing waits any more.

    Raises:
        ValidationFailed: (400) The terms are not accepted, or were another version.
        UpstreamRefused: (401) The provider is no longer enabled, or an invitation was used meanwhile.
        InvalidCredentials: (401) The account cannot be used.
        MfaRequired: (401) It has a second factor.
        PasswordChangeRequired: (403) Staff have asked for another password.
    """
    terms.require_accepted(version)
    asked: dict[str, Any] = {"waiting_id": waiting_id, "browser": browser}
    try:
        resolved = await database().write(units.accept_terms, **asked)
    except IntegrityError:  # the address, or the identity, was taken in this moment
        resolved = await database().write(units.accept_terms, **asked)
    if resolved is None or resolved.step is not None:
        return resolved and resolved.step
    account = units.require_usable(resolved.account)
    await accounts.require_admissible(account)
    if account.methods:
        raise _factor_asked(account, resolved.provider_id)
    return ByUpstream(account.id, account.session_epoch, _proved_at(auth_time), provider_id=resolved.provider_id)


async def stays(provider: Provider) -> bool:
    """Tell whether an identity stays in the row of its sign-in until a session is open, though it is known here.

    The session is noted then, where the provider says who signs out there, and the tokens are kept, where they are.

    Raises:
        UpstreamUnavailable: It does not answer.
    """
    return provider.keep_tokens or (await discovery.endpoints(provider.id, provider.issuer, provider.kind)).tells_logout


async def signed_out_there(*, provider: Provider, logout_token: str) -> None:
    """End what began in the session at the provider that has ended there; a token used before ends nothing.

    Args:
        provider: Which one it is.
        logout_token: A JWT of the provider (OpenID Connect Back-Channel Logout §2.4).

    Raises:
        UpstreamRefused: (401) the logout token does not hold.
        UpstreamUnavailable: (503) the provider's keys could not be fetched.
    """
    where = await discovery.endpoints(provider.id, provider.issuer, provider.kind)
    try:
        if not where.jwks_uri:
            raise UpstreamRefused("kind")
        told = await id_token.signed_out(
            logout_token, client_id=provider.client_id, endpoints=where, kind=provider.kind
        )
    except UpstreamRefused as error:
        log.warning("upstream_logout_refused", provider=provider.slug, cause=error.cause)
        raise
    ended = await database().write(
        session_units.signed_out_there, provider_id=provider.id, slug=provider.slug, told=told
    )
    log.info("upstream_signed_out", provider=provider.slug, sessions=ended)


def begun_in(*, session_id: UUID, epoch: int) -> str:
    """Return the page of a sign-in that connects an identity: the session that has asked for it.

    Args:
        session_id: Which one.
        epoch: Of the account, as the session knows it.
    """
    return f"{session_id}:{epoch}"


async def connect(*, provider: Provider, begun: Begun, answer: Mapping[str, str]) -> list[str] | None:
    """Link the identity that somebody brings back, as they have asked here; return what ``units.connect`` does.

    Args:
        provider: Which one it is.
        begun: The sign-in, used up.
        answer: The parameters the browser has brought.

    Raises:
        UpstreamRefused: (401) the provider refused, or its answer does not hold.
        UpstreamUnavailable: (503) it does not answer.
        IdentityTaken: (409) it is another account's, or they have one of this provider.
        NotAuthenticated: (401) the account is gone or inactive, or the session is over.
    """
    try:
        person = await answers.person_of(provider, answer)
        return await database().write(session_units.connect, provider_id=provider.id, begun=begun, person=person)
    except UpstreamRefused as error:
        await _note_refusal(Event.IDENTITY_LINKED, provider, error, begun.user_id)
        raise


async def _note_refusal(event: Event, provider: Provider, error: UpstreamRefused, user_id: UUID | None = None) -> None:
    """Leave in the log and in the trail what did not hold; of a sign-in it is not known whose it was."""
    log.warning("upstream_refused", provider=provider.slug, cause=error.cause)
    details = {"reason": Reason.PROVIDER_REFUSED, "provider": provider.slug, "cause": error.cause}
    await audit.record_later(event, outcome=Outcome.FAILURE, actor_id=user_id, user_id=user_id, details=details)


async def _resolved(provider: Provider, begun: Begun, person: UpstreamPerson) -> units.Resolved:
    """Return what the identity opens; where two of its first sign-ins met, the second finds what the first made."""
    keep = await stays(provider)
    who: dict[str, Any] = {"provider_id": provider.id, "person": person}
    if not keep and (found := await database().read(units.known, **who)) is not None:
        return found
    asked = {**who, "waiting_id": begun.id, "keep": keep}
    try:
        return await database().write(units.resolve, **asked)
    except IntegrityError:
        return await database().write(units.resolve, **asked)
