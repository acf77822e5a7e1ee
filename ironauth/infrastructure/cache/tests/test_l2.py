"""Entries shared through Redis are used only when provably fresh; everything else is a miss."""

import datetime
import signal
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from ironauth.infrastructure.cache.memory import Freshness, L1Entry
from ironauth.infrastructure.cache.redis_client import RedisClient
from ironauth.infrastructure.cache.shared_entries import L2, SharedEntry
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto.signed_values import NotOurs, seal, unseal
from ironauth.tests.services import PrivateRedis

STALE_S = 5.0


class Person(msgspec.Struct, frozen=True):
    """A typed value like the ones tokens share."""

    id: uuid.UUID
    joined: datetime.datetime
    roles: tuple[str, ...] = ()


MIA = Person(uuid.UUID(int=7), datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), ("staff",))


class Worker:
    """One process's view: its own knowledge, the common Redis."""

    def __init__(self, url: str, position: int) -> None:
        self.remote = RedisClient(url)
        self.known = Freshness()
        self.known.restart(time.monotonic(), position, position)
        self.l2 = L2(self.remote, self.known)

    async def put(self, key: str = "k", *tags: str, as_of: int = 10, age_s: float = 0) -> None:
        """Share MIA, read at ``as_of``."""
        entry = L1Entry(MIA, time.monotonic() - age_s, as_of, tags, clock.unix() + 60)
        await self.l2.put(key, entry, max_stale_s=STALE_S)

    async def get(self, key: str = "k", kind: Any = Person) -> L1Entry | None:
        """Return the shared entry, if it may be used."""
        return await self.l2.get(key, kind, max_stale_s=STALE_S)


@pytest.fixture
async def a(private_redis: PrivateRedis) -> AsyncIterator[Worker]:
    """A worker whose feed is at 10."""
    worker = Worker(private_redis.url, 10)
    yield worker
    await worker.remote.disconnect()


@pytest.fixture
async def b(private_redis: PrivateRedis) -> AsyncIterator[Worker]:
    """Another one."""
    worker = Worker(private_redis.url, 10)
    yield worker
    await worker.remote.disconnect()


async def raw(worker: Worker) -> bytes:
    """Return what Redis holds for "k"."""
    data = await worker.remote.aclient().get("ironauth:t:k")
    assert isinstance(data, bytes)
    return data


async def test_another_worker_finds_the_value_with_its_types(a: Worker, b: Worker) -> None:
    """A shared entry arrives whole, and is as old as its first reading, not as its copy."""
    await a.put("k", "sid:1", age_s=2)
    found = await b.get()
    assert found is not None
    assert (found.value, found.tags, found.as_of) == (MIA, ("sid:1",), 10)
    assert 2 <= time.monotonic() - found.checked_at < 2.5
    assert await b.get("other") is None


async def test_redis_forgets_it_in_time(a: Worker) -> None:
    """The time left in Redis is the bound minus the entry's age; what is older is not shared at all."""
    await a.put(age_s=4)
    assert 0 < await a.remote.aclient().pttl("ironauth:t:k") <= 1000
    await a.put("late", age_s=5)
    assert await a.remote.aclient().get("ironauth:t:late") is None


async def test_an_entry_from_before_a_known_invalidation_is_refused(a: Worker, b: Worker) -> None:
    """Older ``as_of`` than the tag's invalidation, or than this worker's memory reaches: a miss."""
    await a.put("k", "sid:1", "sub:1", as_of=10)
    b.known.apply({"sid:9": 11})
    assert await b.get() is not None
    b.known.apply({"sub:1": 12})
    assert await b.get() is None
    await a.put("k", "sid:1", "sub:1", as_of=12)
    assert await b.get() is not None
    await a.put("k", "sid:2", as_of=9)
    assert await b.get() is None


async def test_without_a_feed_nothing_is_shared(a: Worker, b: Worker) -> None:
    """A worker that cannot know of invalidations neither reads nor (having no position) writes."""
    await a.put()
    b.known.stop()
    assert await b.get() is None
    entry = L1Entry(MIA, time.monotonic(), None, (), clock.unix() + 60)
    await b.l2.put("mine", entry, max_stale_s=STALE_S)
    assert await b.remote.aclient().get("ironauth:t:mine") is None


async def test_a_write_that_redis_executes_late_is_refused(a: Worker, b: Worker, private_redis: PrivateRedis) -> None:
    """Redis was frozen with the entry in its inbox: by the clock inside it is too old, whatever Redis says."""
    await a.put()
    data = await raw(a)
    assert await b.get() is not None
    with clock.shifted(STALE_S + 0.1):
        await a.remote.aclient().set("ironauth:t:k", data, px=5000)
        assert await b.get() is None


async def test_clocks_that_disagree_cost_misses_not_staleness(a: Worker, b: Worker) -> None:
    """Half a minute ahead or behind, entries are refused; a tenth of a second is tolerated and counted as age."""
    for ahead in (30, -30, 1.5):
        with clock.shifted(ahead):
            await a.put()
        assert await b.get() is None
    with clock.shifted(0.1):
        await a.put(age_s=1)
    found = await b.get()
    assert found is not None
    assert time.monotonic() - found.checked_at >= 1  # Redis' own count of its life


async def test_garbage_and_forgeries_are_misses(a: Worker, b: Worker) -> None:
    """Random bytes, truncation, another key's entry, another type, no life limit, an unsigned entry: all a miss."""
    await a.put()
    good = await raw(a)
    client = a.remote.aclient()
    assert await b.get("k", int) is None
    other = msgspec.msgpack.encode(SharedEntry("k", 10, clock.unix(), clock.unix() + 60, (), MIA))
    for bad in (b"", b"garbage", b"\x00" * 500, good[:-1], good[:20], bytes(32) + good[32:], bytes(32) + other):
        await client.set("ironauth:t:k", bad, px=5000)
        assert await b.get() is None
    await client.set("ironauth:t:swapped", good, px=5000)
    assert await b.get("swapped") is None
    await client.set("ironauth:t:k", good)
    assert await b.get() is None
    await client.delete("ironauth:t:k")
    await client.rpush("ironauth:t:k", "a list")
    assert await b.get() is None
    assert not b.remote.breaker.is_open
    assert b.remote.breaker.unusable_answers >= 7


async def test_an_expired_value_is_refused(a: Worker, b: Worker) -> None:
    """An entry whose own expiry has passed is a miss."""
    entry = L1Entry(MIA, time.monotonic(), 10, (), clock.unix() + 30)
    await a.l2.put("k", entry, max_stale_s=STALE_S)
    assert await b.get() is not None
    with clock.shifted(31):
        assert await b.get() is None


async def test_a_frozen_redis_costs_one_time_limit(
    second_of_redis: None, a: Worker, private_redis: PrivateRedis
) -> None:
    """The first read waits at most the limit; reads and writes after it do not wait."""
    await a.put()
    assert private_redis.process
    private_redis.process.send_signal(signal.SIGSTOP)
    began = time.perf_counter()
    assert await a.get() is None
    assert time.perf_counter() - began < 1.9  # less than two of them
    began = time.perf_counter()
    for _ in range(50):
        assert await a.get() is None
        await a.put()
    assert time.perf_counter() - began < 0.9  # a hundred in less than one time limit


def test_a_mac_belongs_to_its_purpose_and_its_payload() -> None:
    """What was sealed for one purpose does not open for another, nor changed by one bit, nor cut."""
    sealed = seal(b"entry", b"payload")
    assert unseal(b"entry", sealed) == b"payload"
    for purpose, data in (
        (b"pickle", sealed),
        (b"entry", sealed[:-1]),
        (b"entry", sealed[:-1] + b"e"),
        (b"entry", b""),
        (b"entry", sealed[:10]),
    ):
        with pytest.raises(NotOurs):
            unseal(purpose, data)
