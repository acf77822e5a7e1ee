"""What staff and machines do with registered rows of one kind; async, keyword-only."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from accounts.access.rights import for_holder
from ironauth.infrastructure.api.conditional import Edited
from ironauth.infrastructure.core.errors import FieldError, ValidationFailed
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.registered import units
from tokens.registered.kind import Kind, Registered, Shown


def edited(kind: Kind[Any, Any]) -> Edited:
    """Return what changes of one row under a condition need; ``read`` shows the same."""
    return Edited(show=partial(units.shown_row, kind), lock=partial(units.lock, kind))


async def list_all[Row: Registered, Out: Shown](kind: Kind[Row, Out], *, actor_id: UUID) -> list[Out]:
    """Return the rows in their order.

    Args:
        kind: The kind of the rows.
        actor_id: The member of staff, or the machine.

    Raises:
        PermissionDenied: The caller may not see them.
    """
    return await database().read(for_holder, actor_id, kind.rights["GET"], partial(units.shown_rows, kind))


async def read[Row: Registered, Out: Shown](kind: Kind[Row, Out], *, actor_id: UUID, row_id: UUID) -> Out:
    """Return one row.

    Args:
        kind: The row's kind.
        actor_id: The member of staff, or the machine.
        row_id: The row.

    Raises:
        PermissionDenied: The caller may not see it.
        NotFound: There is none with this id.
    """
    return await database().read(for_holder, actor_id, kind.rights["GET"], partial(units.shown_row, kind, row_id))


async def create[Row: Registered, Out: Shown](
    kind: Kind[Row, Out], *, actor_id: UUID, values: Mapping[str, Any]
) -> Out:
    """Register a row.

    Args:
        kind: The row's kind.
        actor_id: The member of staff, or the machine.
        values: The fields that were sent.

    Raises:
        PermissionDenied: The caller may not.
        ValidationFailed: Naming every bad field.
    """
    try:
        made = await database().write(units.create, kind, actor_id=actor_id, values=values)
    except IntegrityError as error:  # another request has registered it at this moment
        raise ValidationFailed(errors=[FieldError("identifier", "taken", kind.taken)]) from error
    get_logger().info(kind.created.value, by=str(actor_id), **{kind.word: made.identifier})
    return made


async def change[Row: Registered, Out: Shown](
    kind: Kind[Row, Out], *, actor_id: UUID, row_id: UUID, values: Mapping[str, Any]
) -> Out:
    """Change the fields of a row that are sent.

    Args:
        kind: The row's kind.
        actor_id: The member of staff, or the machine.
        row_id: The row.
        values: The fields that were sent.

    Raises:
        NotFound: There is none with this id.
        PermissionDenied: The caller may not.
        ValidationFailed: Naming every bad field.
    """
    changed = await database().write(units.change, kind, actor_id=actor_id, row_id=row_id, values=values)
    get_logger().info(kind.changed.value, by=str(actor_id), **{kind.word: changed.identifier})
    return changed


async def delete(kind: Kind[Any, Any], *, actor_id: UUID, row_id: UUID) -> None:
    """Delete a row.

    Args:
        kind: The row's kind.
        actor_id: The member of staff, or the machine.
        row_id: The row.

    Raises:
        NotFound: There is none with this id.
        PermissionDenied: The caller may not.
    """
    await database().write(units.delete, kind, actor_id=actor_id, row_id=row_id)
    get_logger().info(kind.deleted.value, by=str(actor_id), **{f"{kind.word}_id": str(row_id)})
