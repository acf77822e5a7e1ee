"""What hashers for hashes of other systems have in common: they judge within bounds, and make no hashes."""

import hmac
from base64 import b64decode, b64encode
from typing import Any, ClassVar, Never

from django.contrib.auth.hashers import BasePasswordHasher
from django.utils.translation import gettext_noop as _

__all__ = ["ForeignHasher", "UnusableHashError", "as_base64", "from_base64"]


class UnusableHashError(ValueError):
    """A hash cannot be taken over. ``code``: the reason, for reports and counts."""

    MALFORMED: ClassVar = "hash_malformed"
    COSTS: ClassVar = "hash_costs"
    UNKNOWN: ClassVar = "hash_unknown"
    NOT_ALLOWED: ClassVar = "hash_not_allowed"

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code


class ForeignHasher(BasePasswordHasher):
    """Judges hashes that another system made. Each is replaced by Argon2id at the person's next sign-in.

    A subclass says how it reads the stored form (``parts``) and computes the hash (``computed``).
    """

    def parts(self, encoded: str) -> Any:
        """Return the parts of ``encoded``, whose attribute ``digest`` is the hash.

        Raises:
            UnusableHashError: It is malformed, or its costs are out of bounds.
        """
        raise NotImplementedError

    def computed(self, password: bytes, parts: Any) -> bytes:
        """Return the hash of ``password`` with the salt and costs of ``parts``."""
        raise NotImplementedError

    def verify(self, password: str, encoded: str) -> bool:
        """Tell whether ``password`` is right; the password is taken as it was typed, in UTF-8.

        Raises:
            UnusableHashError: ``encoded`` is malformed, or its costs are out of bounds.
        """
        parts = self.parts(encoded)
        return hmac.compare_digest(self.computed(password.encode("utf-8", "surrogatepass"), parts), parts.digest)

    def encode(self, password: str, salt: str) -> Never:
        """Raise ``NotImplementedError``: new hashes are Argon2id."""
        raise NotImplementedError("hashes of other systems are judged only: make new ones with hash_password()")

    def decode(self, encoded: str) -> dict[str, Any]:
        """Return the algorithm alone: nobody reads more of a hash that the next sign-in replaces."""
        self.parts(encoded)
        return {"algorithm": self.algorithm}

    def safe_summary(self, encoded: str) -> dict[Any, Any]:
        """Return what the admin shows of a hash."""
        return {_("algorithm"): self.algorithm, _("hash"): _("replaced at the next sign-in")}

    def must_update(self, encoded: str) -> bool:
        """Return True: the next sign-in replaces it."""
        return True

    def harden_runtime(self, password: str, encoded: str) -> None:
        """Do nothing: ``accounts.passwords.hashing`` makes up for the time."""


def as_base64(raw: bytes) -> str:
    """Return ``raw`` in Base64 without padding, as PHC strings have it."""
    return b64encode(raw).rstrip(b"=").decode("ascii")


def from_base64(text: str) -> bytes:
    """Return what ``text`` holds in Base64: standard or URL-safe alphabet, with padding or without.

    Raises:
        UnusableHashError: It is not Base64.
    """
    text = text.strip().rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError as error:
        raise UnusableHashError(UnusableHashError.MALFORMED, "A part of the hash is not Base64.") from error
