"""What clients do about their own registration; async, keyword-only."""

from typing import Any
from uuid import UUID

from django.conf import settings

from accounts.lockout import rate_limits
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients.dynamic import metadata, units
from tokens.clients.dynamic.outputs import Registered
from tokens.clients.errors import InvalidRegistrationToken
from tokens.clients.fetched import sectors
from tokens.clients.models import OAuthClient


async def register(*, said: object, token: str | None, address: str) -> Registered:
    """Register a client; 2 queries for the counts, 6 for the rest.

    Args:
        said: Its metadata, as it was received.
        token: The bearer token of the request; None without one.
        address: The client's IP address, by which registrations are counted whatever comes of them.

    Raises:
        OAuthError: The metadata, or the token, is not accepted.
        Throttled: (429) Too many.
    """
    await rate_limits.admit(rate_limits.REGISTRATION, address=address)
    if settings.IRONAUTH_REGISTRATION != "open" and token is None:
        raise InvalidRegistrationToken("Registering needs a token that staff have made: send it as Bearer.")
    if _names_sector(said):
        client = await database().read(_judged, said, token)
        await sectors.require_all(client.sector_identifier_uri, client.redirect_uris)
    made = await database().write(_register, said, token)
    get_logger().info("client_registered", client_id=made.metadata["client_id"])
    return made


def _names_sector(said: object) -> bool:
    return isinstance(said, dict) and bool(said.get("sector_identifier_uri"))


def _judged(said: object, token: str | None) -> OAuthClient:
    """Return the client that would be registered but for its sector, which is asked after everything else is right."""
    units.require_usable(token)
    return metadata.client_of(said, without_pkce=settings.IRONAUTH_REGISTRATION_WITHOUT_PKCE)


def _register(said: object, token: str | None) -> Registered:
    """Judge the metadata and store the client; a unit of work, because one of the rules asks for the signing keys."""
    return units.register(
        metadata.client_of(said, without_pkce=settings.IRONAUTH_REGISTRATION_WITHOUT_PKCE), initial_token=token
    )


async def read(*, client_id: UUID, token: str) -> dict[str, Any]:
    """Return what is registered of a client.

    Args:
        client_id: The client.
        token: Its registration access token.

    Raises:
        InvalidRegistrationToken: It is not that client's.
    """
    return await database().read(units.read, client_id, token)


async def change(*, client_id: UUID, token: str, said: dict[str, Any]) -> Registered:
    """Replace what is registered of a client.

    Args:
        client_id: The client.
        token: Its registration access token.
        said: The metadata.

    Raises:
        OAuthError: The metadata, or the token, is not accepted.
        Throttled: (429) Too many lists were fetched for the network that the request comes from.
    """
    if _names_sector(said):
        await database().read(units.read, client_id, token)  # nobody else has this server fetch anything
        await rate_limits.admit(rate_limits.REGISTRATION, address=client_context.current().address)
        client = await database().read(metadata.client_of, said)
        await sectors.require_all(client.sector_identifier_uri, client.redirect_uris)
    changed = await database().write(units.change, client_id, token, said)
    get_logger().info("client_changed", client_id=str(client_id))
    return changed


async def delete(*, client_id: UUID, token: str) -> None:
    """Delete a client with all it holds.

    Args:
        client_id: The client.
        token: Its registration access token.

    Raises:
        InvalidRegistrationToken: It is not that client's.
    """
    await database().write(units.delete, client_id, token)
    get_logger().info("client_deleted", client_id=str(client_id))
