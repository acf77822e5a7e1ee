"""Entries shared between processes through Redis: typed, signed, and refused unless provably good.

An entry lives until what it says expires, and is believed as long as one in memory is: until a revocation. Redis is
not trusted with that. An entry names the position of the invalidation feed it was read at; a process believes it
only while its own feed is current, and has read every invalidation since that position and found none of the entry's.
So an old entry that Redis brings back, kept or held up, is refused by every process that knows of the revocation, and
all do within the bound. *Tokens vouched for through Redis* in docs/decisions goes through the ways to fail.
"""

import asyncio
import hmac
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ironauth.infrastructure.cache.memory import L1, Freshness, L1Entry
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto.master_keys import MAC_BYTES, mac, register_purpose
from ironauth.infrastructure.telemetry import metrics

if TYPE_CHECKING:
    from ironauth.infrastructure.cache.redis_client import RedisClient

#: How far the clocks of two machines may be apart; seconds. NTP keeps within 0.1.
AHEAD_S = 1.0
#: What is to be shared goes out together, so long after the first; seconds. One alone costs nine times as much.
GATHER_S: Final = 0.02
#: Entries that wait to go out; what comes on top is not shared.
MOST_WAITING: Final = 1_000
#: Longest life of an entry in Redis; seconds, of the longest access token.
LONGEST_S: Final = 3_600.0
#: Redis is asked how full it is so often (seconds), and gets no entries beyond this part of its memory: the rest is for
#: counts of throttles.
ROOM_ASKED_S, FULLEST = 5.0, 0.75
#: After a failure nothing is shared for so long; seconds.
PAUSE_S: Final = 1.0
#: Asking pays where this part of the answers at least is a good entry: a lookup takes 50 µs and spares 220. Where fewer
#: are, one lookup in so many is made, to see whether that has changed. How many lookups the part is about.
PAYS, ONE_IN, ABOUT = 0.25, 16, 16
#: Keys of which it is not known yet whether what was asked for is genuine; then the answer counts.
MOST_OPEN: Final = 1_000
_PURPOSE: Final = register_purpose("shared cache entries")


class SharedEntry[T](msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What Redis holds, behind a MAC; ``key`` is repeated, so that an answer to another question is noticed."""

    key: str
    as_of: int
    read_at: float  # unix seconds at which the reading from the database began
    expires_at: float  # unix seconds
    tags: tuple[str, ...]
    value: T


class NotGood(ValueError):
    """The entry is not ours, expired, from the future, or answers another question."""


class Asking:
    """Whether it pays to ask Redis for entries: it does not where nobody shares them, or each client has its worker.

    Only what turned out to be genuine counts. Otherwise a stranger could end the lookups, with tokens that are not.
    """

    def __init__(self) -> None:
        self._found = 1.0  # the part of the lookups that found a good entry; each newer one counts more
        self._passed = 0  # lookups that were not made since the last one
        self._open: dict[str, None] = {}

    def pays(self) -> bool:
        """Return whether to ask now."""
        if self._found >= PAYS:
            return True
        self._passed = (self._passed + 1) % ONE_IN
        return self._passed == 0

    def answered(self, key: str, found: bool) -> None:
        """Note an answer; what was not found counts once it is known that there is such an entry."""
        if found:
            self._found = max(2 * PAYS, self._found + (1 - self._found) / ABOUT)  # one is enough to try again
            return
        if len(self._open) >= MOST_OPEN:
            del self._open[next(iter(self._open))]
        self._open[key] = None

    def loaded(self, key: str) -> None:
        """Note that the database had the entry."""
        if key in self._open:
            del self._open[key]
            self._found -= self._found / ABOUT


class L2:
    """The typed entries of one Redis; every failure is a miss."""

    #: A context manager around every lookup; what it yields is called with whether something was found.
    around: Callable[[], AbstractContextManager[Callable[[bool], None]]] | None = None

    def __init__(self, remote: "RedisClient", freshness: Freshness) -> None:
        self._remote = remote
        self._freshness = freshness
        #: Of the lookups that ``TwoLevelCache.shared`` makes.
        self.asking = Asking()
        self._waiting: dict[str, L1Entry] = {}
        self._sending: asyncio.Task[None] | None = None
        self._room_asked_at = self._again_at = 0.0

    async def get(self, key: str, kind: Any, *, into: L1, sequence: int) -> L1Entry | None:
        """Return the entry of ``key`` if it may be used now; its ``checked_at`` is when this process' feed was read.

        It may when ``into`` keeps it, whose lock lets nothing be invalidated while that is judged.

        Args:
            key: Of the entry.
            kind: Type of its value.
            into: Where it is kept.
            sequence: What was known before Redis is asked.
        """
        if self.around is None:
            found = await self._find(key, kind, into, sequence)
        else:
            with self.around() as record:
                found = await self._find(key, kind, into, sequence)
                record(found is not None)
        if metrics.recorder is not None:
            metrics.recorder.count("ironauth_cache_lookups", "l2", "miss" if found is None else "hit")
        return found

    async def _find(self, key: str, kind: Any, into: L1, sequence: int) -> L1Entry | None:
        known = self._freshness
        if not known.is_current(into.max_stale_s):
            return None  # without a feed this process cannot tell what was invalidated meanwhile
        data = await self._remote.aget(self._name(key))
        if data is None:
            return None
        try:
            shared = _decoder(kind).decode(_opened(data))
            read_at = _judged(shared, key)
        except (NotGood, msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
            if not isinstance(error, NotGood):
                self._remote.breaker.unusable(error)
            return None
        if not known.is_current(into.max_stale_s):
            return None
        # Every invalidation of before the feed's last reading is known here; that none is of this entry, put judges.
        entry = L1Entry(shared.value, known.synced_at, shared.as_of, shared.tags, shared.expires_at)
        return entry if into.put(key, entry, sequence=sequence, read_at=read_at) else None

    def share(self, key: str, entry: L1Entry) -> None:
        """Share ``entry``, which was read from the database here, as long as it lives. It goes out in a moment."""
        if entry.as_of is None or len(self._waiting) >= MOST_WAITING or time.monotonic() < self._again_at:
            return
        self._waiting[key] = entry
        task = self._sending
        loop = asyncio.get_running_loop()
        if task is None or task.done() or task.get_loop() is not loop:
            self._sending = loop.create_task(self._send())

    async def sent(self) -> None:
        """Return when everything that was shared on this loop has been sent."""
        task = self._sending
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            await task

    async def _send(self) -> None:
        """Send what waits, together; it never fails, since every failure of Redis is a miss."""
        while self._waiting:  # also what came while Redis was told of the rest: nobody else would send it
            await asyncio.sleep(GATHER_S)
            if not (await self._has_room() and await self._send_together()):
                self._waiting.clear()
                return

    async def _send_together(self) -> bool:
        """Return whether Redis has taken what waits."""
        waiting, self._waiting = self._waiting, {}
        entries = [
            (self._name(key), sealed, int(min(life, LONGEST_S) * 1000))
            for key, entry in waiting.items()
            if (life := entry.expires_at - clock.unix()) >= GATHER_S and (sealed := _sealed(key, entry)) is not None
        ]
        if not entries or await self._remote.aput(entries):
            return True
        self._again_at = time.monotonic() + PAUSE_S
        return False

    async def _has_room(self) -> bool:
        """Return whether Redis has memory for entries; where it does not say, it has."""
        now = time.monotonic()
        if now - self._room_asked_at < ROOM_ASKED_S:
            return True
        self._room_asked_at = now
        nothing: dict[str, Any] = {}
        told = await self._remote.aattempt(lambda redis: redis.info("memory"), nothing)
        most = told.get("maxmemory", 0)
        if not most or told.get("used_memory", 0) <= FULLEST * most:
            return True
        self._again_at = now + ROOM_ASKED_S
        return False

    def clear(self) -> None:
        """Remove every shared entry, and what is known of asking for them; blocks."""

        def unlink(redis: Any) -> None:
            for key in redis.scan_iter(match=self._name("*"), count=1_000):
                redis.unlink(key)

        self._waiting.clear()
        self.asking = Asking()
        self._remote.attempt(unlink, None)

    def _name(self, key: str) -> str:
        return f"{self._remote.key_prefix}:e:{key}"


def _judged(shared: SharedEntry[Any], key: str) -> float:
    """Return when the entry was read, at the earliest (monotonic seconds); raise NotGood when it must not be used."""
    now = clock.unix()
    age = now - shared.read_at
    if shared.key != key or age < -AHEAD_S or shared.expires_at <= now:
        raise NotGood
    return time.monotonic() - age - AHEAD_S


def _sealed(key: str, entry: L1Entry) -> bytes | None:
    """Return the entry behind a MAC of the master keys: who can write to Redis cannot make one.

    None: MessagePack cannot hold its value. A stranger's JSON may have a number of more than 64 bits.
    """
    read_at = clock.unix() - (time.monotonic() - entry.checked_at)
    shared = SharedEntry(key, entry.as_of or 0, read_at, entry.expires_at, entry.tags, entry.value)
    try:
        payload = msgspec.msgpack.encode(shared)
    except OverflowError:
        return None
    return mac(_PURPOSE, payload) + payload


def _opened(data: bytes) -> bytes:
    """Return the payload of ``_sealed``; raise MsgspecError when the MAC does not fit.

    Only the newest master key makes one: it stands for the signature of a token, and an older key may have leaked.
    """
    payload = data[MAC_BYTES:]
    if not hmac.compare_digest(data[:MAC_BYTES], mac(_PURPOSE, payload)):
        raise msgspec.MsgspecError("An entry in Redis carries no valid MAC")
    return payload


@lru_cache(maxsize=64)
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[SharedEntry[Any]]:
    return msgspec.msgpack.Decoder(SharedEntry[kind])
