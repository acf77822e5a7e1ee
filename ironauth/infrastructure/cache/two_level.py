"""The cache of verified tokens and other tagged entries, in this process and in Redis. A row in the database ends them.

A tagged entry is used only while it was confirmed against the database within ``IRONAUTH_L1_MAX_STALE_S``: by its own
reading, or by the invalidation feed. So a revoked token lives at most that long in another worker.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.core.signals import setting_changed

from ironauth.infrastructure.cache.memory import L1, UNKNOWN_ID, L1Entry, freshness
from ironauth.infrastructure.cache.shared_entries import L2
from ironauth.infrastructure.telemetry import metrics
from ironauth.infrastructure.threads.single_flight import SingleFlight

MIB: Final = 2**20
#: Keys under which nothing was found, remembered by each process, at most; bytes. Strangers choose such keys.
MAX_ABSENT_BYTES: Final = MIB


@dataclass(frozen=True, slots=True)
class Loaded[T]:
    """What a reading found.

    Attributes:
        value: What was read.
        tags: The tags that end it.
        expires_at: When it ends by itself; unix seconds.
        absent: The value stands for nothing found. It is kept in a small store apart and not shared, so that a stranger
            who invents keys drops no entry of somebody else.
        secret: It has something that Redis, or who reads there, must not learn: it stays in this process.
    """

    value: T
    tags: tuple[str, ...]
    expires_at: float
    absent: bool = False
    secret: bool = False


class ReadMark(NamedTuple):
    """What was known when a reading from the database began; what becomes known later may be missing from it."""

    sequence: int
    as_of: int | None
    started: float  # monotonic seconds


class TwoLevelCache:
    """Tagged entries here, shared with other processes through Redis; losing Redis costs misses, never an exception."""

    def __init__(self, redis_url: str) -> None:
        """Start empty; without ``redis_url`` nothing is shared."""
        remote = None
        if redis_url:
            # 8 MiB that a server without Redis does not need; with one, they are loaded while it starts.
            from ironauth.infrastructure.cache.redis_client import RedisClient  # noqa: PLC0415 - see above

            remote = RedisClient(redis_url)
        self.remote = remote
        stale_s = settings.IRONAUTH_L1_MAX_STALE_S
        self._l1 = L1(freshness, max_bytes=settings.IRONAUTH_L1_MIB * MIB, max_stale_s=stale_s)
        self._absent = L1(freshness, max_bytes=MAX_ABSENT_BYTES, max_stale_s=stale_s)
        self._l2 = L2(self.remote, freshness) if self.remote else None
        self._flights = SingleFlight()
        self.add_alias, self.keep_beside = self._l1.add_alias, self._l1.keep_beside
        #: ``find(alias)``: the entry with that alias if it may be used now; see L1.find.
        self.find: Callable[[bytes], L1Entry | None] = (
            self._counted_find if settings.IRONAUTH_METRICS else self._l1.find
        )
        #: ``peek(key)``: the tagged entry's value if it may be used now, else None. In memory; see L1.peek.
        self.peek: Callable[[str], object | None] = self._counted_peek if settings.IRONAUTH_METRICS else self._l1.peek

    async def fetch[T](
        self,
        key: str,
        load: Callable[[], Awaitable[Loaded[T]]],
        kind: type[T],
        *,
        tags: tuple[str, ...] = (),
        asked: bool = False,
    ) -> T:
        """Return the value of ``key``, from memory, else from Redis, else from ``load()``, one reading for all.

        ``tags`` that are known beforehand: when one was invalidated moments ago, Redis is neither asked, because what
        it holds is older, nor told, because nobody else asks it either. What ``load`` raises reaches everyone who
        waited for it, and is not kept. A value read while one of its tags was being invalidated is returned to those
        who asked before, and not kept. ``asked``: Redis was asked already, by ``shared``, and is told only.
        """
        value = self.peek(key)
        if value is None:
            value = self._absent.peek(key)
        if isinstance(value, kind):
            return value
        if metrics.recorder is not None:
            metrics.recorder.misses[0] += 1
        return await self._flights.join(key, freshness.sequence, lambda: self._read(key, load, kind, tags, asked))

    @property
    def shares(self) -> bool:
        """Whether there is a Redis, through which processes vouch for what they have read."""
        return self._l2 is not None

    async def shared[T](self, key: str, kind: type[T]) -> T | None:
        """Return the value of ``key`` that another process has read, and keep it; None where it may not be used.

        Redis is not always asked where it seldom has one: see ``Asking``.
        """
        if self._l2 is None or not self._l2.asking.pays():
            return None
        found = await self._l2.get(key, kind, into=self._l1, sequence=freshness.sequence)
        self._l2.asking.answered(key, found is not None)
        return None if found is None else found.value  # type: ignore[return-value]  # decoded as ``kind``

    @property
    def entries(self) -> int:
        """How many tagged entries are in memory."""
        return len(self._l1)

    @property
    def size(self) -> int:
        """Bytes that they take of ``IRONAUTH_L1_MIB``."""
        return self._l1.bytes

    @property
    def evictions(self) -> int:
        """How many entries that were good had to make room since the process began."""
        return self._l1.evictions

    def mark(self) -> ReadMark:
        """Return where a reading from the database begins, for ``keep``; call it before the first query."""
        return ReadMark(freshness.sequence, freshness.position, time.monotonic())

    def put_if_current[T](self, key: str, loaded: Loaded[T], reading: ReadMark) -> bool:
        """Use what ``reading`` found from now on, here and in other processes; return whether it is kept.

        It is not when one of its tags was invalidated since. Called on the event loop.
        """
        entry = _entry(loaded, reading)
        if not self._l1.put(key, entry, sequence=reading.sequence):
            return False
        if self._l2 is not None:
            self._l2.share(key, entry)
        return True

    def drop(self, *tags: str) -> None:
        """Stop using every entry of this process that carries one of ``tags``. For all processes: ``invalidate``."""
        freshness.apply(dict.fromkeys(tags, UNKNOWN_ID))

    def _counted_peek(self, key: str) -> object | None:
        value = self._l1.peek(key)
        if value is not None and metrics.recorder is not None:
            metrics.recorder.hits[0] += 1
        return value

    def _counted_find(self, alias: bytes) -> L1Entry | None:
        entry = self._l1.find(alias)
        if entry is not None and metrics.recorder is not None:
            metrics.recorder.hits[0] += 1
        return entry

    async def _read[T](
        self, key: str, load: Callable[[], Awaitable[Loaded[T]]], kind: type[T], tags: tuple[str, ...], asked: bool
    ) -> T:
        reading = self.mark()
        l2 = None if freshness.dropped_after(tags, reading.started - self._l1.max_stale_s) else self._l2
        if l2 is not None and not asked:
            shared = await l2.get(key, kind, into=self._l1, sequence=reading.sequence)
            if shared is not None:
                return shared.value  # type: ignore[return-value]  # decoded as ``kind``
        if metrics.recorder is not None:
            metrics.recorder.count("ironauth_cache_loads")
        loaded = await load()
        if self._l2 is not None:
            self._l2.asking.loaded(key)
        entry = _entry(loaded, reading)
        if loaded.absent:
            self._absent.put(key, entry, sequence=reading.sequence)
        elif self._l1.put(key, entry, sequence=reading.sequence) and l2 is not None and not loaded.secret:
            l2.share(key, entry)
        return loaded.value

    def clear(self) -> None:
        """Remove every entry here and in Redis; blocks."""
        freshness.clear()
        if self._l2 is not None:
            self._l2.clear()

    async def disconnect(self) -> None:
        """Close the running loop's connections to Redis, after what is being shared has been sent."""
        if self._l2 is not None:
            await self._l2.sent()
        if self.remote is not None:
            await self.remote.disconnect()


_token_cache: TwoLevelCache | None = None
_READ: Final = ("REDIS_URL", "IRONAUTH_METRICS", "IRONAUTH_L1_MIB", "IRONAUTH_L1_MAX_STALE_S")


def _entry(loaded: Loaded[Any], reading: ReadMark) -> L1Entry:
    return L1Entry(loaded.value, reading.started, reading.as_of, loaded.tags, loaded.expires_at)


def token_cache() -> TwoLevelCache:
    """Return the process's one cache."""
    global _token_cache  # noqa: PLW0603 - one cache per process is the point
    cache = _token_cache
    if cache is None:
        cache = _token_cache = TwoLevelCache(settings.REDIS_URL)
    return cache


def _forget(*, setting: str, **_: object) -> None:
    global _token_cache  # noqa: PLW0603 - see token_cache()
    if setting in _READ:
        _token_cache = None


setting_changed.connect(_forget, dispatch_uid="ironauth.cache")
