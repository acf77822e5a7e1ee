"""Lists for those who hold a right: the right is read from the primary, the list from a replica where there is one."""

import uuid
from collections.abc import Callable

from accounts.access.rights import for_holder, rights_of
from ironauth.infrastructure.db.unit_of_work import database


async def list_for_holder[**P, T](
    user_id: uuid.UUID, permission: str, unit: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return what ``unit`` returns to somebody who holds ``permission``.

    Args:
        user_id: The caller, who has to hold the permission.
        permission: ``app_label.codename``.
        unit: What is listed or searched; it may be up to ``IRONAUTH_REPLICA_MAX_LAG_S`` old.
        *args: Passed on to ``unit``.
        **kwargs: Passed on to ``unit``.

    Raises:
        PermissionDenied: The caller does not hold it; ``unit`` has not run.
        NotAuthenticated: The caller's account is gone or inactive.
    """
    if not database().has_replica:
        return await database().read(for_holder, user_id, permission, unit, *args, **kwargs)
    (await database().read(rights_of, user_id)).require(permission)
    return await database().read_stale(unit, *args, **kwargs)
