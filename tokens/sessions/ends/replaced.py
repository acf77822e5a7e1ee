"""The session that a browser had at this site's own pages, when somebody signs in there anew: it ends.

Its cookie is overwritten, so the browser can neither use nor end it any more; a thief who copied the cookie could. It
is known by the cookie that the sign-in replaces, so programs that hold several tokens by intent, which bring none, keep
theirs.
Sessions of single sign-on have a rule of their own: there several people may be signed in beside each other
(``sso_browser``), each in a session that the browser keeps.
"""

from uuid import UUID

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.sessions import queries as session_queries
from tokens.sessions import refresh_token
from tokens.sessions import units as sessions
from tokens.sessions.models import FIRST_PARTY_CLIENT, Session
from tokens.sessions.refresh import units as session_rotation


def named_by(token: str) -> UUID | None:
    """Return the session that a refresh token of this server names, of whatever generation. 1 query at most."""
    parsed = refresh_token.parse(token)
    found = session_rotation.session_of(parsed=parsed) if parsed is not None else None
    return found.id if found is not None else None


def end(context: ClientContext, *, user_id: UUID) -> UUID | None:
    """End the session that the replaced cookie names, of any person. 2 queries, and what ending takes.

    Of the same person it is no sign-out, and the event of the sign-in names it. Of another one, or of a member of staff
    who acts as a person, it is one.

    Args:
        context: Where the sign-in comes from: the cookie, or the session that it named on the way to another provider.
        user_id: Who has just signed in.

    Returns:
        The session of the same person that has ended; None for any other.
    """
    named = UUID(context.replaces) if context.replaces else None
    session_id = named_by(context.previous) if context.previous else named
    found = session_queries.find(session_id) if session_id is not None else None
    if found is None or found.client_id != FIRST_PARTY_CLIENT or found.is_over(clock.now()):
        return None
    if found.account.id != user_id or found.actor_id is not None:
        sessions.sign_out(session_id=found.id, user_id=found.account.id, actor_id=found.actor_id)
        return None
    return found.id if sessions.end_session(session_id=found.id, reason=Session.RevokeReason.SIGNED_OUT) else None
