"""Private signing keys at rest: sealed, with the kid as what they are bound to."""

from typing import Final

from ironauth.infrastructure.crypto import sealing
from ironauth.infrastructure.crypto.master_keys import register_purpose
from ironauth.infrastructure.crypto.sealing import SealBrokenError

PURPOSE: Final = register_purpose("ironauth signing key")


def seal(seed: bytes, kid: str) -> tuple[str, bytes]:
    """Return the id of the newest master key and the private ``seed`` sealed under it.

    Args:
        seed: The private part in clear.
        kid: The key's id, bound into the seal.
    """
    return sealing.seal(seed, PURPOSE, kid.encode())


def unseal(master_key_id: str, sealed: bytes, kid: str) -> bytes:
    """Return the private seed.

    Args:
        master_key_id: The master key that it was sealed under.
        sealed: The sealed private part.
        kid: The key's id, as it was when sealed.

    Raises:
        MasterKeyMissingError: the master key is gone from the settings.
        SealBrokenError: the bytes or the kid are not those that were sealed.
    """
    try:
        return sealing.unseal(master_key_id, sealed, PURPOSE, kid.encode())
    except SealBrokenError as error:
        raise SealBrokenError(
            f"signing key {kid} does not open under master key {master_key_id!r}: restore IRONAUTH_MASTER_KEYS, or "
            f"replace the key with `manage.py rotate_signing_key --drop {kid}`"
        ) from error
