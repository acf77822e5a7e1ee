"""What is done to registered rows: make, change, delete. Each leaves an audit event; fields are judged before."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction

from accounts.audit import recording as audit
from tokens.registered.kind import Kind, Registered


@transaction.atomic
def create[Row: Registered](kind: Kind[Row, Any], row: Row, *, actor_id: UUID | None = None) -> None:
    """Store a new row.

    Args:
        kind: The row's kind.
        row: The row, judged.
        actor_id: Who does it; None for a command.

    Raises:
        IntegrityError: Its identifier was taken meanwhile.
    """
    row.save(force_insert=True)
    audit.record(kind.created, actor_id=actor_id, details={**kind.told(row), "active": row.active})


@transaction.atomic
def change[Row: Registered](
    kind: Kind[Row, Any], row: Row, *, fields: Sequence[str], actor_id: UUID | None = None
) -> None:
    """Store changed ``fields`` and no other: the row may have been read before somebody else changed those.

    Args:
        kind: The row's kind.
        row: The row with the new values set, judged.
        fields: The names of the fields that were set, for the trail.
        actor_id: Who does it; None for a command.
    """
    row.save(update_fields=[name for name in kind.changeable if name in fields])
    told = {**kind.told(row), "fields": sorted(fields)}
    audit.record(
        kind.changed, actor_id=actor_id, details={**told, "active": row.active} if "active" in fields else told
    )


@transaction.atomic
def delete[Row: Registered](kind: Kind[Row, Any], row: Row, *, actor_id: UUID | None = None) -> None:
    """Delete a row.

    Args:
        kind: The row's kind.
        row: The row.
        actor_id: Who does it; None for a command.
    """
    audit.record(kind.deleted, actor_id=actor_id, details=kind.told(row))
    row.delete()
