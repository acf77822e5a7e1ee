"""What staff and machines do with clients; async, keyword-only."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from accounts.access.listing import list_for_holder
from accounts.access.rights import for_holder
from ironauth.infrastructure.api.conditional import Edited
from ironauth.infrastructure.api.paging import Page
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients.administration import units
from tokens.clients.administration.outputs import ClientOut, ClientSecretShown
from tokens.rights import VIEW_CLIENTS

#: A client, as ``get_client`` shows it, for changes under a condition.
EDITED: Final = Edited(show=units.client_by_id, lock=units.lock)


async def list_clients(*, actor_id: UUID, filters: Mapping[str, Any]) -> Page[ClientOut]:
    """Return one page of clients.

    Args:
        actor_id: The member of staff, or the machine.
        filters: Those of ``ClientListInput``.

    Raises:
        PermissionDenied: The caller may not see them.
        ValidationFailed: The cursor is not one of ours.
    """
    return await list_for_holder(actor_id, VIEW_CLIENTS, units.page, filters)


async def get_client(*, actor_id: UUID, client_id: UUID) -> ClientOut:
    """Return one client.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.

    Raises:
        PermissionDenied: The caller may not see them.
        NotFound: There is no such client.
    """
    return await database().read(for_holder, actor_id, VIEW_CLIENTS, units.client_by_id, client_id)


async def create_client(*, actor_id: UUID, values: Mapping[str, Any]) -> ClientSecretShown:
    """Make a client, and its secret where it has one.

    Args:
        actor_id: The member of staff, or the machine.
        values: The fields of ``ClientCreateInput``.

    Raises:
        PermissionDenied: The caller may not make clients, or not such a one.
        ValidationFailed: Naming every bad field.
    """
    made = await database().write(units.create, actor_id=actor_id, values=values)
    get_logger().info("client_created", client_id=str(made.client_id), by=str(actor_id))
    return made


async def change_client(*, actor_id: UUID, client_id: UUID, values: Mapping[str, Any]) -> ClientSecretShown:
    """Change the fields of a client that are sent.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.
        values: The fields of ``ClientPatchInput``.

    Raises:
        NotFound: There is no such client.
        PermissionDenied: The caller may not change clients, or not this one.
        ValidationFailed: Naming every bad field.
    """
    changed = await database().write(units.change, actor_id=actor_id, client_id=client_id, values=values)
    get_logger().info("client_changed", client_id=str(client_id), by=str(actor_id))
    return changed


async def rotate_secret(*, actor_id: UUID, client_id: UUID, values: Mapping[str, Any]) -> ClientSecretShown:
    """Give the client another secret.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.
        values: The fields of ``RotateInput``.

    Raises:
        NotFound: There is no such client.
        PermissionDenied: The caller may not change clients, or not this one.
        NoSecret: It proves who it is by something else.
        SecretReplaced: Its newest secret is another one than the caller knows.
    """
    made = await database().write(units.rotate_secret, actor_id=actor_id, client_id=client_id, values=values)
    get_logger().info("client_secret_rotated", client_id=str(client_id), by=str(actor_id))
    return made


async def disable_client(*, actor_id: UUID, client_id: UUID) -> ClientOut:
    """Refuse the client and all it holds from now on.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.

    Raises:
        NotFound: There is no such client.
        PermissionDenied: The caller may not change clients.
    """
    client = await database().write(units.disable, actor_id=actor_id, client_id=client_id)
    get_logger().info("client_disabled", client_id=str(client_id), by=str(actor_id))
    return client


async def enable_client(*, actor_id: UUID, client_id: UUID) -> ClientOut:
    """Let the client sign people in again.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.

    Raises:
        NotFound: There is no such client.
        PermissionDenied: The caller may not change clients, or not this one.
    """
    client = await database().write(units.enable, actor_id=actor_id, client_id=client_id)
    get_logger().info("client_enabled", client_id=str(client_id), by=str(actor_id))
    return client


async def verify_client(*, actor_id: UUID, client_id: UUID) -> ClientOut:
    """Note that the caller has looked at a client which none of staff made.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.

    Raises:
        NotFound: There is no such client.
        PermissionDenied: The caller may not change clients.
    """
    client = await database().write(units.verify, actor_id=actor_id, client_id=client_id)
    get_logger().info("client_verified", client_id=str(client_id), by=str(actor_id))
    return client


async def delete_client(*, actor_id: UUID, client_id: UUID) -> None:
    """Delete the client with its consents, and end its sessions.

    Args:
        actor_id: The member of staff, or the machine.
        client_id: The client.

    Raises:
        NotFound: There is no such client.
        PermissionDenied: The caller may not delete clients.
    """
    await database().write(units.delete, actor_id=actor_id, client_id=client_id)
    get_logger().info("client_deleted", client_id=str(client_id), by=str(actor_id))
