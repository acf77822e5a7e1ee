"""Secrets at rest: AES-256-GCM under a key derived from a master key, bound to the row they belong to."""

import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ironauth.infrastructure.crypto.master_keys import Purpose, derived_key, newest_master_key_id

NONCE_BYTES: Final = 12  # 96 bits, SP 800-38D §8.2.2; random is safe for 2**32 secrets of one purpose (§8.3)


class SealBrokenError(ValueError):
    """A sealed secret does not open: changed, moved to another row, or sealed under another master key."""


def seal(secret: bytes, purpose: Purpose, bound_to: bytes) -> tuple[str, bytes]:
    """Return the id of the newest master key and ``nonce ‖ ciphertext ‖ tag`` of ``secret`` under it.

    Args:
        secret: What is to be kept.
        purpose: Of the key.
        bound_to: What names the row. It is needed to open the secret, so that one moved elsewhere does not open.
    """
    master_key_id = newest_master_key_id()
    nonce = os.urandom(NONCE_BYTES)
    sealed = AESGCM(derived_key(master_key_id, purpose)).encrypt(nonce, secret, bound_to)
    return master_key_id, nonce + sealed


def unseal(master_key_id: str, sealed: bytes, purpose: Purpose, bound_to: bytes) -> bytes:
    """Return the secret.

    Args:
        master_key_id: The master key that it was sealed under.
        sealed: The nonce, the ciphertext and its tag.
        purpose: What it was sealed for.
        bound_to: The associated data it was sealed with, such as the id of its row.

    Raises:
        MasterKeyMissingError: The master key is gone from the settings.
        SealBrokenError: The bytes, or the row they are in, are not those that were sealed.
    """
    key = AESGCM(derived_key(master_key_id, purpose))
    try:
        return key.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound_to)
    except (InvalidTag, ValueError) as error:
        raise SealBrokenError(f"a secret sealed under master key {master_key_id!r} does not open") from error
