"""The SSO sessions of one browser in which several people are signed in: one of them is the current one.

The cookie of ``sso_session`` names the current one, and everything but the choice of an account reads that alone. A
second cookie names the others, the last used first, each as the first cookie would. A session that is named and is not
live is left out and forgotten; so is one that is named by a cookie this server did not make.
"""

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from accounts.users.outputs import Account
from ironauth.config import cookies as cookie_names
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import DomainError, NotAuthenticated
from ironauth.infrastructure.http import client_context, cookies
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions import sso_session
from tokens.sessions import units as sessions
from tokens.sessions.models import Session
from tokens.sessions.queries import OpenedSession, StoredSession
from tokens.sessions.sso_session import MOST_IN_BROWSER, SEPARATOR, SsoCookie

MOST_OTHERS: Final = MOST_IN_BROWSER - 1


class BrowserSession(NamedTuple):
    """A session of the browser, and the cookie that names it."""

    cookie: SsoCookie
    session: StoredSession


@dataclasses.dataclass(frozen=True, slots=True)
class BySession:
    """Another session of the same browser, in which the person is signed in already; it proves nothing anew.

    What is opened for it is authenticated as that session is, and when that was: what asks for a recent proof asks.
    """

    session: StoredSession

    @property
    def user_id(self) -> UUID:
        """Whose session it is."""
        return self.session.account.id

    @property
    def session_epoch(self) -> int:
        """The epoch that it was opened under."""
        return self.session.epoch

    @property
    def amr(self) -> str:
        """How that session was authenticated."""
        return self.session.amr

    @property
    def proved_at(self) -> datetime:
        """When that was."""
        return self.session.authenticated_at

    def details(self) -> dict[str, str]:
        """Return what the trail has of it."""
        return {"goes_on_from": str(self.session.id)}

    def consume(self) -> None:
        """Do nothing: a session may be gone on from again."""

    def hold(self) -> None:
        """Hold the session until the commit. Raises ``NotAuthenticated`` where it is over. 1 query.

        Who ends it at this moment waits, and then finds what began in it. Call it after room was made.
        """
        alive = Session.objects.filter(pk=self.session.id).live(clock.now()).order_by()
        if not alive.select_for_update(of=("self",)).values_list("pk", flat=True).first():
            raise NotAuthenticated

    def reset_counters(self, context: ClientContext) -> None:
        """Do nothing: nothing was tried."""

    def account_changed(self) -> DomainError:
        """Return that the person signs in anew."""
        return NotAuthenticated()

    async def record_refusal(self, error: DomainError, context: ClientContext) -> None:
        """Leave nothing in the trail: the end of the session is there."""


def read_all(request: HttpRequest | Request) -> tuple[SsoCookie, ...]:
    """Return what the browser brings: the current session first, if it names one, then the others."""
    current = sso_session.read_cookie(request)
    return (() if current is None else (current,)) + sso_session.read_others(request)


def live(named: Sequence[SsoCookie]) -> list[BrowserSession]:
    """Return those of the sessions that sign their person in, in their order. 1 query each, at most 5."""
    return [held for held in to_end(named) if sso_session.signs_in(held.session)]


def to_end(named: Sequence[SsoCookie]) -> list[BrowserSession]:
    """Return those of the sessions that were neither revoked nor have expired, each once. 1 query each, at most 5."""
    found: dict[UUID, BrowserSession] = {}
    for cookie in dict.fromkeys(named):
        session = sso_session.find_to_end(cookie)
        if session is not None:
            found.setdefault(session.id, BrowserSession(cookie, session))
    return list(found.values())


def store(
    *,
    account: Account,
    context: ClientContext,
    amr: str,
    authenticated_at: datetime,
    current: SsoCookie | None,
    others: Sequence[SsoCookie],
    keeps: bool,
    until: datetime | None = None,
) -> OpenedSession:
    """Store the browser's current SSO session, beside those of other people.

    A person has one: who is signed in here already stays in their session, whether it is the current one or not. The
    current session of somebody else ends, unless they asked to keep it. The session that was used longest ago ends
    where there are too many. 1 query for each session that is named, and what ``sso_session.store`` takes.

    Args:
        account: Whose session it is.
        context: Where the sign-in comes from.
        amr: How the person proved who they are (RFC 8176).
        authenticated_at: When they did.
        current: The session that the browser's cookie named until now.
        others: Those that its second cookie names.
        keeps: Whether the person has asked to sign in beside the one who is signed in.
        until: When it ends at the latest; None: as long after now as the settings say.

    Returns:
        The opened session, with ``others``.
    """
    held = live(others if current is None else (current, *others))
    mine = next((one for one in held if one.session.account.id == account.id), None)
    beside = [one for one in held if one.session.account.id != account.id]
    kept = [one for one in beside if keeps or one.cookie != current][:MOST_OTHERS]
    for surplus in held:
        if surplus is not mine and surplus not in kept:
            end(surplus)
    opened = sso_session.store(
        account=account,
        context=context,
        amr=amr,
        authenticated_at=authenticated_at,
        previous=mine.session if mine is not None else None,
        until=until,
    )
    return dataclasses.replace(opened, others=tuple(one.cookie.text for one in kept))


def kept_by_last_step(own: StoredSession, browser: str) -> SsoCookie | None:
    """Return the SSO session that was opened by the step that moved this session on last; None for any other step.

    It is as it was then: one in which the person has signed in meanwhile belongs to who has. And for the browser alone
    in which it was opened: its cookie is never refreshed, so that who had it by a copied token would be found out by
    nobody. 1 query.

    Args:
        own: The session of the account's pages, as it is now.
        browser: What our pages know the browser by; "" for nothing.
    """
    known = sessions.browser_mac(browser)
    if own.rotated_at is None or not known:
        return None
    same = {"user_id": own.account.id, "amr": own.amr, "authenticated_at": own.authenticated_at, "browser": known}
    found = Session.objects.filter(goes_on_from=own.id, created_at=own.rotated_at, **same).live(clock.now())
    row = found.order_by().values_list("pk", "secret", "master_key_id").first()
    if row is None:
        return None
    session_id, secret, key_id = row
    return sso_session.parse_cookie(
        sso_session.mint_cookie(session_id=session_id, secret=bytes(secret), master_key_id=key_id)
    )


def kept_elsewhere(own: StoredSession) -> bool:
    """Return whether another browser than the one that asks has gone on from this session within the last grace.

    A browser that our pages do not know is no browser's other self: what it has not opened was opened elsewhere.
    1 query.

    Args:
        own: The session of the account's pages, of which an older token is shown.
    """
    since = clock.now() - timedelta(seconds=settings.IRONAUTH_REFRESH_GRACE_S)
    opened = Session.objects.filter(goes_on_from=own.id, created_at__gt=since).order_by()
    known = sessions.browser_mac(client_context.current_browser())
    return (opened.exclude(browser=known) if known else opened).exists()


def note_origin(session_id: UUID, origin: StoredSession, *, browser: str) -> None:
    """Note which session of the account's pages an SSO session goes on from, and which browser has opened it. 1 query.

    Args:
        session_id: The SSO session.
        origin: The session that it goes on from, and may outlive.
        browser: What our pages know the browser by; "" for nothing.
    """
    known = sessions.browser_mac(browser)
    Session.objects.filter(pk=session_id).update(goes_on_from=origin.id, browser=known)


def note(session_id: UUID, browser: str) -> None:
    """Note which browser a session of the account's pages is in. 1 query.

    Args:
        session_id: The session.
        browser: What our pages know it by; "" for nothing.
    """
    Session.objects.filter(pk=session_id).update(browser=sessions.browser_mac(browser))


def give(response: HttpResponse, held: Sequence[BrowserSession]) -> None:
    """Let the browser bring these sessions from now on.

    Args:
        response: What it is told with.
        held: The sessions, the current one first; there is at least that.
    """
    current, *others = held
    age = int((current.session.absolute_expires_at - clock.now()).total_seconds())
    sso_session.give_cookie(response, current.cookie.text, max_age_s=age)
    give_others(response, [one.cookie.text for one in others])


def give_opened(request: HttpRequest | Request, response: HttpResponse, opened: SsoCookie, *, keeps: bool) -> None:
    """Give a browser once more what ``store`` has opened in it, where it may have dropped that answer.

    Args:
        request: What the browser brings: what it was given, or what it had before.
        response: What it is told with.
        opened: The session.
        keeps: As of ``store``.
    """
    current, others = sso_session.read_cookie(request), sso_session.read_others(request)
    if current == opened:
        return
    sso_session.give_cookie(response, opened.text, max_age_s=settings.IRONAUTH_SSO_ABSOLUTE_S)
    beside = (current, *others) if keeps and current is not None else others
    if others or keeps:
        give_others(response, [one.text for one in beside if one.session_id != opened.session_id][:MOST_OTHERS])


def give_others(response: HttpResponse, texts: Sequence[str]) -> None:
    """Let the browser bring these sessions beside the current one.

    Args:
        response: What it is told with.
        texts: What cookies say of them; none: the browser forgets those it brings.
    """
    age = settings.IRONAUTH_SSO_ABSOLUTE_S if texts else 0
    cookies.give(response, cookie_names.SSO_OTHERS, SEPARATOR.join(texts), max_age_s=age)


def end(held: BrowserSession) -> None:
    """Unit of work: end a session of the browser, as somebody there asks. What ``sso_session.end`` takes."""
    sso_session.end(session_id=held.session.id, user_id=held.session.account.id)


def forget(request: HttpRequest | Request, response: HttpResponse, held: Sequence[BrowserSession]) -> None:
    """Let the browser bring these of its sessions alone. No other one becomes the current one by that.

    So nobody goes on as somebody they have not chosen.

    Args:
        request: What the browser brings.
        response: What it is told with.
        held: The sessions that are left.
    """
    current = sso_session.read_cookie(request)
    if sso_session.cookie_name() in request.COOKIES and all(one.cookie != current for one in held):
        sso_session.clear_cookie(response)
    if sso_session.read_others(request):
        give_others(response, [one.cookie.text for one in held if one.cookie != current])


def of(held: Sequence[BrowserSession], session_id: UUID | None) -> BrowserSession | None:
    """Return a session of the browser, None for any other.

    Args:
        held: The sessions of the browser.
        session_id: The id of the one that is meant.
    """
    return next((one for one in held if one.session.id == session_id), None)
