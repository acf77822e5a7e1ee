"""Units of work on types of authorization details by staff and machines.

Each checks the caller's rights in its own transaction.
"""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from accounts.access.rights import rights_of
from ironauth.infrastructure.core.errors import NotFound, ValidationFailed
from tokens.details import changes, rules
from tokens.details.administration.outputs import DetailTypeOut, detail_type_out
from tokens.details.models import DetailType
from tokens.rights import ADD_DETAIL_TYPES, CHANGE_DETAIL_TYPES, DELETE_DETAIL_TYPES

_NO_TYPE: Final = "There is no type with this id."


def types() -> list[DetailTypeOut]:
    """Return the types by identifier. One query."""
    return [detail_type_out(row) for row in DetailType.objects.all()[: rules.MOST_TYPES]]


def type_by_id(type_id: UUID) -> DetailTypeOut:
    """Return one type. One query.

    Raises:
        NotFound: There is none with this id.
    """
    return detail_type_out(_row(type_id))


def lock(type_id: UUID) -> DetailType:
    """Return one type, locked until the transaction ends.

    Raises:
        NotFound: There is none with this id.
    """
    return _row(type_id, DetailType.objects.select_for_update())


def create(*, actor_id: UUID, values: Mapping[str, Any]) -> DetailTypeOut:
    """Register a type.

    Args:
        actor_id: The member of staff, or the machine.
        values: The fields of ``DetailTypeCreateInput``.

    Raises:
        PermissionDenied: The caller may not.
        ValidationFailed: Naming every bad field.
        IntegrityError: The identifier was taken meanwhile.
    """
    rights_of(actor_id).require(ADD_DETAIL_TYPES)
    row = DetailType(**values)
    _judge(row)
    changes.create(row, actor_id=actor_id)
    return detail_type_out(row)


def change(*, actor_id: UUID, type_id: UUID, values: Mapping[str, Any]) -> DetailTypeOut:
    """Change the fields that are sent; one that keeps its value is no change and leaves no trace in the trail.

    Args:
        actor_id: The member of staff, or the machine.
        type_id: The type; locked until the transaction ends.
        values: The fields of ``DetailTypePatchInput``.

    Raises:
        NotFound: There is no such type.
        PermissionDenied: The caller may not.
        ValidationFailed: Naming every bad field.
    """
    rights_of(actor_id).require(CHANGE_DETAIL_TYPES)
    row = lock(type_id)
    given = {name: value for name, value in values.items() if name in changes.CHANGEABLE}
    changed = [name for name, value in given.items() if value != getattr(row, name)]
    if changed:
        for name in changed:
            setattr(row, name, given[name])
        _judge(row)
        changes.change(row, fields=changed, actor_id=actor_id)
    return detail_type_out(row)


def delete(*, actor_id: UUID, type_id: UUID) -> None:
    """Delete a type.

    Args:
        actor_id: The member of staff, or the machine.
        type_id: The type.

    Raises:
        NotFound: There is no such type.
        PermissionDenied: The caller may not.
    """
    rights_of(actor_id).require(DELETE_DETAIL_TYPES)
    changes.delete(lock(type_id), actor_id=actor_id)


def _row(type_id: UUID, rows: "QuerySet[DetailType] | None" = None) -> DetailType:
    row = (DetailType.objects.all() if rows is None else rows).filter(pk=type_id).first()
    if row is None:
        raise NotFound(_NO_TYPE)
    return row


def _judge(row: DetailType) -> None:
    """Raise ``ValidationFailed`` for what no type may be."""
    if problems := rules.problems_of(row):
        raise ValidationFailed(errors=problems)
