"""What people do about applications they have let in."""

from datetime import datetime
from uuid import UUID

import msgspec

from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.oauth.consent import units as consent_units
from tokens.principal import Principal


class ConsentOut(msgspec.Struct, frozen=True):
    """An application a person has let in; ``scope`` as in RFC 6749 §3.3, ``since``: when they first did."""

    client_id: UUID
    name: str
    scope: str
    since: datetime


async def list_consents(*, principal: Principal) -> list[ConsentOut]:
    """Return what the caller has allowed, the newest first."""
    found = await database().read(consent_units.of_person, principal.id)
    return [ConsentOut(one.client_id, one.client.name, one.scope, one.created_at) for one in found]


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
