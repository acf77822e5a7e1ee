"""Units of work of the accounts of one browser at this site's own pages: who is there, switching, signing out.

An account is there by an SSO session of the browser, by the session of the account's pages, or by both. A switch opens
the latter from the former, and leaves an SSO session in place of the one that it ends: nobody is signed out by it, and
nobody proves anything by it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions import browser_sessions, refresh_token, sso_session
from tokens.sessions.browser_sessions import BrowserSession
from tokens.sessions.ends import queries as session_ends
from tokens.sessions.models import FIRST_PARTY_CLIENT
from tokens.sessions.queries import OpenedSession, StoredSession
from tokens.sessions.refresh import queries as refresh_queries
from tokens.sessions.sso_session import SsoCookie
from tokens.sign_in import going_on
from tokens.upstream import noting as upstream


class Here(NamedTuple):
    """An account that is signed in in a browser.

    Attributes:
        held: Its SSO session there; None without one.
        own: Its session of the account's pages; None for any other account than the present one.
    """

    held: BrowserSession | None
    own: StoredSession | None

    @property
    def session(self) -> StoredSession:
        """Return the session that names it in forms."""
        found = self.held.session if self.held is not None else self.own
        assert found is not None
        return found


class Kept(NamedTuple):
    """The SSO session that keeps an account in the browser.

    Attributes:
        cookie: What names it.
        at: When it was opened.
    """

    cookie: SsoCookie
    at: datetime


class MovedOn(Exception):
    """The session of the account's pages was refreshed elsewhere, and nothing has happened here."""


def of_browser(named: Sequence[SsoCookie], token: str) -> list[Here]:
    """Return the accounts of a browser, the one of the account's pages first. 1 query for each session.

    Args:
        named: The SSO sessions that its cookies name.
        token: Its refresh token of the account's pages; "" without one.
    """
    held = browser_sessions.live(named)
    own = _own(token)
    if own is None:
        return [Here(one, None) for one in held]
    same = next((one for one in held if one.session.account.id == own.account.id), None)
    return [Here(same, own), *(Here(one, None) for one in held if one is not same)]


def go_on(
    chosen: BrowserSession, *, here: Sequence[Here], context: ClientContext, browser: str
) -> tuple[OpenedSession, SsoCookie | None]:
    """Open a session of the account's pages for an account that is signed in in the browser.

    The one that the browser has there ends; its account stays signed in by an SSO session.

    Args:
        chosen: The SSO session of the account.
        here: The accounts of the browser.
        context: Where the request comes from, with the refresh token that is replaced.
        browser: What our pages know the browser by; "" for nothing.

    Returns:
        The opened session, and the SSO session that was opened for the account before, if one was.

    Raises:
        NotAuthenticated: A session is over.
    """
    stays = keep(here, context=context, browser=browser, chosen=chosen)
    opened = going_on.at_the_pages(chosen.session, context=context)
    upstream.note_same(session_id=chosen.session.id, as_session_id=opened.session_id)
    browser_sessions.note(opened.session_id, browser)
    return opened, stays.cookie if stays is not None else None


def keep(
    here: Sequence[Here], *, context: ClientContext, browser: str, chosen: BrowserSession | None = None
) -> Kept | None:
    """Open an SSO session for the account of the account's pages where it has none in the browser, and return it.

    It lives no longer than the session that it goes on from. Where the browser has too many, the last one that it names
    ends.

    Args:
        here: The accounts of the browser.
        context: Where the request comes from.
        browser: What our pages know the browser by: an older token that another one shows is found out at once.
        chosen: The SSO session that is gone on from, which stays.

    Raises:
        NotAuthenticated: That session is over.
    """
    own = here[0].own if here and here[0].held is None else None
    if own is None:
        return None
    beside = [one.held.cookie for one in here if one.held is not None]
    beside.sort(key=lambda one: chosen is None or one != chosen.cookie)  # the chosen one first
    opened = going_on.single_sign_on(own, beside=beside, context=context)
    cookie, stored = sso_session.parse_cookie(opened.refresh_token), opened.stored
    assert cookie is not None
    assert stored is not None
    browser_sessions.note_origin(opened.session_id, own, browser=browser)
    upstream.note_same(session_id=own.id, as_session_id=opened.session_id)
    return Kept(cookie, stored.last_used_at)


def beside(
    here: Sequence[Here], *, token: str, context: ClientContext
) -> tuple[SsoCookie | None, OpenedSession | None]:
    """Keep the account of the account's pages in the browser, for another one to sign in beside it. See ``keep``.

    Its session there moves on by one refresh: a copy of its token is found out when it is used. A second click brings
    the token of before. It gets what the first one got, as a refresh does within its grace, and moves nothing on: what
    was opened anew for such a token would be found out by nobody.

    Args:
        here: The accounts of the browser.
        token: Its refresh token of the account's pages.
        context: Where the request comes from.

    Returns:
        The SSO session that was opened, and the session of the pages with its next token; None where none was.

    Raises:
        MovedOn: The session of the pages has moved on since the browser got its token, and not by this.
        NotAuthenticated: That session is over.
    """
    own = here[0].own if here and here[0].held is None else None
    if own is None:
        return None, None
    parsed = refresh_token.parse(token)
    if parsed is None or parsed.generation != own.generation:
        again = browser_sessions.kept_by_last_step(own, context.browser)
        if again is None:
            raise MovedOn
        return again, refresh_queries.as_it_is(own)
    stays = keep(here, context=context, browser=context.browser)
    moved = refresh_queries.moved_on(own, now=stays.at) if stays is not None else None
    if stays is None or moved is None:
        raise MovedOn
    return stays.cookie, moved


def sign_out(ended: Sequence[Here]) -> None:
    """End the sessions of these accounts in the browser, as somebody there asks.

    Args:
        ended: The accounts.
    """
    for one in ended:
        if one.held is not None:
            browser_sessions.end(one.held)
        if one.own is not None:
            session_ends.sign_out(one.own)


def of(here: Sequence[Here], session_id: UUID | None) -> Here | None:
    """Return the account that a form names by its session; None for any other.

    Args:
        here: The accounts of the browser.
        session_id: What the form says.
    """
    return next((one for one in here if one.session.id == session_id), None)


def _own(token: str) -> StoredSession | None:
    """Return the session of the account's pages that a refresh token is good for now, of its person alone.

    An older token names nobody here, as it is worth nothing elsewhere: it may be a copy.
    """
    parsed = refresh_token.parse(token)
    found = refresh_queries.usable(parsed=parsed) if parsed is not None else None
    if found is None or found.client_id != FIRST_PARTY_CLIENT or found.dpop_jkt or found.actor_id is not None:
        return None
    return found if sso_session.signs_in(found) else None
