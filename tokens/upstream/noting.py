"""Notes of which sessions began at a provider, for sessions that go on from another one."""

from uuid import UUID

from tokens.upstream.models import UpstreamSession


def note_same(*, session_id: UUID, as_session_id: UUID) -> None:
    """Note that a session goes on from one that began at a provider: it ends with the provider's session, too.

    At most two queries.

    Args:
        session_id: The session that it goes on from.
        as_session_id: The session.
    """
    began = UpstreamSession.objects.filter(session_id=session_id).first()
    if began is not None:
        there = {"provider_id": began.provider_id, "subject": began.subject, "sid": began.sid}
        UpstreamSession.objects.update_or_create(session_id=as_session_id, defaults=there)
