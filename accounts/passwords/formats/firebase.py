"""Firebase's modified scrypt: the derived key encrypts the project's signer key, and the ciphertext is the hash.

Stored form, Supabase's after a prefix: ``firebase_scrypt$v=1,n=<mem_cost>,r=<rounds>,p=1,ss=<salt separator>,
sk=<signer key>$<salt>$<hash>``. Source: https://github.com/firebase/scrypt.
"""

import re
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from accounts.passwords.formats.foreign import ForeignHasher, UnusableHashError, as_base64, from_base64
from accounts.passwords.formats.scrypt import MAX_MEMORY, run

ALGORITHM: Final = "firebase_scrypt"
_PREFIX: Final = "$fbscrypt$"
_KEY_BYTES: Final = 32  # AES-256
_FORM: Final = re.compile(
    r"v=1,n=(\d{1,2}),r=(\d{1,3}),p=1,ss=([\w+/=-]*),sk=([\w+/=-]+)\$([\w+/=-]+)\$([\w+/=-]+)", re.ASCII
)


class HashConfig(NamedTuple):
    """What Firebase's console shows under *Password hash parameters*."""

    signer_key: bytes
    salt_separator: bytes
    rounds: int
    mem_cost: int


class Parts(NamedTuple):
    """The readable parts of a stored hash."""

    config: HashConfig
    salt: bytes
    digest: bytes


class FirebaseScryptHasher(ForeignHasher):
    """Judges Firebase's modified scrypt."""

    algorithm = ALGORITHM

    def parts(self, encoded: str) -> Parts:
        """Return the parts; raises ``UnusableHashError``."""
        form = _FORM.fullmatch(encoded.removeprefix(f"{ALGORITHM}$"))
        if form is None:
            raise UnusableHashError(UnusableHashError.MALFORMED, "Not a hash of Firebase's scrypt.")
        config = HashConfig(from_base64(form[4]), from_base64(form[3]), int(form[2]), int(form[1]))
        _check(config)
        return Parts(config, from_base64(form[5]), from_base64(form[6]))

    def computed(self, password: bytes, parts: Parts) -> bytes:
        """Return the signer key, encrypted with the key that scrypt derives from ``password``."""
        config = parts.config
        salt = parts.salt + config.salt_separator
        key = run(password, salt, n=2**config.mem_cost, r=config.rounds, p=1, length=_KEY_BYTES)
        return Cipher(AES256(key), CTR(bytes(16))).encryptor().update(config.signer_key)


def _check(config: HashConfig) -> None:
    if not (config.rounds and config.mem_cost and 128 * 2**config.mem_cost * config.rounds <= MAX_MEMORY):
        raise UnusableHashError(UnusableHashError.COSTS, f"Firebase's scrypt beyond {MAX_MEMORY >> 20} MiB.")


def stored(config: HashConfig, salt: bytes, digest: bytes) -> str:
    """Return the stored form.

    Args:
        config: The project's parameters.
        salt: The person's.
        digest: The hash.

    Raises:
        UnusableHashError: The costs are out of bounds.
    """
    _check(config)
    costs = f"v=1,n={config.mem_cost},r={config.rounds},p=1"
    keys = f"ss={as_base64(config.salt_separator)},sk={as_base64(config.signer_key)}"
    return f"{ALGORITHM}${costs},{keys}${as_base64(salt)}${as_base64(digest)}"


def recognise(text: str) -> str | None:
    """Return the stored form of a hash as Supabase has it, or of our own; None for anything else.

    Raises:
        UnusableHashError: It is malformed, or its costs are out of bounds.
    """
    if not text.startswith((_PREFIX, f"{ALGORITHM}$")):
        return None
    return stored(*FirebaseScryptHasher().parts(text.removeprefix(_PREFIX)))
