"""Units of work on sessions that began at another provider: synchronous, one transaction each."""

from uuid import UUID

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from accounts.federation import units as federation
from ironauth.infrastructure.db import single_use
from tokens.sessions import units as sessions
from tokens.sessions.models import Session
from tokens.upstream.id_token import SignedOut
from tokens.upstream.models import UpstreamSession

#: What `single_use` knows logout tokens by.
ONCE = "upstream-logout"


def note_session(*, user_id: UUID, session_id: UUID, waiting_id: UUID, browser: str, by_identity: bool) -> None:
    """Link the identity that waits in this browser, and note which session began with it. At most nine queries.

    Args:
        user_id: Who has just signed in.
        session_id: The session that was opened.
        waiting_id: The sign-in with the provider.
        browser: What this browser's cookie says.
        by_identity: Whether the identity itself has signed them in; if it waits no more, the provider has signed them
            out meanwhile, and the session ends at once.
    """
    shown = federation.link_waiting(user_id=user_id, waiting_id=waiting_id, browser=browser)
    if shown is not None:
        UpstreamSession.objects.update_or_create(
            session_id=session_id,
            defaults={"provider_id": shown.provider_id, "subject": shown.subject, "sid": shown.sid},
        )
    elif by_identity:
        sessions.end_session(session_id=session_id, reason=Session.RevokeReason.SIGNED_OUT)


def signed_out_there(*, provider_id: UUID, slug: str, told: SignedOut) -> int | None:
    """End the sessions that began in a session at the provider, or in any of a subject's, and leave each in the trail.

    Args:
        provider_id: The provider where they have signed out.
        slug: Its short name, for the trail.
        told: What its logout token says.

    Returns:
        How many have ended; None where the token was used before.
    """
    if not single_use.consume(ONCE, told.id, told.expires_at):
        return None
    federation.forget_waiting(provider_id=provider_id, subject=told.subject, sid=told.sid)
    named = {name: value for name, value in (("subject", told.subject), ("sid", told.sid)) if value}
    begun = UpstreamSession.objects.filter(provider_id=provider_id, session__revoked_at=None, **named)
    found = list(begun.values_list("session__user_id", "session_id"))
    if found:
        reason = Session.RevokeReason.SIGNED_OUT
        sessions.end_sessions(session_ids=[session_id for _, session_id in found], reason=reason)
        audit.record_each(Event.SESSION_ENDED, found, actor_id=None, details={"provider": slug})
    return len(found)
