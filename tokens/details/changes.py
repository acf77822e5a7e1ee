"""What is done to registered types: make, change, delete. Each leaves an audit event; fields are judged before."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.db import transaction

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from tokens.details.models import DetailType

#: All that may be changed.
CHANGEABLE: Final = ("words", "members", "unattended", "active")


@transaction.atomic
def create(row: DetailType, *, actor_id: UUID | None = None) -> None:
    """Store a new type.

    Args:
        row: The type, judged.
        actor_id: Who does it.

    Raises:
        IntegrityError: Its identifier was taken meanwhile.
    """
    row.save(force_insert=True)
    _record(Event.DETAIL_TYPE_CREATED, row, actor_id, active=row.active)


@transaction.atomic
def change(row: DetailType, *, fields: Sequence[str], actor_id: UUID | None = None) -> None:
    """Store changed ``fields``, all but the identifier.

    Args:
        row: The type with the new values set, judged.
        fields: The names of the fields that were set, for the trail.
        actor_id: Who does it.
    """
    row.save(update_fields=CHANGEABLE)
    told = {"active": row.active} if "active" in fields else {}
    _record(Event.DETAIL_TYPE_CHANGED, row, actor_id, fields=sorted(fields), **told)


@transaction.atomic
def delete(row: DetailType, *, actor_id: UUID | None = None) -> None:
    """Delete the type: requests for it are refused, and grants give no more of it.

    Args:
        row: The type.
        actor_id: Who does it.
    """
    _record(Event.DETAIL_TYPE_DELETED, row, actor_id)
    row.delete()


def _record(event: Event, row: DetailType, actor_id: UUID | None, **details: object) -> None:
    audit.record(event, actor_id=actor_id, details={"type": row.identifier, **details})
