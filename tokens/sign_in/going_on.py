"""Opening a session of a browser from another one of it, in which the person is signed in already. Units of work."""

from collections.abc import Sequence

from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions.browser_sessions import BySession
from tokens.sessions.queries import OpenedSession, StoredSession
from tokens.sessions.sso_session import SsoCookie
from tokens.sign_in.units import FirstParty, SingleSignOn, open_session


def at_the_pages(session: StoredSession, *, context: ClientContext) -> OpenedSession:
    """Open a session of the account's pages that goes on from an SSO session, and ends with it.

    Args:
        session: The SSO session.
        context: Where the request comes from, with the refresh token that is replaced.

    Raises:
        NotAuthenticated: The SSO session is over.
    """
    return open_session(BySession(session), context=context, kind=FirstParty(session))


def single_sign_on(session: StoredSession, *, beside: Sequence[SsoCookie], context: ClientContext) -> OpenedSession:
    """Open an SSO session that goes on from one of the account's pages, and lives no longer.

    Args:
        session: The session of the account's pages.
        beside: The other SSO sessions of the browser, which stay.
        context: Where the request comes from.

    Raises:
        NotAuthenticated: That session is over.
    """
    kind = SingleSignOn(others=tuple(beside), keeps=True, until=session.absolute_expires_at)
    return open_session(BySession(session), context=context._replace(previous=""), kind=kind)
