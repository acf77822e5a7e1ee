"""Units of work on signing keys by staff and machines. Each checks the caller's rights inside its own transaction."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from accounts.access.rights import rights_of
from tokens.keys import units as key_units
from tokens.keys.administration.errors import RotationRefused
from tokens.keys.administration.outputs import KeyOut, key_out
from tokens.keys.key_set import Family
from tokens.keys.models import SigningKey
from tokens.rights import CHANGE_KEYS

MOST: Final = 1_000  # keys in a list; there are a handful: finished ones are deleted
_WITHOUT_PRIVATE: Final = KeyOut.__struct_fields__


def keys(filters: Mapping[str, Any]) -> list[KeyOut]:
    """Return the keys, the newest first; ``filters`` are those of ``KeyListInput``. One query."""
    rows = SigningKey.objects.filter(**filters).only(*_WITHOUT_PRIVATE)
    return [key_out(row) for row in rows.order_by("-created_at", "kid")[:MOST]]


def create(*, actor_id: UUID, family: Family) -> list[KeyOut]:
    """Make sure that a family has an active and a next key, and return its keys; those there are stay.

    Args:
        actor_id: The member of staff, or the machine.
        family: The family of keys.

    Raises:
        PermissionDenied: The caller may not change keys.
        IntegrityError: Somebody else does the same at this moment: call it again.
    """
    rights_of(actor_id).require(CHANGE_KEYS)
    key_units.create_first_keys(family, actor_id=actor_id)
    return keys({"family": family.value})


def rotate(*, actor_id: UUID, family: Family) -> KeyOut:
    """Retire the active key and activate the next one, unless clients may not know that yet; return it.

    Args:
        actor_id: The member of staff, or the machine.
        family: The family of keys.

    Raises:
        PermissionDenied: The caller may not change keys.
        RotationRefused: It is too early, or there is no next key.
    """
    rights_of(actor_id).require(CHANGE_KEYS)
    try:
        kid = key_units.rotate(family, actor_id=actor_id)
    except key_units.RotationRefusedError as refused:
        raise RotationRefused(str(refused)) from refused
    return _key(kid)


def drop(*, actor_id: UUID, kid: str) -> KeyOut:
    """Refuse a compromised key and destroy its private part; return the key that signs from now on.

    Args:
        actor_id: The member of staff, or the machine.
        kid: The key's id.

    Raises:
        PermissionDenied: The caller may not change keys.
        RotationRefused: No key in use has this kid.
    """
    rights_of(actor_id).require(CHANGE_KEYS)
    try:
        active = key_units.drop(kid, actor_id=actor_id)
    except key_units.RotationRefusedError as refused:
        raise RotationRefused(str(refused)) from refused
    return _key(active)


def _key(kid: str) -> KeyOut:
    return key_out(SigningKey.objects.only(*_WITHOUT_PRIVATE).get(kid=kid))
