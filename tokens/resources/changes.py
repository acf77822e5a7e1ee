"""What is done to registered APIs: make, change, delete. Each leaves an audit event; fields are judged before."""

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction

from accounts.audit import recording as audit
from accounts.audit.recording import Event
from tokens.resources.models import ApiResource


@transaction.atomic
def create(resource: ApiResource, *, actor_id: UUID | None = None) -> None:
    """Store a new API.

    Args:
        resource: The API, judged.
        actor_id: Who does it; None for a command.

    Raises:
        IntegrityError: Its identifier was taken meanwhile.
    """
    resource.save(force_insert=True)
    _record(Event.RESOURCE_CREATED, resource, actor_id, active=resource.active)


@transaction.atomic
def change(resource: ApiResource, *, fields: Sequence[str], actor_id: UUID | None = None) -> None:
    """Store changed ``fields``, all but the identifier.

    Args:
        resource: The API with the new values set, judged.
        fields: The names of the fields that were set, for the trail.
        actor_id: Who does it; None for a command.
    """
    resource.save(update_fields=["name", "scopes", "signing_alg", "access_token_s", "for_self_registered", "active"])
    told = {"active": resource.active} if "active" in fields else {}
    _record(Event.RESOURCE_CHANGED, resource, actor_id, fields=sorted(fields), **told)


@transaction.atomic
def delete(resource: ApiResource, *, actor_id: UUID | None = None) -> None:
    """Delete the API: grants for it give no more tokens, and introspection calls those there are inactive.

    Args:
        resource: The API.
        actor_id: Who does it; None for a command.
    """
    _record(Event.RESOURCE_DELETED, resource, actor_id)
    resource.delete()


def _record(event: Event, resource: ApiResource, actor_id: UUID | None, **details: object) -> None:
    told = {"resource": resource.identifier, "name": resource.name, **details}
    audit.record(event, actor_id=actor_id, details=told)
