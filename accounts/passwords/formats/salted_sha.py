"""SHA-1, SHA-256 or SHA-512 of a salt and the password, once: a graphics card tries billions a second.

Taken over only with ``IRONAUTH_SALTED_SHA_HASHES``: until its person signs in, such a hash protects little.
Stored form: ``salted_sha$<digest>$<prefix or suffix>$<salt>$<hash>``, the last two in Base64 without padding.
"""

import hashlib
from typing import Final, NamedTuple

from django.conf import settings

from accounts.passwords.formats.foreign import ForeignHasher, UnusableHashError, as_base64, from_base64

ALGORITHM: Final = "salted_sha"
_BYTES: Final = {"sha1": 20, "sha256": 32, "sha512": 64}
_PLACES: Final = frozenset({"prefix", "suffix"})


class Parts(NamedTuple):
    """The readable parts of a stored hash. ``place``: where the salt stands, before the password or after it."""

    name: str
    place: str
    salt: bytes
    digest: bytes


class SaltedShaHasher(ForeignHasher):
    """Judges one round of SHA with a salt, where the setting allows it."""

    algorithm = ALGORITHM

    def parts(self, encoded: str) -> Parts:
        """Return the parts; raises ``UnusableHashError``, also where the setting does not allow such hashes."""
        if not settings.IRONAUTH_SALTED_SHA_HASHES:
            words = "Salted SHA is too weak to be taken over: set IRONAUTH_SALTED_SHA_HASHES=1 to accept the risk."
            raise UnusableHashError(UnusableHashError.NOT_ALLOWED, words)
        fields = encoded.split("$")
        if len(fields) != 5 or fields[2] not in _PLACES:  # noqa: PLR2004 - the stored form above
            raise UnusableHashError(UnusableHashError.MALFORMED, "Not a salted SHA hash.")
        parts = Parts(fields[1], fields[2], from_base64(fields[3]), from_base64(fields[4]))
        if not parts.salt or _BYTES.get(parts.name) != len(parts.digest):
            raise UnusableHashError(UnusableHashError.MALFORMED, "Salted SHA without salt, or of a wrong length.")
        return parts

    def computed(self, password: bytes, parts: Parts) -> bytes:
        """Return the hash of ``password``."""
        salted = parts.salt + password if parts.place == "prefix" else password + parts.salt
        return hashlib.new(parts.name, salted).digest()


def stored(name: str, place: str, salt: bytes, digest: bytes) -> str:
    """Return the stored form.

    Args:
        name: ``sha1``, ``sha256`` or ``sha512``, also with a hyphen and in capitals.
        place: ``prefix`` where the salt was put before the password, ``suffix`` after it.
        salt: As bytes.
        digest: The hash.

    Raises:
        UnusableHashError: It is malformed, or such hashes are not allowed.
    """
    encoded = f"{ALGORITHM}${name.lower().replace('-', '')}${place}${as_base64(salt)}${as_base64(digest)}"
    SaltedShaHasher().parts(encoded)
    return encoded


def recognise(text: str) -> str | None:
    """Return the text itself where it is of our own form; None for anything else.

    Raises:
        UnusableHashError: It is malformed, or not allowed.
    """
    if not text.startswith(f"{ALGORITHM}$"):
        return None
    SaltedShaHasher().parts(text)
    return text
