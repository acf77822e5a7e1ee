"""Handing people everything held about them; async, keyword-only."""

import uuid

from accounts.audit import recording as audit
from accounts.lockout import rate_limits
from accounts.privacy import export
from accounts.users.outputs import ExportOut
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger


async def export_own_data(*, user_id: uuid.UUID, session_id: uuid.UUID | None = None) -> ExportOut:
    """Return everything held about the person, ``export.MOST_ROWS`` rows of a section, with an event in the trail.

    Args:
        user_id: The person who is signed in.
        session_id: The session it is done in, for the trail.

    Raises:
        Throttled: After too many in an hour.
    """
    await rate_limits.admit_account(rate_limits.EXPORT, user_id=user_id)
    held = await database().read(export.collect, user_id)
    # Read first, and on a reader's thread: SQLite's only writer is not kept waiting. Nothing is handed out unrecorded.
    await database().write(
        audit.record, audit.Event.DATA_EXPORTED, actor_id=user_id, user_id=user_id, session_id=session_id
    )
    get_logger().info("data_exported", user_id=str(user_id), by=str(user_id))
    return held
