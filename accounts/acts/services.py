"""Acts on one person; async, keyword-only."""

import uuid

from accounts.acts import units
from accounts.acts.change import Change
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger


async def perform(*, actor_id: uuid.UUID, user_id: uuid.UUID, change: Change) -> None:
    """Do to one person what the admin does to those who are ticked.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.
        change: The act.

    Raises:
        NotFound: There is no such user.
        PermissionDenied: The caller may not do it, or not to this person.
        NothingToDo: It does not concern this account.
    """
    await database().write(units.perform, actor_id=actor_id, user_id=user_id, change=change)
    get_logger().info("act_on_user", action=change.name, user_id=str(user_id), by=str(actor_id))
