"""What staff and machines do with signing keys; async, keyword-only."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError

from accounts.access.rights import for_holder
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.keys.administration import units
from tokens.keys.administration.outputs import KeyOut
from tokens.keys.key_set import Family
from tokens.rights import VIEW_KEYS


async def list_keys(*, actor_id: UUID, filters: Mapping[str, Any]) -> list[KeyOut]:
    """Return the keys, the newest first.

    Args:
        actor_id: The member of staff, or the machine.
        filters: Those of ``KeyListInput``.

    Raises:
        PermissionDenied: The caller may not see them.
    """
    return await database().read(for_holder, actor_id, VIEW_KEYS, units.keys, filters)


async def create_keys(*, actor_id: UUID, family: Family) -> list[KeyOut]:
    """Make sure that a family has an active and a next key, and return its keys.

    Args:
        actor_id: The member of staff, or the machine.
        family: The family of keys.

    Raises:
        PermissionDenied: The caller may not change keys.
    """
    try:
        made = await database().write(units.create, actor_id=actor_id, family=family)
    except IntegrityError:  # somebody else was first: now they are there
        made = await database().write(units.create, actor_id=actor_id, family=family)
    get_logger().info("signing_keys_created", by=str(actor_id), family=family.value)
    return made


async def rotate_keys(*, actor_id: UUID, family: Family) -> KeyOut:
    """Activate the next key, and return it.

    Args:
        actor_id: The member of staff, or the machine.
        family: The family of keys.

    Raises:
        PermissionDenied: The caller may not change keys.
        RotationRefused: It is too early, or there is no next key.
    """
    active = await database().write(units.rotate, actor_id=actor_id, family=family)
    get_logger().info("signing_key_rotated", by=str(actor_id), kid=active.kid)
    return active


async def drop_key(*, actor_id: UUID, kid: str) -> KeyOut:
    """Refuse a compromised key, and return the one that signs from now on.

    Args:
        actor_id: The member of staff, or the machine.
        kid: The key's id.

    Raises:
        PermissionDenied: The caller may not change keys.
        RotationRefused: No key in use has this kid.
    """
    active = await database().write(units.drop, actor_id=actor_id, kid=kid)
    get_logger().info("signing_key_dropped", by=str(actor_id), kid=kid)
    return active
