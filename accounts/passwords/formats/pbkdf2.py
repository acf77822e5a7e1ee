"""PBKDF2 (RFC 8018 §5.2) with a binary salt, as Keycloak and PHC strings have it; Django's own has a text as salt.

Stored form: ``pbkdf2_phc$<digest>$<iterations>$<salt>$<hash>``, the last two in Base64 without padding.
"""

import hashlib
from typing import Final, NamedTuple

from accounts.passwords.formats.foreign import ForeignHasher, UnusableHashError, as_base64, from_base64

ALGORITHM: Final = "pbkdf2_phc"
#: Iterations times blocks of the digest; 0.7 s of SHA-256, 1 s of SHA-512 on the laboratory's machine.
MAX_WORK: Final = 2_000_000
_DIGITS: Final = len(str(MAX_WORK))
_BLOCK: Final = {"sha1": 20, "sha256": 32, "sha512": 64}  # bytes of one digest
_DJANGO: Final = {"pbkdf2_sha256": "sha256", "pbkdf2_sha1": "sha1"}
_NAMES: Final = {"pbkdf2": "sha1", "sha-1": "sha1", "sha-256": "sha256", "sha-512": "sha512"}
_DJANGO_PARTS: Final = 4
_PHC_PARTS: Final = 4


class Parts(NamedTuple):
    """The readable parts of a stored hash."""

    name: str
    iterations: int
    salt: bytes
    digest: bytes


class Pbkdf2Hasher(ForeignHasher):
    """Judges PBKDF2 with a binary salt."""

    algorithm = ALGORITHM

    def parts(self, encoded: str) -> Parts:
        """Return the parts; raises ``UnusableHashError``."""
        fields = encoded.split("$")
        if len(fields) != 5 or fields[0] != ALGORITHM:  # noqa: PLR2004 - the stored form above
            raise UnusableHashError(UnusableHashError.MALFORMED, "Not a PBKDF2 hash.")
        iterations = within_bounds(fields[1], fields[2], from_base64(fields[4]))
        return Parts(fields[1], iterations, from_base64(fields[3]), from_base64(fields[4]))

    def computed(self, password: bytes, parts: Parts) -> bytes:
        """Return the hash of ``password``."""
        return hashlib.pbkdf2_hmac(parts.name, password, parts.salt, parts.iterations, len(parts.digest))


def within_bounds(name: str, iterations: str, digest: bytes) -> int:
    """Return the iterations of a hash of ``digest``.

    Args:
        name: The digest, such as ``sha256``.
        iterations: The number as it stands in the hash, not yet judged.
        digest: The derived key, whose length multiplies the work.

    Raises:
        UnusableHashError: The digest is unknown, or the costs are out of bounds.
    """
    block = _BLOCK.get(name)
    if block is None or not (iterations.isascii() and iterations.isdigit() and len(iterations) <= _DIGITS):
        raise UnusableHashError(UnusableHashError.MALFORMED, "PBKDF2 with an unknown digest, or without iterations.")
    blocks = -(-len(digest) // block)
    if not (16 <= len(digest) <= 64 and 1 <= int(iterations) * blocks <= MAX_WORK):  # noqa: PLR2004 - bytes
        raise UnusableHashError(UnusableHashError.COSTS, f"PBKDF2 beyond {MAX_WORK:,} iterations.")
    return int(iterations)


def stored(name: str, iterations: int, salt: bytes, digest: bytes) -> str:
    """Return the stored form.

    Args:
        name: ``sha1``, ``sha256`` or ``sha512``, also as ``pbkdf2-sha256`` or ``PBKDF2WithHmacSHA256``.
        iterations: How many.
        salt: As bytes.
        digest: The hash.

    Raises:
        UnusableHashError: It is malformed, or its costs are out of bounds.
    """
    plain = name.lower().removeprefix("pbkdf2-").removeprefix("pbkdf2withhmac")
    plain = _NAMES.get(plain, plain)
    within_bounds(plain, str(iterations), digest)
    return f"{ALGORITHM}${plain}${iterations}${as_base64(salt)}${as_base64(digest)}"


def recognise(text: str) -> str | None:
    """Return the stored form of Django's PBKDF2, of our own, or of a PHC string; None for anything else.

    Raises:
        UnusableHashError: It is malformed, or its costs are out of bounds.
    """
    name = text.partition("$")[0]
    if name == ALGORITHM:
        Pbkdf2Hasher().parts(text)
        return text
    if name in _DJANGO:
        fields = text.split("$")
        if len(fields) != _DJANGO_PARTS or not fields[2]:
            raise UnusableHashError(UnusableHashError.MALFORMED, "Not a PBKDF2 hash of Django's.")
        within_bounds(_DJANGO[name], fields[1], from_base64(fields[3]))
        return text
    if not text.startswith("$pbkdf2-"):
        return None
    fields = text[1:].split("$")
    if len(fields) != _PHC_PARTS:
        raise UnusableHashError(UnusableHashError.MALFORMED, "Not a PHC string of PBKDF2.")
    # i=<iterations>,l=<bytes> by the PHC specification; the number alone as passlib writes it, with "." for "+".
    iterations = next((part.removeprefix("i=") for part in fields[1].split(",") if not part.startswith("l=")), "")
    salt, digest = (from_base64(part.replace(".", "+")) for part in fields[2:])
    if not iterations.isdecimal():
        raise UnusableHashError(UnusableHashError.MALFORMED, "A PHC string of PBKDF2 without iterations.")
    return stored(fields[0], int(iterations), salt, digest)
