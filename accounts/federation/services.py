"""What people do with their identities; async, keyword-only, never sees a request."""

from uuid import UUID

from accounts.federation import removal
from ironauth.infrastructure.db.unit_of_work import database


async def unlink(*, user_id: UUID, identity_id: UUID, session_id: UUID) -> None:
    """Take an identity away, and end the sessions that began with it, but for the one in which this is asked.

    Args:
        user_id: Whose it is.
        identity_id: Which one.
        session_id: The session that asks.

    Raises:
        NotFound: The person has no such identity.
        LastWayIn: They could not sign in without it.
        NotAuthenticated: The account is gone or inactive.
    """
    await database().write(removal.unlink, user_id=user_id, identity_id=identity_id, session_id=session_id)
