"""Keys derived from the master keys, one per purpose, so that no two uses ever share a key; and MACs made with them.

HKDF-SHA-256 (RFC 5869) with the purpose as ``info``: knowing one derived key says nothing about another, and a
ciphertext made for one purpose never opens under the other. Every MAC of the product is made here, and is HMAC-SHA-256.
"""

import hashlib
import hmac
from functools import lru_cache
from typing import Final, NewType

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

DERIVED_BYTES = 32  # AES-256-GCM and HMAC-SHA-256 both take 256 bits
MAC_BYTES: Final = 32  # HMAC-SHA-256: 256 bits

#: What a key is derived for; made by `register_purpose` alone.
Purpose = NewType("Purpose", str)
_purposes: set[str] = set()


def register_purpose(name: str) -> Purpose:
    """Return the purpose called ``name``, for the one module that owns it.

    Raises:
        ValueError: Another module owns a purpose of this name; both would share a key.
    """
    if name in _purposes:
        raise ValueError(f"the purpose {name!r} is registered already")
    _purposes.add(name)
    return Purpose(name)


class MasterKeyMissingError(LookupError):
    """A row was written under a master key that is no longer in IRONAUTH_MASTER_KEYS."""


def newest_master_key_id() -> str:
    """Return the id of the master key that new rows are written under: the first of IRONAUTH_MASTER_KEYS."""
    return str(next(iter(settings.IRONAUTH_MASTER_KEYS)))


def derived_key(master_key_id: str, purpose: Purpose) -> bytes:
    """Return the 32-byte key of ``purpose`` under one master key.

    Args:
        master_key_id: An id of IRONAUTH_MASTER_KEYS.
        purpose: What the key is for; no two purposes share one.

    Raises:
        MasterKeyMissingError: IRONAUTH_MASTER_KEYS has no key of that id.
    """
    master = settings.IRONAUTH_MASTER_KEYS.get(master_key_id)
    if master is None:
        raise MasterKeyMissingError(
            f"master key {master_key_id!r} is not in IRONAUTH_MASTER_KEYS: put it back after the newest one"
        )
    return _derive(master, purpose)


@lru_cache(maxsize=32)  # a handful of master keys times the purposes; HKDF takes 10 µs, a refresh needs it
def _derive(master: bytes, purpose: str) -> bytes:
    """Return HKDF-SHA-256 of ``master``, without salt (RFC 5869 §3.1: the master key is already uniform)."""
    return HKDF(algorithm=SHA256(), length=DERIVED_BYTES, salt=None, info=purpose.encode()).derive(master)


def mac(purpose: Purpose, message: bytes, master_key_id: str | None = None, *, secret: bytes = b"") -> bytes:
    """Return the 32-byte MAC of ``message``.

    Args:
        purpose: Of the key.
        message: What is authenticated.
        master_key_id: Of the master key; None for the newest.
        secret: A second part of the key, which a row holds: neither the database nor the settings make a MAC alone.

    Raises:
        MasterKeyMissingError: The named master key is gone.
    """
    return keyed_mac(derived_key(master_key_id or newest_master_key_id(), purpose) + secret, message)


def is_mac(given: bytes, purpose: Purpose, message: bytes) -> bool:
    """Return whether ``given`` is the MAC of ``message`` under any master key; in constant time for each.

    Args:
        given: The MAC as it was received.
        purpose: Chooses the key under each master key.
        message: What was signed.
    """
    return any(hmac.compare_digest(given, mac(purpose, message, key_id)) for key_id in settings.IRONAUTH_MASTER_KEYS)


def keyed_mac(key: bytes, message: bytes) -> bytes:
    """Return the 32-byte MAC of ``message`` under a key that is not a master key's.

    Args:
        key: Of any length; 32 random bytes or more make it as strong as the MAC.
        message: What is authenticated.
    """
    return hmac.digest(key, message, hashlib.sha256)
