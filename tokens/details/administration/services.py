"""What staff and machines do with types of authorization details; async, keyword-only."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError

from accounts.access.rights import for_holder
from ironauth.infrastructure.api.conditional import Edited
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.details.administration import units
from tokens.details.administration.outputs import DetailTypeOut
from tokens.details.rules import TAKEN
from tokens.rights import VIEW_DETAIL_TYPES

#: A type, as ``get_type`` shows it, for changes under a condition.
EDITED: Final = Edited(show=units.type_by_id, lock=units.lock)


async def list_types(*, actor_id: UUID) -> list[DetailTypeOut]:
    """Return the types by identifier.

    Args:
        actor_id: The member of staff, or the machine.

    Raises:
        PermissionDenied: The caller may not see them.
    """
    return await database().read(for_holder, actor_id, VIEW_DETAIL_TYPES, units.types)


async def get_type(*, actor_id: UUID, type_id: UUID) -> DetailTypeOut:
    """Return one type.

    Args:
        actor_id: The member of staff, or the machine.
        type_id: The type.

    Raises:
        PermissionDenied: The caller may not see them.
        NotFound: There is no such type.
    """
    return await database().read(for_holder, actor_id, VIEW_DETAIL_TYPES, units.type_by_id, type_id)


async def create_type(*, actor_id: UUID, values: Mapping[str, Any]) -> DetailTypeOut:
    """Register a type.

    Args:
        actor_id: The member of staff, or the machine.
        values: The fields of ``DetailTypeCreateInput``.

    Raises:
        PermissionDenied: The caller may not.
        ValidationFailed: Naming every bad field.
    """
    try:
        made = await database().write(units.create, actor_id=actor_id, values=values)
    except IntegrityError as error:  # another request has registered it at this moment
        raise ValidationFailed(errors=[FieldError("identifier", "taken", TAKEN)]) from error
    get_logger().info("detail_type_created", type=made.identifier, by=str(actor_id))
    return made


async def change_type(*, actor_id: UUID, type_id: UUID, values: Mapping[str, Any]) -> DetailTypeOut:
    """Change the fields of a type that are sent.

    Args:
        actor_id: The member of staff, or the machine.
        type_id: The type.
        values: The fields of ``DetailTypePatchInput``.

    Raises:
        NotFound: There is no such type.
        PermissionDenied: The caller may not.
        ValidationFailed: Naming every bad field.
    """
    changed = await database().write(units.change, actor_id=actor_id, type_id=type_id, values=values)
    get_logger().info("detail_type_changed", type=changed.identifier, by=str(actor_id))
    return changed


async def delete_type(*, actor_id: UUID, type_id: UUID) -> None:
    """Delete a type.

    Args:
        actor_id: The member of staff, or the machine.
        type_id: The type.

    Raises:
        NotFound: There is no such type.
        PermissionDenied: The caller may not.
    """
    await database().write(units.delete, actor_id=actor_id, type_id=type_id)
    get_logger().info("detail_type_deleted", type_id=str(type_id), by=str(actor_id))
