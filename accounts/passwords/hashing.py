"""Password hashes: Argon2id over an NFC, optionally peppered password, always by the hash pool.

With ``IRONAUTH_HASH_WORKERS`` another machine may do the run: it is given the MAC under a pepper, the salt and the
costs, and returns the raw hash, which is compared here. Passwords hashed without a pepper never leave.

Stored forms, both read by every Django tool through ``identify_hasher``:

    argon2$argon2id$v=19$m=65536,t=3,p=1$<salt>$<hash>                 as Django's own hasher writes it
    argon2$pepper=<key id>$argon2id$v=19$m=65536,t=3,p=1$<salt>$<hash>  HMAC-SHA-256(pepper, password) was hashed

A hash made without the pepper, with an older pepper of the ring, with other costs or by another hasher of
``PASSWORD_HASHERS`` still verifies, and ``Verdict.needs_rehash`` asks for a new one. A hash whose pepper left the ring
verifies nothing any more. Every refusal costs one Argon2 run at the present cost, whatever its reason; the exceptions
are a wrong password against Argon2 of another cost (one run at *that* cost) and against another algorithm
(that algorithm, then a wait up to the mean Argon2 time): both end for an account with its next sign-in.
"""

import asyncio
import hmac
import secrets
import time
import unicodedata
from functools import partial
from typing import Any, Final, NamedTuple

import argon2
from django.conf import settings
from django.contrib.auth.hashers import (
    Argon2PasswordHasher,
    BasePasswordHasher,
    get_hasher,
    identify_hasher,
    is_password_usable,
    make_password,
    mask_hash,
)
from django.utils.translation import gettext_noop as _

from accounts.passwords import breached as breached_passwords
from accounts.passwords import phc
from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.hashing import argon2 as argon2_raw
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry.logs import get_logger

MAX_LENGTH: Final = 1024  # code points after NFC; SP 800-63B-4 §3.1.1.2 asks for at least 64
MAX_ENCODED_LENGTH: Final = 256  # characters; the longest form with a 64-byte hash and a 16-character key id is 209
SALT_BYTES: Final = 16  # RFC 9106 §3.1: recommended for password hashing
HASH_BYTES: Final = 32  # RFC 9106 §4


class Verdict(NamedTuple):
    """Whether a password is right, and whether its hash should be made anew with today's costs and pepper.

    ``breached``: it is right, and in the list of breached ones.
    """

    ok: bool
    needs_rehash: bool
    breached: bool = False


def normalised(password: str) -> str:
    """Return ``password`` in NFC: what is counted and hashed (SP 800-63B-4 §3.1.1.2 (8)). Nothing is cut off."""
    return unicodedata.normalize("NFC", password)


def too_long(password: str) -> bool:
    """Tell whether ``password`` exceeds 1,024 code points after NFC."""
    # No character shortens by more than a factor of four; beyond that, the normalisation itself is refused.
    return len(password) > 4 * MAX_LENGTH or len(normalised(password)) > MAX_LENGTH


class IronArgon2Hasher(Argon2PasswordHasher):
    """Django's Argon2 hasher with costs from settings, NFC, a pepper, bounds, and the hash pool as its only place.

    ``encode`` and ``verify`` block the calling thread until the pool has run them: ``Overloaded`` when it is full,
    ``RuntimeError`` on a thread that runs an event loop (use ``hash_password`` and ``verify_password`` there).
    """

    algorithm = phc.ALGORITHM

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
        return hash_pool().run_blocking(partial(self._verify, password, encoded), movable=_movable(encoded))

    def decode(self, encoded: str) -> dict[str, Any]:
        """Return Django's dictionary, and ``pepper``: the key id or None. Raises ``ValueError`` when malformed."""
        stored = phc.read(encoded)
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
        stored = phc.read(encoded)
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
        mark = f"${phc.PEPPER_MARK}{pepper_id}" if (pepper_id := _pepper_id()) else ""
        return f"{self.algorithm}{mark}{phc.write(params, salt, digest)}"

    def _encode(self, password: str | bytes, salt: str | bytes) -> str:
        """Hash here and now; on a pool thread."""
        params = self.params()
        salted = salt if isinstance(salt, bytes) else salt.encode("latin-1")
        return self._stored(params, salted, _run(password, _pepper_id(), salted, params))

    def _verify(self, password: str | bytes, encoded: str) -> bool:
        """Verify here and now, with exactly one Argon2 run; on a pool thread."""
        stored = phc.read(encoded)
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
    return raw if pepper_id is None else hmac.digest(settings.IRONAUTH_PASSWORD_PEPPERS[pepper_id], raw, "sha256")


def _run(password: str | bytes, pepper_id: str | None, salt: bytes, params: argon2.Parameters) -> bytes:
    """Run Argon2 once; raises ``Overloaded`` where it found no memory: that is no answer about the password."""
    try:
        return hash_pool().raw_hash(_secret(password, pepper_id), salt, params, keyed=pepper_id is not None)
    except MemoryError as error:
        raise Overloaded from error


def _movable(encoded: str | None) -> bool:
    """Tell whether judging against ``encoded`` is one run of Argon2 that a hash worker may do, as others do.

    Its input is a MAC, never a password, and it costs at most what a new hash does, so that a time-out tells of the
    worker and not of the row.
    """
    if not hash_pool().shares:
        return False
    if not encoded or not is_password_usable(encoded):
        return True  # a run for its time alone
    if not encoded.startswith(f"{phc.ALGORITHM}$"):
        return False
    stored = phc.read(encoded)
    if stored is None:
        return True  # as above
    work = stored.params.time_cost * stored.params.memory_cost
    most = settings.IRONAUTH_ARGON2_TIME_COST * settings.IRONAUTH_ARGON2_MEMORY_KIB
    return stored.pepper_id is not None and work <= most


async def hash_password(password: str) -> str:
    """Return the stored form of ``password``: one hop to the pool.

    Raises ``ValueError`` beyond 1,024 code points and ``Overloaded`` when the pool is full.
    """
    return await hash_pool().run(partial(make_password, password), movable=True)


async def verify_password(password: str, encoded: str | None) -> Verdict:
    """Judge ``password`` with one hop to the pool and one Argon2 run, also for no, an unusable or an unknown hash.

    Raises ``Overloaded`` when the pool is full.
    """
    verdict, missing_s = await hash_pool().run(partial(_judge, password, encoded), movable=_movable(encoded))
    if missing_s:
        await asyncio.sleep(missing_s)
    return verdict


def verify_blocking(password: str, encoded: str | None) -> Verdict:
    """Judge ``password`` as ``verify_password`` does, blocking the calling thread; for the admin lane and commands."""
    verdict, missing_s = hash_pool().run_blocking(partial(_judge, password, encoded), movable=_movable(encoded))
    if missing_s:
        time.sleep(missing_s)
    return verdict


def _judge(password: str, encoded: str | None) -> tuple[Verdict, float]:
    """Return the verdict, and the seconds a cheaper algorithm should still wait; on a pool thread.

    What is asked about a right password is asked about every other too: it took 0.15 ms, by which a right password of
    an account that is refused all the same could be told from a wrong one. Where there is no hash, one of no account
    is judged: making a new one instead took 0.05 ms less, by which an account could be told.
    """
    preferred: Any = get_hasher()
    acceptable = not too_long(password)
    breached = acceptable and breached_passwords.is_breached(password)
    hasher = _hasher_of(encoded) if acceptable else None
    if hasher is None or encoded is None:
        encoded = preferred.nobodys()
        hasher = _hasher_of(encoded) or preferred
    began = time.monotonic()
    try:
        ok = hasher.verify(password, encoded)
    except Overloaded:
        raise
    except Exception:  # noqa: BLE001 - whatever it was, it is logged, and the docstring says what follows
        get_logger().exception("password_hash_refused", reason="unreadable", algorithm=hasher.algorithm)
        preferred.encode("", preferred.salt())
        return Verdict(ok=False, needs_rehash=False), 0.0
    needs_rehash = hasher is not preferred or preferred.must_update(encoded)
    if ok:
        return Verdict(ok=True, needs_rehash=needs_rehash, breached=breached), 0.0
    elapsed_s = time.monotonic() - began
    missing_s = 0.0 if hasher is preferred else max(0.0, hash_pool().stats().mean_hash_s - elapsed_s)
    return Verdict(ok=False, needs_rehash=False), missing_s


def _hasher_of(encoded: str | None) -> BasePasswordHasher | None:
    """Return the installed hasher that wrote ``encoded``, or nothing where there is none to ask."""
    if not encoded or not is_password_usable(encoded):
        return None
    try:
        return identify_hasher(encoded)
    except ValueError:
        return None
