"""The session that a browser had at this site's own pages, when somebody signs in there anew: it ends.

Its cookie is overwritten, so nobody could use or end it there any more; who had copied the cookie could. It is known by
the cookie that the sign-in replaces, so programs that hold several tokens by intent, which bring none, keep theirs.
Sessions of single sign-on have a rule of their own: there several people may be signed in beside each other
(``sso_browser``), each in a session that the browser keeps.
"""

from uuid import UUID

from ironauth.infrastructure.core import clock
from tokens.sessions import refresh_token
from tokens.sessions import units as sessions
from tokens.sessions.models import FIRST_PARTY_CLIENT, Session
from tokens.sessions.refresh import units as session_rotation


def end(token: str, *, user_id: UUID) -> UUID | None:
    """End the session that the replaced cookie names, whoever's it is. 1 query, and what ending takes.

    Of the same person it is no sign-out, and the event of the sign-in names it. Of another one, or of a member of staff
    who acts as a person, it is one.

    Args:
        token: The refresh token; "" for none.
        user_id: Who has just signed in.

    Returns:
        The session of the same person that has ended; None for any other.
    """
    parsed = refresh_token.parse(token) if token else None
    found = session_rotation.session_of(parsed=parsed) if parsed is not None else None
    if found is None or found.client_id != FIRST_PARTY_CLIENT or found.is_over(clock.now()):
        return None
    if found.account.id != user_id or found.actor_id is not None:
        sessions.sign_out(session_id=found.id, user_id=found.account.id, actor_id=found.actor_id)
        return None
    return found.id if sessions.end_session(session_id=found.id, reason=Session.RevokeReason.SIGNED_OUT) else None
