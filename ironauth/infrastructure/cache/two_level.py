"""The cache: Django's API for plain values, and tagged entries that a row in the database ends.

A tagged entry is used only while it was confirmed against the database within ``IRONAUTH_L1_MAX_STALE_S``: by its
own reading, or by the invalidation feed. That is the longest life of a revoked token in another worker.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.core.signals import setting_changed

from ironauth.infrastructure.cache.local_values import LocalCache
from ironauth.infrastructure.cache.memory import UNKNOWN_ID, L1Entry, freshness, l1
from ironauth.infrastructure.cache.redis import L2
from ironauth.infrastructure.telemetry import metrics
from ironauth.infrastructure.threads.single_flight import SingleFlight

if TYPE_CHECKING:
    from ironauth.infrastructure.cache.redis_values import RemoteCache


#: Keys under which nothing was found, remembered by each process, at most; 1 MiB. Strangers choose such keys.
MAX_ABSENT = 1_024


@dataclass(frozen=True, slots=True)
class Loaded[T]:
    """What a reading found: the value, the tags that end it, and when it ends by itself (unix seconds).

    ``absent``: The value says that there is nothing. It is kept in a small store apart and not shared, so that a
    stranger who invents keys drops no entry of somebody else.
    """

    value: T
    tags: tuple[str, ...]
    expires_at: float
    absent: bool = False


class ReadMark(NamedTuple):
    """What was known when a reading from the database began; what becomes known later may be missing from it."""

    sequence: int
    as_of: int | None
    started: float  # monotonic seconds


class TwoLevelCache(BaseCache):
    """A Django cache backend; ``LOCATION`` is a Redis URL, or empty for this process alone.

    Plain values (Django's API) live in Redis, or here when there is none: without tags nothing could tell a second
    copy that it is outdated. Tagged entries (``peek``, ``fetch``) live here and are shared through Redis. All state
    belongs to the process: Django makes a cache object per thread and task, and every one sees the same.
    Losing Redis costs misses, never an exception.
    """

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        name = f"{location} {sorted(params.items(), key=str)}"
        self._plain = _plain_cache(name, location, params)
        self.remote = None if isinstance(self._plain, LocalCache) else self._plain
        self._l1 = l1(name)
        self._absent = l1(f"{name} absent", max_entries=MAX_ABSENT)
        self._l2 = L2(self.remote, freshness) if self.remote else None
        self._flights = _flights.setdefault(name, SingleFlight())
        #: ``peek``, for who counts by other means.
        self.get_if_fresh: Callable[[str], object | None] = self._l1.peek
        #: ``peek(key)``: the tagged entry's value if it may be used now, else None. In memory; see L1.peek.
        self.peek: Callable[[str], object | None] = self._counted_peek if settings.IRONAUTH_METRICS else self._l1.peek

    # ------------------------------------------------------------ tagged entries
    async def fetch[T](
        self, key: str, load: Callable[[], Awaitable[Loaded[T]]], kind: type[T], *, tags: tuple[str, ...] = ()
    ) -> T:
        """Return the value of ``key``, from memory, else from Redis, else from ``load()``, one reading for all.

        ``tags`` that are known beforehand: when one was invalidated moments ago, Redis is neither asked, because what
        it holds is older, nor told, because nobody else asks it either. What ``load`` raises reaches everyone who
        waited for it, and is not kept. A value read while one of its tags was being invalidated is returned to those
        who asked before, and not kept.
        """
        value = self.peek(key)
        if value is None:
            value = self._absent.peek(key)
        if isinstance(value, kind):
            return value
        return await self._flights.join(key, freshness.sequence, lambda: self._read(key, load, kind, tags))

    @property
    def entries(self) -> int:
        """How many tagged entries are in memory."""
        return len(self._l1)

    def mark(self) -> ReadMark:
        """Return where a reading from the database begins, for ``keep``; call it before the first query."""
        return ReadMark(freshness.sequence, freshness.position, time.monotonic())

    def put_if_current[T](self, key: str, loaded: Loaded[T], reading: ReadMark) -> bool:
        """Use what ``reading`` found from now on, in this process; return whether it is kept.

        It is not when one of its tags was invalidated since.
        """
        return self._l1.put(key, _entry(loaded, reading), sequence=reading.sequence)

    def drop(self, *tags: str) -> None:
        """Stop using every entry of this process that carries one of ``tags``. For all processes: ``invalidate``."""
        freshness.apply(dict.fromkeys(tags, UNKNOWN_ID))

    def _counted_peek(self, key: str) -> object | None:
        value = self._l1.peek(key)
        recorder = metrics.recorder
        if recorder is not None:
            (recorder.misses if value is None else recorder.hits)[0] += 1
        return value

    async def _read[T](
        self, key: str, load: Callable[[], Awaitable[Loaded[T]]], kind: type[T], tags: tuple[str, ...]
    ) -> T:
        reading = self.mark()
        max_stale_s = self._l1.max_stale_s
        l2 = None if freshness.dropped_after(tags, reading.started - max_stale_s) else self._l2
        if l2 is not None:
            shared = await l2.get(key, kind, max_stale_s=max_stale_s)
            if shared is not None and self._l1.put(key, shared, sequence=reading.sequence):
                return shared.value  # type: ignore[return-value]  # decoded as ``kind``
        if metrics.recorder is not None:
            metrics.recorder.count("ironauth_cache_loads")
        loaded = await load()
        entry = _entry(loaded, reading)
        if loaded.absent:
            self._absent.put(key, entry, sequence=reading.sequence)
        elif self._l1.put(key, entry, sequence=reading.sequence) and l2 is not None:
            _in_background(l2.put(key, entry, max_stale_s=max_stale_s))
        return loaded.value

    # ------------------------------------------------------------ Django's API
    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        """Return the plain value, or ``default``."""
        return self._plain.get(key, default, version)

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        """Store a plain value for ``timeout`` seconds; None: forever; 0: not at all."""
        self._plain.set(key, value, timeout, version)

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Store a plain value unless there is one, in one step; return whether it was stored."""
        return self._plain.add(key, value, timeout, version)

    def delete(self, key: Any, version: int | None = None) -> bool:
        """Remove a plain value; return whether there was one."""
        return self._plain.delete(key, version)

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Give a plain value a new time-out; return whether there was one."""
        return self._plain.touch(key, timeout, version)

    def incr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        """Add to a whole number in one step, keeping its time-out; raise ValueError when there is none."""
        return self._plain.incr(key, delta, version)

    def has_key(self, key: Any, version: int | None = None) -> bool:
        """Return whether there is a plain value."""
        return self._plain.has_key(key, version)

    def clear(self) -> None:
        """Remove every plain value under this prefix, and every tagged entry here and in Redis."""
        freshness.clear()
        self._plain.clear()

    async def aget(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        """See get(); no thread is used, here and below."""
        return await self._plain.aget(key, default, version)

    async def aset(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        """See set()."""
        await self._plain.aset(key, value, timeout, version)

    async def aadd(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """See add()."""
        return await self._plain.aadd(key, value, timeout, version)

    async def adelete(self, key: Any, version: int | None = None) -> bool:
        """See delete()."""
        return await self._plain.adelete(key, version)

    async def atouch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """See touch()."""
        return await self._plain.atouch(key, timeout, version)

    async def aincr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        """See incr()."""
        return await self._plain.aincr(key, delta, version)

    async def ahas_key(self, key: Any, version: int | None = None) -> bool:
        """See has_key()."""
        return await self.aget(key, self._missing_key, version) is not self._missing_key

    async def aclear(self) -> None:
        """See clear()."""
        freshness.clear()
        await self._plain.aclear()

    async def aclose(self, **_: Any) -> None:
        """Keep the connections, as close() does: Django calls these after a request."""

    async def disconnect(self) -> None:
        """Close the running loop's connections to Redis, after what is being shared has been sent."""
        await asyncio.gather(*(task for task in _background if task.get_loop() is asyncio.get_running_loop()))
        if self.remote is not None:
            await self.remote.disconnect()


_flights: dict[str, SingleFlight] = {}
_background: set[asyncio.Task[None]] = set()
_plain_caches: "dict[str, LocalCache | RemoteCache]" = {}
_lock = threading.Lock()
_token_cache: TwoLevelCache | None = None


def _entry(loaded: Loaded[Any], reading: ReadMark) -> L1Entry:
    return L1Entry(loaded.value, reading.started, reading.as_of, loaded.tags, loaded.expires_at)


def _plain_cache(name: str, location: str, params: dict[str, Any]) -> "LocalCache | RemoteCache":
    with _lock:
        found = _plain_caches.get(name)
        if found is None:
            if location:
                # 8 MiB that a server without Redis does not need; with one, they are loaded while it starts.
                from ironauth.infrastructure.cache.redis_values import RemoteCache  # noqa: PLC0415 - see above

                found = RemoteCache(location, params)
            else:
                found = LocalCache(name, {"max_entries": settings.IRONAUTH_L1_MAX_ENTRIES, **params})
            _plain_caches[name] = found
    return found


def _in_background(work: Any) -> None:
    """Run ``work`` after the answer is on its way; it never fails, since every Redis failure is a miss."""
    task = asyncio.get_running_loop().create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)


def token_cache() -> TwoLevelCache:
    """Return the process's one cache object, with the settings of ``CACHES["default"]``."""
    global _token_cache  # noqa: PLW0603 - Django's own ``caches`` makes one per thread and task
    cache = _token_cache
    if cache is None:
        params = dict(settings.CACHES["default"])
        params.pop("BACKEND")
        cache = _token_cache = TwoLevelCache(params.pop("LOCATION", ""), params)
    return cache


def _forget(*, setting: str, **_: object) -> None:
    global _token_cache  # noqa: PLW0603 - see token_cache()
    if setting == "CACHES":
        _token_cache = None


setting_changed.connect(_forget, dispatch_uid="ironauth.cache")
