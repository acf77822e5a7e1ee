"""What people do about applications they have let in."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.oauth.consent import units as consent_units
from tokens.oauth.models import Consent
from tokens.principal import Principal
from tokens.resources import queries as resource_queries


class ConsentOut(msgspec.Struct, frozen=True):
    """An application a person has let in; ``scope`` as in RFC 6749 §3.3, ``since``: when they first did.

    ``unverified``: a stranger made it, and nobody here has checked it. ``document``: the address that describes it.
    ``resources``: identifiers of the APIs that they have let it use, each with the scope there.
    ``resource_names``: what those are called that are still registered.
    """

    client_id: UUID
    name: str
    scope: str
    since: datetime
    unverified: bool = False
    document: str = ""
    resources: dict[str, str] = {}
    resource_names: dict[str, str] = {}


async def list_consents(*, principal: Principal) -> list[ConsentOut]:
    """Return what the caller has allowed, the newest first."""
    return await _told(await database().read(consent_units.of_person, principal.id))


async def revoke_consent(*, principal: Principal, client_id: UUID) -> None:
    """Take back what the caller has allowed a client, and end its sessions with them.

    Args:
        principal: The caller.
        client_id: The client's primary key.

    Raises:
        NotFound: (404) they have allowed it nothing: a client that does not exist is not told apart.
    """
    if not await database().write(consent_units.revoke, user_id=principal.id, client_id=client_id):
        raise NotFound("You have allowed no such application: see /api/v1/access/consents for those you have.")
    get_logger().info("consent_revoked", user_id=str(principal.id), client_id=str(client_id))


async def list_of_user(*, actor_id: UUID, user_id: UUID) -> list[ConsentOut]:
    """Return what somebody else has allowed, the newest first.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.

    Raises:
        PermissionDenied: Without ``tokens.view_consent``.
        NotFound: There is no such user.
    """
    return await _told(await database().read(consent_units.of_person_for_staff, actor_id=actor_id, user_id=user_id))


async def revoke_by_staff(*, actor_id: UUID, user_id: UUID, client_id: UUID) -> None:
    """Take back what somebody else has allowed a client, and end its sessions with them.

    Args:
        actor_id: The member of staff, or the machine.
        user_id: The person.
        client_id: The client's primary key.

    Raises:
        DomainError: What ``units.revoke_by_staff`` raises.
    """
    await database().write(consent_units.revoke_by_staff, actor_id=actor_id, user_id=user_id, client_id=client_id)
    get_logger().info("consent_revoked", user_id=str(user_id), client_id=str(client_id), by=str(actor_id))


async def _told(found: Sequence[Consent]) -> list[ConsentOut]:
    """Return consents as they leave. 1 query where APIs are among them."""
    apis = {name for one in found for name in one.resources}
    names = await database().read(resource_queries.names_of, apis) if apis else {}
    return [
        ConsentOut(
            one.client_id,
            one.client.name,
            one.scope,
            one.created_at,
            unverified=one.client.is_unverified,
            document=one.client.document_url,
            resources=one.resources,
            resource_names={name: names[name] for name in one.resources if name in names},
        )
        for one in found
    ]
