"""What staff and machines do with clients; async, keyword-only."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from accounts.access.rights import for_holder
from ironauth.infrastructure.api.paging import Page
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients.administration import units
from tokens.clients.administration.outputs import ClientOut, ClientSecretShown


async def list_clients(*, actor_id: UUID, filters: Mapping[str, Any]) -> Page[ClientOut]:
    """Return one page of clients.

    Args:
        actor_id: The member of staff, or the machine.
        filters: Those of ``ClientListInput``.

    Raises:
        PermissionDenied: The caller may not see them.
        ValidationFailed: The cursor is not one of ours.
    """
    return await database().read(for_holder, actor_id, units.VIEW, units.page, filters)


async def get_client(*, actor_id: UUID, client_id: UUID) -> ClientOut:
    """Return one client.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.

    Raises:
        PermissionDenied: The caller may not see them.
        NotFound: There is no such client.
    """
    return await database().read(for_holder, actor_id, units.VIEW, units.client_by_id, client_id)


async def create_client(*, actor_id: UUID, values: Mapping[str, Any]) -> ClientSecretShown:
    """Make a client. Arguments and errors are those of ``units.create``."""
    made = await database().write(units.create, actor_id=actor_id, values=values)
    _log("client_created", made.client_id, actor_id)
    return made


async def change_client(*, actor_id: UUID, client_id: UUID, values: Mapping[str, Any]) -> ClientSecretShown:
    """Change a client. Arguments and errors are those of ``units.change``."""
    changed = await database().write(units.change, actor_id=actor_id, client_id=client_id, values=values)
    _log("client_changed", client_id, actor_id)
    return changed


async def rotate_secret(*, actor_id: UUID, client_id: UUID, values: Mapping[str, Any]) -> ClientSecretShown:
    """Give the client another secret. Arguments and errors are those of ``units.rotate_secret``."""
    made = await database().write(units.rotate_secret, actor_id=actor_id, client_id=client_id, values=values)
    _log("client_secret_rotated", client_id, actor_id)
    return made


async def disable_client(*, actor_id: UUID, client_id: UUID) -> ClientOut:
    """Refuse the client from now on. Arguments and errors are those of ``units.disable``."""
    client = await database().write(units.disable, actor_id=actor_id, client_id=client_id)
    _log("client_disabled", client_id, actor_id)
    return client


async def enable_client(*, actor_id: UUID, client_id: UUID) -> ClientOut:
    """Let the client sign people in again. Arguments and errors are those of ``units.enable``."""
    client = await database().write(units.enable, actor_id=actor_id, client_id=client_id)
    _log("client_enabled", client_id, actor_id)
    return client


async def delete_client(*, actor_id: UUID, client_id: UUID) -> None:
    """Delete the client. Arguments and errors are those of ``units.delete``."""
    await database().write(units.delete, actor_id=actor_id, client_id=client_id)
    _log("client_deleted", client_id, actor_id)


def _log(event: str, client_id: UUID, actor_id: UUID) -> None:
    get_logger().info(event, client_id=str(client_id), by=str(actor_id))
