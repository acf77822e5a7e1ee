"""Private signing keys at rest: AES-256-GCM under a key derived from a master key.

The kid is the associated data, so a sealed key moved to another row does not open.
"""

import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ironauth.infrastructure.master_keys import derived_key, newest_master_key_id

NONCE_BYTES = 12  # 96 bits, SP 800-38D §8.2.2; random is safe for far more keys than anyone rotates
PURPOSE: Final = "ironauth signing key"


class SealBrokenError(ValueError):
    """A sealed key does not open: changed, moved to another row, or sealed under another master key."""


def seal(seed: bytes, kid: str) -> tuple[str, bytes]:
    """Return the id of the newest master key and ``nonce ‖ ciphertext ‖ tag`` of the private ``seed`` under it."""
    master_key_id = newest_master_key_id()
    nonce = os.urandom(NONCE_BYTES)
    sealed = AESGCM(derived_key(master_key_id, PURPOSE)).encrypt(nonce, seed, kid.encode())
    return master_key_id, nonce + sealed


def unseal(master_key_id: str, sealed: bytes, kid: str) -> bytes:
    """Return the private seed.

    Raises ``MasterKeyMissingError`` when the master key is gone from the settings, ``SealBrokenError`` when the
    bytes or the kid are not those that were sealed.
    """
    key = AESGCM(derived_key(master_key_id, PURPOSE))
    try:
        return key.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], kid.encode())
    except (InvalidTag, ValueError) as error:
        raise SealBrokenError(
            f"signing key {kid} does not open under master key {master_key_id!r}: restore IRONAUTH_MASTER_KEYS, or "
            f"replace the key with `manage.py rotate_signing_key --drop {kid}`"
        ) from error
