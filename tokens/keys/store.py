"""This process's copy of the key set: loaded at start, replaced when a key changes; a fresh copy makes nobody wait.

Signing, verifying and publishing keys need no database while a copy is held. The age rule, a security figure: a copy
older than ``MAX_AGE_S`` is reloaded *before* it verifies anything. So a dropped key stops verifying within that time in
every worker, also in one that missed the message. An older copy is used only while the database cannot be reached:
nobody can drop a key then, and a token not seen before is refused with 503, because its session cannot be read.
"""

import asyncio
import math
import time
from functools import lru_cache

import msgspec

from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError
from ironauth.infrastructure.crypto.sealing import SealBrokenError
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.errors import SigningKeyMissing
from tokens.keys.key_set import FIRST_FAMILIES, ActiveKey, Family, KeyRecord, KeySet, PublicJwk, build_key_set, kid_tag
from tokens.keys.models import SigningKey
from tokens.keys.wrapping import unseal

MAX_AGE_S = 5.0  # seconds; the same bound as IRONAUTH_L1_MAX_STALE_S's default
REFRESH_AFTER_S = 2.5  # seconds; a copy in use is replaced in the background long before anyone has to wait for it
# Seconds a request waits for a newer copy while it has one; a healthy database answers in a hundredth of that. What an
# older copy verifies is not the end: the session needs the database too, and the key is looked at again after that.
MAX_WAIT_S = 0.25
MIN_RELOAD_GAP_S = 1.0  # seconds; a flood of tokens with unknown kids costs one query in each

log = get_logger()


def missing_remedy(family: Family) -> str:
    """Return what an operator does when nothing signs in this family."""
    option = "" if family is Family.ED25519 else f" --alg {family}"
    return (
        "restore IRONAUTH_MASTER_KEYS where signing_key_unreadable is logged, "
        f"else run manage.py create_signing_key{option}"
    )


class KeyStore:
    """Holds the current ``KeySet``; one reload at a time for all callers."""

    def __init__(self) -> None:
        self._keys: KeySet | None = None
        self._loaded_at = 0.0  # monotonic; when the query of the copy began
        self._tried_at = 0.0  # monotonic
        self._changes = 0  # how often a key is known to have changed
        self._seen = 0  # how many of these changes the copy contains
        self._failing = False
        self._reloading: asyncio.Task[None] | None = None

    def forget(self) -> None:
        """Drop the copy, so that the next use loads it again."""
        self.__init__()  # type: ignore[misc] # back to the beginning, whatever that will be made of

    def outdated(self) -> None:
        """Note that a key has changed: the copy is not used again while the database answers. Thread-safe."""
        self._changes += 1

    def holds(self, kid: str) -> bool:
        """Return whether the copy at hand accepts tokens of this key."""
        return self._keys is not None and self._keys.verifier(kid, clock.unix()) is not None

    async def for_verifying(self) -> KeySet:
        """Return a set at most ``MAX_AGE_S`` old, or the last known one while the database cannot be reached.

        Raises:
            Unavailable: there is none at all.
        """
        return await self._current(MAX_AGE_S)

    async def for_publishing(self) -> KeySet:
        """Return the set for the JWKS: its age makes nobody wait, since clients keep their copies for longer.

        Raises:
            Unavailable: there is none at all.
        """
        return await self._current(math.inf)

    async def _current(self, max_age_s: float) -> KeySet:
        """Return the copy if it is younger than ``max_age_s`` and no key is known to have changed, else a new one."""
        age = time.monotonic() - self._loaded_at
        stale = age >= max_age_s or self._seen != self._changes
        if self._keys is None:
            return await self._reloaded()
        if stale or age >= REFRESH_AFTER_S:
            reload = self._reload_in_background()
            if stale and not self._failing:
                # No longer: what follows needs the database too, and its time limit is the request's.
                await asyncio.wait([reload], timeout=MAX_WAIT_S)
                if reload.done() and self._seen != self._changes and not self._failing:  # begun before the change
                    await asyncio.wait([self._reload_in_background()], timeout=MAX_WAIT_S)
        return self._keys

    async def for_unknown_kid(self) -> KeySet | None:
        """Return a newer set, when a token names a key this one lacks; None when it was asked for a moment ago."""
        if time.monotonic() - self._tried_at < MIN_RELOAD_GAP_S:
            return None
        return await self._reloaded()

    async def signing(self, family: Family = Family.ED25519) -> ActiveKey:
        """Return the key that signs new tokens of this family.

        Raises:
            SigningKeyMissing: (503) there is none; the log line then names the remedy.
        """
        keys = await self.for_verifying()
        if family not in keys.signers:
            keys = await self.for_unknown_kid() or keys
        found = keys.signers.get(family)
        if found is None:
            log.error("signing_key_missing", remedy=missing_remedy(family))
            raise SigningKeyMissing
        return found

    async def _reloaded(self) -> KeySet:
        """Wait for the reload that runs, or run one; raise ``Unavailable`` when it fails and there is no copy."""
        await asyncio.shield(self._reload_in_background())
        if self._seen != self._changes and not self._failing:  # that one had begun before a change became known
            await asyncio.shield(self._reload_in_background())
        if self._keys is None:
            raise Unavailable
        return self._keys

    def _reload_in_background(self) -> asyncio.Task[None]:
        """Return the reload that runs in this event loop, starting one if there is none."""
        task = self._reloading
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = self._reloading = asyncio.get_running_loop().create_task(self._reload())
        return task

    async def _reload(self) -> None:
        """Replace the copy; keep the old one, and log the start of the outage once, when that fails."""
        self._tried_at = started = time.monotonic()
        changes = self._changes
        try:
            records = await database().read(read_records)
        except Unavailable:
            if not self._failing:
                log.warning("key_set_reload_failed", age_s=round(started - self._loaded_at, 1))
            self._failing = True
            return
        before = self._keys
        # The copy is as old as the moment its query began, not as the moment it arrived.
        self._keys, self._loaded_at, self._failing = build_key_set(records, now=clock.unix()), started, False
        self._seen = changes
        if before is not None and (gone := before.verifying.keys() - self._keys.verifying.keys()):
            token_cache().drop(*map(kid_tag, gone))  # tokens verified while this process still held the key


def read_records() -> list[KeyRecord]:
    """Return every key tokens may name, active ones with their private part; a unit of work, 1 query."""
    records = []
    for key in SigningKey.objects.published(clock.now()):
        active = key.state == SigningKey.State.ACTIVE
        records.append(
            KeyRecord(
                jwk=msgspec.convert(key.public_jwk, PublicJwk),
                active=active,
                seed=_seed(key) if active else None,
                not_after=key.not_after.timestamp() if key.not_after else None,
                coming=key.state == SigningKey.State.NEXT,
            )
        )
    return records


def _seed(key: SigningKey) -> bytes | None:
    """Return an active key's private part; None, and a log line with the remedy, when it does not open."""
    try:
        return unseal(key.master_key_id, bytes(key.private_encrypted), key.kid)
    except (MasterKeyMissingError, SealBrokenError) as error:
        log.error("signing_key_unreadable", kid=key.kid, remedy=str(error))  # noqa: TRY400 - the reason is the message
        return None


@lru_cache(maxsize=1)
def key_store() -> KeyStore:
    """Return this process's key store."""
    return KeyStore()


async def load_at_startup() -> None:
    """Load the keys before the first request; a missing key is logged, not fatal."""
    try:
        keys = await key_store().for_verifying()
    except Unavailable:
        log.warning("key_set_not_loaded", remedy="check DATABASE_URL; the keys load with the first request that can")
        return
    for family in FIRST_FAMILIES:
        if family not in keys.signers:  # an installation may be older than the second, which new clients need
            tell = log.error if family is Family.ED25519 else log.warning
            tell("signing_key_missing", remedy=missing_remedy(family))
    if keys.active is not None:
        log.info("key_set_loaded", keys=len(keys.verifying), active_kid=keys.active.kid)
