"""scrypt (RFC 7914): PHC strings with a binary salt, and Django's own form.

Stored form: ``scrypt_phc$<log2 N>$<r>$<p>$<salt>$<hash>``, the last two in Base64 without padding.
"""

import hashlib
import re
from typing import Final, NamedTuple

from accounts.passwords.formats.foreign import ForeignHasher, UnusableHashError, as_base64, from_base64

ALGORITHM: Final = "scrypt_phc"
_DJANGO: Final = "scrypt"
MAX_MEMORY: Final = 128 * 2**20  # bytes of one run; each thread of the hash pool may need as much
MAX_LANES: Final = 8  # Django asks for 5
_DJANGO_FIELDS: Final = re.compile(r"scrypt\$(\d{1,7})\$[^$]+\$(\d{1,3})\$(\d{1,3})\$([A-Za-z0-9+/=]+)")
_PHC: Final = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,3}),p=(\d{1,3})\$([A-Za-z0-9+/.]+)\$([A-Za-z0-9+/.]+)")
_OWN: Final = re.compile(r"scrypt_phc\$(\d{1,2})\$(\d{1,3})\$(\d{1,3})\$([A-Za-z0-9+/]*)\$([A-Za-z0-9+/]+)")


class Parts(NamedTuple):
    """The readable parts of a stored hash."""

    n: int
    r: int
    p: int
    salt: bytes
    digest: bytes


class ScryptPhcHasher(ForeignHasher):
    """Judges scrypt with a binary salt."""

    algorithm = ALGORITHM

    def parts(self, encoded: str) -> Parts:
        """Return the parts; raises ``UnusableHashError``."""
        form = _OWN.fullmatch(encoded)
        if form is None:
            raise UnusableHashError(UnusableHashError.MALFORMED, "Not an scrypt hash.")
        return _within_bounds(2 ** int(form[1]), int(form[2]), int(form[3]), from_base64(form[4]), from_base64(form[5]))

    def computed(self, password: bytes, parts: Parts) -> bytes:
        """Return the hash of ``password``."""
        return run(password, parts.salt, n=parts.n, r=parts.r, p=parts.p, length=len(parts.digest))


def run(password: bytes, salt: bytes, *, n: int, r: int, p: int, length: int) -> bytes:
    """Return ``length`` bytes of scrypt with the memory its costs ask for.

    Args:
        password: Encoded as the format asks.
        salt: The salt as bytes.
        n: The cost, a power of two (RFC 7914, §2).
        r: The block size.
        p: The parallelisation.
        length: Of the derived key, in bytes.
    """
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, maxmem=128 * r * (n + p + 2), dklen=length)


def _within_bounds(n: int, r: int, p: int, salt: bytes, digest: bytes) -> Parts:
    if not 16 <= len(digest) <= 64:  # noqa: PLR2004 - bytes
        raise UnusableHashError(UnusableHashError.MALFORMED, "scrypt with a hash of less than 16 or over 64 bytes.")
    if not (n > 1 and n & (n - 1) == 0 and r and 1 <= p <= MAX_LANES and 128 * n * r <= MAX_MEMORY):
        raise UnusableHashError(UnusableHashError.COSTS, f"scrypt beyond {MAX_MEMORY >> 20} MiB or {MAX_LANES} lanes.")
    return Parts(n, r, p, salt, digest)


def recognise(text: str) -> str | None:
    """Return the stored form of a PHC string, of Django's form, or of our own; None for anything else.

    Raises:
        UnusableHashError: It is malformed, or its costs are out of bounds.
    """
    if text.startswith(f"{_DJANGO}$"):
        django = _DJANGO_FIELDS.fullmatch(text)
        if django is None:
            raise UnusableHashError(UnusableHashError.MALFORMED, "Not an scrypt hash of Django's.")
        _within_bounds(int(django[1]), int(django[2]), int(django[3]), b"", from_base64(django[4]))
        return text
    if text.startswith(f"{ALGORITHM}$"):
        ScryptPhcHasher().parts(text)
        return text
    if not text.startswith("$scrypt$"):
        return None
    phc = _PHC.fullmatch(text)
    if phc is None:
        raise UnusableHashError(UnusableHashError.MALFORMED, "Not a PHC string of scrypt.")
    salt, digest = (from_base64(part.replace(".", "+")) for part in phc.groups()[3:])
    _within_bounds(2 ** int(phc[1]), int(phc[2]), int(phc[3]), salt, digest)
    return f"{ALGORITHM}${phc[1]}${phc[2]}${phc[3]}${as_base64(salt)}${as_base64(digest)}"
