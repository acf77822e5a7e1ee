"""What staff and machines do with one role; async, keyword-only."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.db import IntegrityError

from accounts.access.rights import VIEW_ROLES, for_holder
from accounts.errors import RoleExists, RoleProtected
from accounts.staff.roles import units
from accounts.users.outputs import RoleOut
from ironauth.infrastructure.api.conditional import Edited
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger

#: A role, as ``get_role`` shows it, for changes under a condition.
EDITED: Final = Edited(show=units.role_by_name, lock=units.lock)


async def get_role(*, actor_id: uuid.UUID, role: str) -> RoleOut:
    """Return one role.

    Args:
        actor_id: The member of staff, or the machine.
        role: Its name, not yet judged.

    Raises:
        PermissionDenied: The caller may not see roles.
        NotFound: There is none of this name.
    """
    return await database().read(for_holder, actor_id, VIEW_ROLES, units.role_by_name, role)


async def change_role(*, actor_id: uuid.UUID, role: str, values: Mapping[str, Any]) -> RoleOut:
    """Change its name or what it grants.

    Args:
        actor_id: The member of staff, or the machine.
        role: Its name, not yet judged.
        values: The validated input; a field that is not in it stays as it is.

    Raises:
        RoleExists: Another role has the name.
        DomainError: What ``units.change_role`` raises.
    """
    try:
        changed = await database().write(units.change_role, actor_id=actor_id, name=role, values=values)
    except IntegrityError as error:  # given to another one in this very moment
        raise RoleExists from error
    get_logger().info("role_changed", role=changed.name, by=str(actor_id))
    return changed


async def delete_role(*, actor_id: uuid.UUID, role: str) -> None:
    """Delete it.

    Args:
        actor_id: The member of staff, or the machine.
        role: Its name, not yet judged.

    Raises:
        RoleProtected: Rows of another application forbid it.
        DomainError: What ``units.delete_role`` raises.
    """
    try:
        await database().write(units.delete_role, actor_id=actor_id, name=role)
    except IntegrityError as error:  # Django's ProtectedError and RestrictedError are such
        raise RoleProtected from error
    get_logger().info("role_deleted", role=role, by=str(actor_id))


async def require_permissions(names: Iterable[str]) -> None:
    """Raise ``ValidationFailed`` naming every permission of ``names`` that does not exist."""
    await database().read(units.require_permissions, names)
