"""Units of work on registered rows by staff and machines. Each checks the caller's rights in its own transaction."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec
from django.db.models import QuerySet

from accounts.access.rights import rights_of
from ironauth.infrastructure.core.errors import NotFound, ValidationFailed
from tokens.registered import changes
from tokens.registered.kind import Kind, Registered, Shown


def shown_rows[Row: Registered, Out: Shown](kind: Kind[Row, Out]) -> list[Out]:
    """Return the rows in their order. One query."""
    return [_shown(kind, row) for row in kind.rows()[: kind.most]]


def shown_row[Row: Registered, Out: Shown](kind: Kind[Row, Out], row_id: UUID) -> Out:
    """Return one row. One query.

    Args:
        kind: The row's kind.
        row_id: The row.

    Raises:
        NotFound: There is none with this id.
    """
    return _shown(kind, _found(kind, kind.rows().filter(pk=row_id)))


def lock[Row: Registered](kind: Kind[Row, Any], row_id: UUID) -> Row:
    """Return one row, locked until the transaction ends.

    Args:
        kind: The row's kind.
        row_id: The row.

    Raises:
        NotFound: There is none with this id.
    """
    return _found(kind, kind.rows().select_for_update().filter(pk=row_id))


def create[Row: Registered, Out: Shown](kind: Kind[Row, Out], *, actor_id: UUID, values: Mapping[str, Any]) -> Out:
    """Register a row.

    Args:
        kind: The row's kind.
        actor_id: The member of staff, or the machine.
        values: The fields that were sent.

    Raises:
        PermissionDenied: The caller may not.
        ValidationFailed: Naming every bad field.
        IntegrityError: The identifier was taken meanwhile.
    """
    rights_of(actor_id).require(kind.rights["POST"])
    row = kind.model(**kind.tidied(values))
    _judge(kind, row)
    changes.create(kind, row, actor_id=actor_id)
    return _shown(kind, row)


def change[Row: Registered, Out: Shown](
    kind: Kind[Row, Out], *, actor_id: UUID, row_id: UUID, values: Mapping[str, Any]
) -> Out:
    """Change the fields that are sent; one that keeps its value is no change and leaves no trace in the trail.

    Args:
        kind: The row's kind.
        actor_id: The member of staff, or the machine.
        row_id: The row; locked until the transaction ends.
        values: The fields that were sent.

    Raises:
        NotFound: There is none with this id.
        PermissionDenied: The caller may not.
        ValidationFailed: Naming every bad field.
    """
    rights_of(actor_id).require(kind.rights["PATCH"])
    row = lock(kind, row_id)
    given = kind.tidied(values)
    changed = [name for name in kind.changeable if name in given and given[name] != getattr(row, name)]
    if changed:
        for name in changed:
            setattr(row, name, given[name])
        _judge(kind, row)
        changes.change(kind, row, fields=changed, actor_id=actor_id)
    return _shown(kind, row)


def delete(kind: Kind[Any, Any], *, actor_id: UUID, row_id: UUID) -> None:
    """Delete a row.

    Args:
        kind: The row's kind.
        actor_id: The member of staff, or the machine.
        row_id: The row.

    Raises:
        NotFound: There is none with this id.
        PermissionDenied: The caller may not.
    """
    rights_of(actor_id).require(kind.rights["DELETE"])
    changes.delete(kind, lock(kind, row_id), actor_id=actor_id)


def _found[Row: Registered](kind: Kind[Row, Any], rows: QuerySet[Row]) -> Row:
    row = rows.first()
    if row is None:
        raise NotFound(kind.missing)
    return row


def _shown[Row: Registered, Out: Shown](kind: Kind[Row, Out], row: Row) -> Out:
    return msgspec.convert(row, kind.out, from_attributes=True)


def _judge[Row: Registered](kind: Kind[Row, Any], row: Row) -> None:
    """Raise ``ValidationFailed`` for what no such row may be."""
    if problems := kind.problems_of(row):
        raise ValidationFailed(errors=problems)
