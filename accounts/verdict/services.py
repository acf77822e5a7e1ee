"""The verdict for staff over HTTP; async, keyword-only, never sees a request."""

import uuid

from accounts.access.rights import CHANGE_USERS, VIEW_USERS, for_holder
from accounts.verdict import units
from accounts.verdict.outputs import Verdict
from ironauth.infrastructure.db.unit_of_work import database


async def verdict(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> Verdict:
    """Return whether somebody can sign in, and if not, why.

    Args:
        actor_id: The member of staff who asks.
        user_id: The person it is about.

    Raises:
        PermissionDenied: The caller may not see people.
        NotFound: There is no such user.
    """
    return await database().read(for_holder, actor_id, VIEW_USERS, units.verdict_of, user_id)


async def forgive_failures(*, actor_id: uuid.UUID, user_id: uuid.UUID) -> None:
    """Reset the counts of wrong passwords and codes of an account.

    Args:
        actor_id: The member of staff.
        user_id: The person whose counts are reset.

    Raises:
        PermissionDenied: The caller may not change people.
        NotFound: There is no such user.
    """
    await database().write(
        for_holder, actor_id, CHANGE_USERS, units.forgive_failures, user_id=user_id, actor_id=actor_id
    )
