"""Argon2id: reading and writing its stored form, with bounds on what one may ask of this server, and the hasher.

Stored forms, both read by every Django tool through ``identify_hasher``:

    argon2$argon2id$v=19$m=65536,t=3,p=1$<salt>$<hash>                 as Django's own hasher writes it
    argon2$pepper=<key id>$argon2id$v=19$m=65536,t=3,p=1$<salt>$<hash>  HMAC-SHA-256(pepper, password) was hashed
"""

import binascii
import hmac
import secrets
from base64 import b64decode, b64encode
from functools import partial
from typing import Any, Final, NamedTuple

import argon2
from argon2.low_level import Type
from django.conf import settings
from django.contrib.auth.hashers import Argon2PasswordHasher, is_password_usable, mask_hash
from django.utils.translation import gettext_noop as _

from accounts.passwords.formats import MAX_LENGTH, normalised, too_long
from accounts.passwords.formats.foreign import UnusableHashError
from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.crypto.master_keys import keyed_mac
from ironauth.infrastructure.hashing import argon2 as argon2_raw
from ironauth.infrastructure.hashing import argon2_bounds as bounds
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry.logs import get_logger

SALT_BYTES: Final = 16  # RFC 9106 §3.1: recommended for password hashing
HASH_BYTES: Final = 32  # RFC 9106 §4
ALGORITHM: Final = "argon2"  # the name Django's own hasher uses, so that its hashes are read as well
PEPPER_MARK: Final = "pepper="
_VARIETIES: Final = {Type.D: "argon2d", Type.I: "argon2i", Type.ID: "argon2id"}
_UNNAMED_VERSION: Final = 16  # Argon2 1.0, whose first hashes do not say so (the library's reader calls them 18)
_VERSIONS: Final = frozenset({_UNNAMED_VERSION, 19})  # ARGON2_VERSION_10 and _13 of argon2.h: there are no others


class Stored(NamedTuple):
    """The readable parts of a stored hash."""

    pepper_id: str | None
    phc: str
    params: argon2.Parameters
    salt: bytes
    digest: bytes


def read(encoded: str) -> Stored | None:
    """Return the parts of an Argon2 ``encoded``, or nothing where it is malformed or beyond ``argon2_bounds``."""
    prefix, _sep, rest = encoded.partition("$")
    pepper_id = None
    if rest.startswith(PEPPER_MARK):
        pepper_id, _sep, rest = rest.removeprefix(PEPPER_MARK).partition("$")
    phc = "$" + rest
    try:
        params = argon2.extract_parameters(phc)
    except argon2.exceptions.InvalidHashError:
        return None
    named = "$v=" in phc
    if not named:
        params.version = _UNNAMED_VERSION
    sane = (
        prefix == ALGORITHM
        and encoded.isascii()
        and params.version in _VERSIONS
        and 1 <= params.time_cost <= bounds.MAX_TIME
        and 1 <= params.parallelism <= bounds.MAX_LANES
        and 8 * params.parallelism <= params.memory_cost <= bounds.MAX_MEMORY_KIB  # RFC 9106 §3.1
        and params.hash_len in bounds.HASH_LENGTHS
        and params.salt_len in bounds.SALT_LENGTHS
    )
    if not sane:
        return None
    try:
        salt, digest = (b64decode(part + "=" * (-len(part) % 4), validate=True) for part in phc.split("$")[-2:])
    except binascii.Error:
        return None
    # One spelling only: whatever else the parts above were read from (bits left over, zeros in front) is malformed.
    spelled = write(params, salt, digest, named=named)
    return Stored(pepper_id, phc, params, salt, digest) if spelled == phc else None


def write(params: argon2.Parameters, salt: bytes, digest: bytes, *, named: bool = True) -> str:
    """Return the PHC string of a raw hash, as the reference implementation's ``encode_string`` spells it.

    Args:
        params: Its costs.
        salt: Its salt.
        digest: The hash.
        named: Whether it says its version; before Argon2 1.1 it did not.
    """
    version = f"v={params.version}$" if named else ""
    costs = f"m={params.memory_cost},t={params.time_cost},p={params.parallelism}"
    salted, hashed = (b64encode(part).rstrip(b"=").decode("ascii") for part in (salt, digest))
    return f"${_VARIETIES[params.type]}${version}{costs}${salted}${hashed}"


class IronArgon2Hasher(Argon2PasswordHasher):
    """Django's Argon2 hasher with costs from settings, NFC, a pepper, bounds, and the hash pool as its only place.

    ``encode`` and ``verify`` block the calling thread until the pool has run them: ``Overloaded`` when it is full,
    ``RuntimeError`` on a thread that runs an event loop (use ``hash_password`` and ``verify_password`` there).
    """

    algorithm = ALGORITHM

    def salt(self) -> str:
        """Return 16 random bytes, in the Latin-1 form Django's ``decode`` uses."""
        return secrets.token_bytes(SALT_BYTES).decode("latin-1")

    def encode(self, password: str | bytes, salt: str | bytes) -> str:
        """Return the stored form of ``password``; raises ``ValueError`` beyond 1,024 code points."""
        if isinstance(password, str) and too_long(password):
            raise ValueError(f"a password has at most {MAX_LENGTH} characters: choose a shorter one")
        return hash_pool().run_blocking(partial(self._encode, password, salt), movable=True)

    def verify(self, password: str | bytes, encoded: str) -> bool:
        """Tell whether ``password`` is right; never raises for what is stored, and always costs one run."""
        return hash_pool().run_blocking(partial(self._verify, password, encoded), movable=movable(encoded))

    def decode(self, encoded: str) -> dict[str, Any]:
        """Return Django's dictionary, and ``pepper``: the key id or None. Raises ``ValueError`` when malformed."""
        stored = read(encoded)
        if stored is None:
            raise ValueError("not a readable Argon2 hash: reset the password of this account")
        decoded: dict[str, Any] = super().decode(self.algorithm + stored.phc)
        return decoded | {"pepper": stored.pepper_id}

    def safe_summary(self, encoded: str) -> dict[Any, Any]:
        """Return what the admin shows of a hash."""
        try:
            decoded = self.decode(encoded)
        except ValueError:
            return {_("algorithm"): self.algorithm, _("hash"): _("unreadable: set a new password")}
        return {
            _("algorithm"): decoded["variety"],
            _("memory cost"): decoded["memory_cost"],
            _("time cost"): decoded["time_cost"],
            _("parallelism"): decoded["parallelism"],
            _("pepper"): decoded["pepper"] or _("none"),
            _("hash"): mask_hash(decoded["hash"]),
        }

    def must_update(self, encoded: str) -> bool:
        """Tell whether costs, variety, salt length or pepper differ from what a new hash would have."""
        stored = read(encoded)
        if stored is None:
            return True
        wanted = self.params()
        wanted.salt_len = max(SALT_BYTES, stored.params.salt_len)  # a longer salt is no reason to hash again
        return stored.params != wanted or stored.pepper_id != _pepper_id()

    def harden_runtime(self, password: str, encoded: str) -> None:
        """Do nothing: Argon2's cost has no meaningful difference to make up; see the module's text."""

    def params(self) -> argon2.Parameters:
        """Return the costs of a new hash, from settings."""
        return argon2.Parameters(
            type=argon2.low_level.Type.ID,
            version=argon2.low_level.ARGON2_VERSION,
            salt_len=SALT_BYTES,
            hash_len=HASH_BYTES,
            time_cost=settings.IRONAUTH_ARGON2_TIME_COST,
            memory_cost=settings.IRONAUTH_ARGON2_MEMORY_KIB,
            parallelism=settings.IRONAUTH_ARGON2_PARALLELISM,
        )

    def nobodys(self) -> str:
        """Return a stored form of today's costs and pepper that is no password's: its digest is random."""
        return self._stored(self.params(), secrets.token_bytes(SALT_BYTES), secrets.token_bytes(HASH_BYTES))

    def _stored(self, params: argon2.Parameters, salt: bytes, digest: bytes) -> str:
        mark = f"${PEPPER_MARK}{pepper_id}" if (pepper_id := _pepper_id()) else ""
        return f"{self.algorithm}{mark}{write(params, salt, digest)}"

    def _encode(self, password: str | bytes, salt: str | bytes) -> str:
        """Hash here and now; on a pool thread."""
        params = self.params()
        salted = salt if isinstance(salt, bytes) else salt.encode("latin-1")
        return self._stored(params, salted, _run(password, _pepper_id(), salted, params))

    def _verify(self, password: str | bytes, encoded: str) -> bool:
        """Verify here and now, with exactly one Argon2 run; on a pool thread."""
        stored = read(encoded)
        known = stored is not None and (
            stored.pepper_id is None or stored.pepper_id in settings.IRONAUTH_PASSWORD_PEPPERS
        )
        if stored is None or not known or (isinstance(password, str) and too_long(password)):
            if not known:
                reason = "malformed" if stored is None else "pepper_missing"
                get_logger().error("password_hash_refused", reason=reason, pepper_id=stored and stored.pepper_id)
            self._burn()
            return False
        try:
            found = _run(password, stored.pepper_id, stored.salt, stored.params)
        except argon2_raw.Argon2Failure:
            get_logger().error("password_hash_refused", reason="malformed", pepper_id=stored.pepper_id)
            self._burn()  # refused while its parameters were looked at: no run has happened
            return False
        return hmac.compare_digest(found, stored.digest)

    def _burn(self) -> None:
        """Run Argon2 once at the present cost for nothing but its time."""
        self._encode("", self.salt())


def _pepper_id() -> str | None:
    return next(iter(settings.IRONAUTH_PASSWORD_PEPPERS), None)


def _secret(password: str | bytes, pepper_id: str | None) -> bytes:
    """Return the bytes Argon2 is given: the password in NFC and UTF-8, or its HMAC under a pepper."""
    raw = normalised(password).encode("utf-8", "surrogatepass") if isinstance(password, str) else password
    return raw if pepper_id is None else keyed_mac(settings.IRONAUTH_PASSWORD_PEPPERS[pepper_id], raw)


def _run(password: str | bytes, pepper_id: str | None, salt: bytes, params: argon2.Parameters) -> bytes:
    """Run Argon2 once; raises ``Overloaded`` where it found no memory: that is no answer about the password."""
    try:
        return hash_pool().raw_hash(_secret(password, pepper_id), salt, params, keyed=pepper_id is not None)
    except MemoryError as error:
        raise Overloaded from error


def recognise(text: str) -> str | None:
    """Return the stored form of a PHC string, or of Django's form; None for anything else.

    Raises:
        UnusableHashError: It is malformed, its costs are out of bounds, or its pepper is not in the settings.
    """
    if not text.startswith((f"{ALGORITHM}$", "$argon2")):
        return None
    encoded = text if text.startswith(ALGORITHM) else ALGORITHM + text
    parts = read(encoded)
    if parts is None or (parts.pepper_id is not None and parts.pepper_id not in settings.IRONAUTH_PASSWORD_PEPPERS):
        raise UnusableHashError(UnusableHashError.COSTS, "Argon2 malformed, beyond its bounds, or of another pepper.")
    return encoded


def movable(encoded: str | None) -> bool:
    """Tell whether judging against ``encoded`` is one run of Argon2 that a hash worker may do, as others do.

    Its input is a MAC, never a password, and it costs at most what a new hash does, so that a time-out tells of the
    worker and not of the row.
    """
    if not hash_pool().shares:
        return False
    if not encoded or not is_password_usable(encoded):
        return True  # a run for its time alone
    if not encoded.startswith(f"{ALGORITHM}$"):
        return False
    stored = read(encoded)
    if stored is None:
        return True  # as above
    work = stored.params.time_cost * stored.params.memory_cost
    most = settings.IRONAUTH_ARGON2_TIME_COST * settings.IRONAUTH_ARGON2_MEMORY_KIB
    return stored.pepper_id is not None and work <= most
