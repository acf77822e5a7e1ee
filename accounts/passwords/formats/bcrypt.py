"""bcrypt, as Auth0, Supabase, Rails, Laravel and Django store it.

Stored form: ``bcrypt$$2b$12$<22 characters of salt><31 of hash>``, as Django's own hasher writes it.
"""

import re
from typing import Final, NamedTuple

import bcrypt

from accounts.passwords.formats.foreign import ForeignHasher, UnusableHashError

ALGORITHM: Final = "bcrypt"
_DJANGO_SHA256: Final = "bcrypt_sha256"
MAX_ROUNDS: Final = 14  # 2^14 expansions: about 1 s on the machine of ``docs/performance/laboratory.md``
_MIN_ROUNDS: Final = 4  # bcrypt's own
MAX_PASSWORD: Final = 72  # bytes; bcrypt reads no more, and what made the hash ignored the rest
_FORM: Final = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")


class Parts(NamedTuple):
    """The readable parts of a stored hash; its own text is its salt."""

    digest: bytes


class BcryptHasher(ForeignHasher):
    """Judges bcrypt."""

    algorithm = ALGORITHM

    def parts(self, encoded: str) -> Parts:
        """Return the parts; raises ``UnusableHashError``."""
        text = encoded.removeprefix(f"{ALGORITHM}$")
        _check(text)
        return Parts(text.encode("ascii"))

    def computed(self, password: bytes, parts: Parts) -> bytes:
        """Return the hash of the first 72 bytes of ``password``."""
        return bcrypt.hashpw(password[:MAX_PASSWORD], parts.digest)


def _check(text: str) -> None:
    form = _FORM.fullmatch(text)
    if form is None:
        raise UnusableHashError(UnusableHashError.MALFORMED, "Not a bcrypt hash.")
    if not _MIN_ROUNDS <= int(form[1]) <= MAX_ROUNDS:
        raise UnusableHashError(UnusableHashError.COSTS, f"bcrypt beyond a cost of {MAX_ROUNDS}.")


def recognise(text: str) -> str | None:
    """Return the stored form of a bcrypt hash, bare or as Django writes it; None for anything else.

    Raises:
        UnusableHashError: It is malformed, or its costs are out of bounds.
    """
    name, _sep, rest = text.partition("$")
    if name in (ALGORITHM, _DJANGO_SHA256):
        _check(rest)
        return text
    if not text.startswith("$2"):
        return None
    _check(text)
    return f"{ALGORITHM}${text}"
