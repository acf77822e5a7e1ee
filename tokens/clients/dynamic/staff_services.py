"""What staff and machines do about tokens with which clients register themselves; async, keyword-only."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from accounts.access.rights import rights_of
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.clients.dynamic import units
from tokens.clients.dynamic.models import RegistrationToken
from tokens.clients.dynamic.outputs import RegistrationTokenOut, RegistrationTokenShown
from tokens.rights import ADD_CLIENTS, CHANGE_CLIENTS, VIEW_CLIENTS

MOST_SHOWN: Final = 100


async def list_tokens(*, actor_id: UUID) -> list[RegistrationTokenOut]:
    """Return the newest tokens.

    Args:
        actor_id: The member of staff, or the machine.

    Raises:
        PermissionDenied: The caller may not see clients.
    """
    return await database().read(_listed, actor_id)


async def make_token(*, actor_id: UUID, values: Mapping[str, Any]) -> RegistrationTokenShown:
    """Make a token.

    Args:
        actor_id: The member of staff, or the machine.
        values: The fields of ``RegistrationTokenInput``.

    Raises:
        PermissionDenied: The caller may not make clients.
    """
    made = await database().write(_made, actor_id, values)
    get_logger().info("registration_token_made", row_id=str(made.id), by=str(actor_id))
    return made


async def end_token(*, actor_id: UUID, token_id: UUID) -> None:
    """End a token.

    Args:
        actor_id: The member of staff, or the machine.
        token_id: The token's row.

    Raises:
        PermissionDenied: The caller may not change clients.
        NotFound: There is no such token.
    """
    await database().write(_ended, actor_id, token_id)
    get_logger().info("registration_token_ended", row_id=str(token_id), by=str(actor_id))


def _listed(actor_id: UUID) -> list[RegistrationTokenOut]:
    rights_of(actor_id).require(VIEW_CLIENTS)
    return [RegistrationTokenOut(**_fields(row)) for row in RegistrationToken.objects.all()[:MOST_SHOWN]]


def _made(actor_id: UUID, values: Mapping[str, Any]) -> RegistrationTokenShown:
    rights_of(actor_id).require(ADD_CLIENTS)
    ends = clock.now() + timedelta(days=values["expires_in_days"])
    row, token = units.make_token(label=values["name"].strip(), uses=values["uses"], expires_at=ends, actor_id=actor_id)
    return RegistrationTokenShown(**_fields(row), token=token)


def _ended(actor_id: UUID, token_id: UUID) -> None:
    rights_of(actor_id).require(CHANGE_CLIENTS)
    if not units.end_token(token_id, actor_id=actor_id):
        raise NotFound("There is no registration token with this id.")


def _fields(row: RegistrationToken) -> dict[str, Any]:
    return {
        "id": row.pk, "name": row.label, "left": row.left, "created_at": row.created_at, "expires_at": row.expires_at,
    }  # fmt: skip
