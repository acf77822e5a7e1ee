"""Units of work on registered APIs by staff and machines. Each checks the caller's rights in its own transaction."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from accounts import names
from accounts.access.rights import rights_of
from ironauth.infrastructure.core.errors import NotFound, ValidationFailed
from tokens.resources import changes, rules
from tokens.resources.administration.outputs import ResourceOut, resource_out
from tokens.resources.models import ApiResource
from tokens.rights import ADD_RESOURCES, CHANGE_RESOURCES, DELETE_RESOURCES

MOST: Final = 1_000  # APIs in a list
_NO_RESOURCE: Final = "There is no API with this id."


def resources() -> list[ResourceOut]:
    """Return the APIs by name. One query."""
    return [resource_out(row) for row in ApiResource.objects.all()[:MOST]]


def resource_by_id(resource_id: UUID) -> ResourceOut:
    """Return one API. One query.

    Raises:
        NotFound: There is none with this id.
    """
    return resource_out(_row(resource_id))


def lock(resource_id: UUID) -> ApiResource:
    """Return one API, locked until the transaction ends.

    Raises:
        NotFound: There is none with this id.
    """
    return _row(resource_id, ApiResource.objects.select_for_update())


def create(*, actor_id: UUID, values: Mapping[str, Any]) -> ResourceOut:
    """Register an API.

    Args:
        actor_id: The member of staff, or the machine.
        values: The fields of ``ResourceCreateInput``.

    Raises:
        PermissionDenied: The caller may not.
        ValidationFailed: Naming every bad field.
        IntegrityError: The identifier was taken meanwhile.
    """
    rights_of(actor_id).require(ADD_RESOURCES)
    resource = ApiResource(**_named(values))
    _judge(resource)
    changes.create(resource, actor_id=actor_id)
    return resource_out(resource)


def change(*, actor_id: UUID, resource_id: UUID, values: Mapping[str, Any]) -> ResourceOut:
    """Change the fields that are sent; one that keeps its value is no change and leaves no trace in the trail.

    Args:
        actor_id: The member of staff, or the machine.
        resource_id: The API; locked until the transaction ends.
        values: The fields of ``ResourcePatchInput``.

    Raises:
        NotFound: There is no such API.
        PermissionDenied: The caller may not.
        ValidationFailed: Naming every bad field.
    """
    rights_of(actor_id).require(CHANGE_RESOURCES)
    resource = lock(resource_id)
    given = _named(values)
    changed = [name for name, value in given.items() if value != getattr(resource, name)]
    if changed:
        for name in changed:
            setattr(resource, name, given[name])
        _judge(resource)
        changes.change(resource, fields=changed, actor_id=actor_id)
    return resource_out(resource)


def delete(*, actor_id: UUID, resource_id: UUID) -> None:
    """Delete an API.

    Args:
        actor_id: The member of staff, or the machine.
        resource_id: The API.

    Raises:
        NotFound: There is no such API.
        PermissionDenied: The caller may not.
    """
    rights_of(actor_id).require(DELETE_RESOURCES)
    changes.delete(lock(resource_id), actor_id=actor_id)


def _row(resource_id: UUID, rows: "QuerySet[ApiResource] | None" = None) -> ApiResource:
    row = (ApiResource.objects.all() if rows is None else rows).filter(pk=resource_id).first()
    if row is None:
        raise NotFound(_NO_RESOURCE)
    return row


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    return {**values, **({"name": names.normalise(values["name"])} if "name" in values else {})}


def _judge(resource: ApiResource) -> None:
    """Raise ``ValidationFailed`` for what no API may be."""
    if problems := rules.problems_of(resource):
        raise ValidationFailed(errors=problems)
