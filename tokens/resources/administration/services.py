"""What staff and machines do with registered APIs; async, keyword-only."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError

from accounts.access.rights import for_holder
from ironauth.infrastructure.api.conditional import Edited
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.resources.administration import units
from tokens.resources.administration.outputs import ResourceOut
from tokens.resources.rules import TAKEN
from tokens.rights import VIEW_RESOURCES

#: An API, as ``get_resource`` shows it, for changes under a condition.
EDITED: Final = Edited(show=units.resource_by_id, lock=units.lock)


async def list_resources(*, actor_id: UUID) -> list[ResourceOut]:
    """Return the APIs by name.

    Args:
        actor_id: The member of staff, or the machine.

    Raises:
        PermissionDenied: The caller may not see them.
    """
    return await database().read(for_holder, actor_id, VIEW_RESOURCES, units.resources)


async def get_resource(*, actor_id: UUID, resource_id: UUID) -> ResourceOut:
    """Return one API.

    Args:
        actor_id: The member of staff, or the machine.
        resource_id: The API.

    Raises:
        PermissionDenied: The caller may not see them.
        NotFound: There is no such API.
    """
    return await database().read(for_holder, actor_id, VIEW_RESOURCES, units.resource_by_id, resource_id)


async def create_resource(*, actor_id: UUID, values: Mapping[str, Any]) -> ResourceOut:
    """Register an API.

    Args:
        actor_id: The member of staff, or the machine.
        values: The fields of ``ResourceCreateInput``.

    Raises:
        PermissionDenied: The caller may not.
        ValidationFailed: Naming every bad field.
    """
    try:
        made = await database().write(units.create, actor_id=actor_id, values=values)
    except IntegrityError as error:  # another request has registered it at this moment
        raise ValidationFailed(errors=[FieldError("identifier", "taken", TAKEN)]) from error
    get_logger().info("resource_created", resource=made.identifier, by=str(actor_id))
    return made


async def change_resource(*, actor_id: UUID, resource_id: UUID, values: Mapping[str, Any]) -> ResourceOut:
    """Change the fields of an API that are sent.

    Args:
        actor_id: The member of staff, or the machine.
        resource_id: The API.
        values: The fields of ``ResourcePatchInput``.

    Raises:
        NotFound: There is no such API.
        PermissionDenied: The caller may not.
        ValidationFailed: Naming every bad field.
    """
    changed = await database().write(units.change, actor_id=actor_id, resource_id=resource_id, values=values)
    get_logger().info("resource_changed", resource=changed.identifier, by=str(actor_id))
    return changed


async def delete_resource(*, actor_id: UUID, resource_id: UUID) -> None:
    """Delete an API.

    Args:
        actor_id: The member of staff, or the machine.
        resource_id: The API.

    Raises:
        NotFound: There is no such API.
        PermissionDenied: The caller may not.
    """
    await database().write(units.delete, actor_id=actor_id, resource_id=resource_id)
    get_logger().info("resource_deleted", resource_id=str(resource_id), by=str(actor_id))
