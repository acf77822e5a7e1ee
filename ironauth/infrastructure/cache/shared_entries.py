"""Entries shared between processes through Redis: typed, signed, and refused unless provably fresh.

A shared entry is as old as the reading it came from, even when it was copied. Two clocks must agree that it is young
enough: Redis' remaining life, and the time written inside. And no invalidation that this process knows of may be
younger than the position the entry was read at.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from ironauth.infrastructure.cache.memory import Freshness, L1Entry
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto.signed_values import NotOurs, seal, unseal
from ironauth.infrastructure.telemetry import metrics

if TYPE_CHECKING:
    from ironauth.infrastructure.cache.redis_client import RedisClient

#: How far another machine's clock may be ahead before its entries are refused; seconds. NTP keeps within 0.1.
AHEAD_S = 1.0


class SharedEntry[T](msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What Redis holds, behind a MAC; ``key`` is repeated, so that an answer to another question is noticed."""

    key: str
    as_of: int
    read_at: float  # unix seconds at which the reading from the database began
    expires_at: float  # unix seconds
    tags: tuple[str, ...]
    value: T


class NotFresh(ValueError):
    """The entry is too old, from the future, expired, or answers another question."""


class L2:
    """The typed entries of one Redis; every failure is a miss."""

    #: A context manager around every lookup; what it yields is called with whether something was found.
    around: Callable[[], AbstractContextManager[Callable[[bool], None]]] | None = None

    def __init__(self, remote: "RedisClient", freshness: Freshness) -> None:
        self._remote = remote
        self._freshness = freshness

    async def get(self, key: str, kind: Any, *, max_stale_s: float) -> L1Entry | None:
        """Return the entry of ``key`` if it may be used now; its ``checked_at`` is when it was read by its writer."""
        if self.around is None:
            found = await self._find(key, kind, max_stale_s)
        else:
            with self.around() as record:
                found = await self._find(key, kind, max_stale_s)
                record(found is not None)
        if metrics.recorder is not None:
            metrics.recorder.count("ironauth_cache_lookups", "l2", "miss" if found is None else "hit")
        return found

    async def _find(self, key: str, kind: Any, max_stale_s: float) -> L1Entry | None:
        if self._freshness.position is None:
            return None  # without a feed this process cannot tell what was invalidated meanwhile
        asked_at = time.monotonic()
        name = self._name(key)

        async def ask(redis: Any) -> list[Any]:
            async with redis.pipeline(transaction=False) as pipe:
                result: list[Any] = await pipe.get(name).pttl(name).execute()
            return result

        nothing: list[Any] = [None, None]
        data, life_ms = await self._remote.aattempt(ask, nothing)
        if data is None:
            return None
        try:
            shared = _decoder(kind).decode(unseal(b"entry", data))
            age = self._age(shared, key, life_ms, max_stale_s)
        except (NotOurs, NotFresh, msgspec.MsgspecError, UnicodeDecodeError) as error:
            if not isinstance(error, NotFresh):
                self._remote.breaker.unusable(error)
            return None
        return L1Entry(shared.value, asked_at - age, shared.as_of, shared.tags, shared.expires_at)

    async def put(self, key: str, entry: L1Entry, *, max_stale_s: float) -> None:
        """Share ``entry`` for what is left of its time."""
        age = time.monotonic() - entry.checked_at
        life_ms = int((max_stale_s - age) * 1000)
        if entry.as_of is None or life_ms <= 0:
            return
        shared = SharedEntry(key, entry.as_of, clock.unix() - age, entry.expires_at, entry.tags, entry.value)
        data = seal(b"entry", msgspec.msgpack.encode(shared))
        await self._remote.aattempt(lambda redis: redis.set(self._name(key), data, px=life_ms), None)

    def clear(self) -> None:
        """Remove every shared entry; blocks."""

        def unlink(redis: Any) -> None:
            for key in redis.scan_iter(match=self._name("*"), count=1_000):
                redis.unlink(key)

        self._remote.attempt(unlink, None)

    def _age(self, shared: SharedEntry[Any], key: str, life_ms: object, max_stale_s: float) -> float:
        """Return how old the entry is at most, in seconds; raise NotFresh when it must not be used."""
        now = clock.unix()
        by_clock = now - shared.read_at  # also true when Redis was frozen with the entry in its inbox
        by_redis = max_stale_s - life_ms / 1000 if isinstance(life_ms, int) and life_ms >= 0 else max_stale_s + 1
        age = max(by_clock, by_redis, 0.0)
        if shared.key != key or age > max_stale_s or by_clock < -AHEAD_S or shared.expires_at <= now:
            raise NotFresh
        if self._freshness.outdated(shared.tags, shared.as_of):
            raise NotFresh
        return age

    def _name(self, key: str) -> str:
        return f"{self._remote.key_prefix}:t:{key}"


@lru_cache(maxsize=64)
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[SharedEntry[Any]]:
    return msgspec.msgpack.Decoder(SharedEntry[kind])
