"""Entries shared through Redis are used only when provably good; everything else is a miss."""

import datetime
import signal
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from pytest_django import Settings

from ironauth.infrastructure.cache import shared_entries
from ironauth.infrastructure.cache.invalidation import InvalidationFeed
from ironauth.infrastructure.cache.memory import L1, RECENT_S, Freshness, L1Entry
from ironauth.infrastructure.cache.redis_client import RedisClient
from ironauth.infrastructure.cache.shared_entries import (
    ABOUT,
    AHEAD_S,
    L2,
    LONGEST_S,
    MOST_OPEN,
    MOST_WAITING,
    ONE_IN,
    Asking,
    SharedEntry,
)
from ironauth.infrastructure.cache.two_level import Loaded, TwoLevelCache, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.crypto.signed_values import NotOurs, seal, unseal
from ironauth.infrastructure.threads.circuit_breaker import Breaker
from ironauth.tests.services import PrivateRedis

STALE_S = 5.0


class Person(msgspec.Struct, frozen=True):
    """A typed value like the ones tokens share."""

    id: uuid.UUID
    joined: datetime.datetime
    roles: tuple[str, ...] = ()


MIA = Person(uuid.UUID(int=7), datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), ("staff",))


class Worker:
    """One process's view: its own knowledge, which reaches back a minute, and the common Redis."""

    def __init__(self, remote: Any, position: int) -> None:
        self.remote = remote
        self.known = Freshness()
        self.known.restart(time.monotonic(), position, position)
        self.known._reaches_at -= 60
        self.l1 = L1(self.known, max_bytes=2**20, max_stale_s=STALE_S)
        self.l2 = L2(self.remote, self.known)

    async def put(
        self, key: str = "k", *tags: str, as_of: int | None = 10, age_s: float = 0, life_s: float = 60
    ) -> None:
        """Share MIA, read at ``as_of``, ``age_s`` ago."""
        self.l2.share(key, L1Entry(MIA, time.monotonic() - age_s, as_of, tags, clock.unix() + life_s))
        await self.l2.sent()

    async def get(self, key: str = "k", kind: Any = Person) -> L1Entry | None:
        """Return the shared entry, if it may be used."""
        return await self.l2.get(key, kind, into=self.l1, sequence=self.known.sequence)


class Liar:
    """A Redis that answers what it likes, of all that was ever stored there."""

    key_prefix = "ironauth"

    def __init__(self) -> None:
        self.breaker = Breaker("redis")
        self.stored: dict[str, list[bytes]] = {}
        self.answer: bytes | None = None

    async def aattempt(self, call: Any, miss: Any) -> Any:
        """Store what is sent."""
        return await call(self) or miss

    async def info(self, _section: str) -> dict[str, int]:
        """Say nothing."""
        return {}

    async def aput(self, entries: Sequence[tuple[str, bytes, int]]) -> bool:
        """Keep every version."""
        for name, data, life_ms in entries:
            assert life_ms > 0
            self.stored.setdefault(name, []).append(data)
        return True

    async def aget(self, name: str) -> bytes | None:
        """Answer what the test wants it to."""
        return self.answer


@pytest.fixture
async def a(private_redis: PrivateRedis) -> AsyncIterator[Worker]:
    """A worker whose feed is at 10."""
    worker = Worker(RedisClient(private_redis.url), 10)
    yield worker
    await worker.remote.disconnect()


@pytest.fixture
async def b(private_redis: PrivateRedis) -> AsyncIterator[Worker]:
    """Another one."""
    worker = Worker(RedisClient(private_redis.url), 10)
    yield worker
    await worker.remote.disconnect()


@pytest.fixture
async def connected_cache(redis_cache: TwoLevelCache, feed: InvalidationFeed) -> TwoLevelCache:
    """The process's cache on a Redis, with a feed that runs."""
    return redis_cache


NAME = "ironauth:e:k"


async def raw(worker: Worker) -> bytes:
    """Return what Redis holds for "k"."""
    data = await worker.remote.aclient().get(NAME)
    assert isinstance(data, bytes)
    return data


async def test_another_worker_finds_the_value_with_its_types(a: Worker, b: Worker) -> None:
    """A shared entry arrives whole, and is confirmed by the reader's own feed."""
    await a.put("k", "sid:1", age_s=2)
    found = await b.get()
    assert found is not None
    assert (found.value, found.tags, found.as_of) == (MIA, ("sid:1",), 10)
    assert found.checked_at == b.known.synced_at
    assert await b.get("other") is None


async def test_it_lives_until_it_expires(a: Worker, b: Worker) -> None:
    """Not for the bound of a revocation: an entry of half a minute ago is good, and Redis keeps it to its end."""
    await a.put(age_s=30, life_s=600)
    assert 599_000 < await a.remote.aclient().pttl(NAME) <= 600_000
    assert await b.get() is not None
    await a.put(life_s=10 * LONGEST_S)
    assert await a.remote.aclient().pttl(NAME) <= LONGEST_S * 1000
    await a.put("late", life_s=0)
    assert await a.remote.aclient().get("ironauth:e:late") is None


async def test_an_expired_value_is_refused(a: Worker, b: Worker) -> None:
    """An entry whose own expiry has passed is a miss, whatever Redis still has."""
    await a.put(life_s=30)
    with clock.shifted(29):
        assert await b.get() is not None
    with clock.shifted(30):
        assert await b.get() is None


async def test_an_entry_from_before_a_known_invalidation_is_refused(
    a: Worker, b: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older ``as_of`` than the tag's invalidation, or than this worker's memory reaches: a miss."""
    monkeypatch.setattr(shared_entries, "AHEAD_S", 0.0)
    await a.put("k", "sid:1", "sub:1", as_of=10)
    b.known.apply({"sid:9": 11})
    assert await b.get() is not None
    b.known.apply({"sub:1": 12})
    assert await b.get() is None
    await a.put("k", "sid:1", "sub:1", as_of=12)
    assert await b.get() is not None
    await a.put("k", "sid:2", as_of=9)
    assert await b.get() is None


async def test_an_entry_that_was_read_about_when_its_tag_was_dropped_is_refused(a: Worker, b: Worker) -> None:
    """Whatever its position: two clocks may be a second apart, and what seems to be a little newer may be older."""
    b.known.apply({"sid:1": 12})
    await a.put("k", "sid:1", as_of=900)
    assert await b.get() is None
    b.known._recent["sid:1"] = msgspec.structs.replace(b.known._recent["sid:1"], at=time.monotonic() - AHEAD_S - 0.5)
    await a.put("k", "sid:1", as_of=900)
    assert await b.get() is not None


async def test_only_a_worker_whose_feed_is_current_believes(a: Worker, b: Worker) -> None:
    """Its feed was read within the bound; one that cannot know of invalidations neither reads nor writes."""
    await a.put()
    b.known.synced_at = time.monotonic() - STALE_S + 0.5
    assert await b.get() is not None
    b.known.synced_at = time.monotonic() - STALE_S - 0.01
    assert await b.get() is None
    b.known.synced_at = time.monotonic()
    assert await b.get() is not None
    b.known.stop()
    assert await b.get() is None
    await b.put("mine", as_of=None)
    assert await b.remote.aclient().get("ironauth:e:mine") is None


async def test_clocks_that_disagree_cost_misses_not_staleness(a: Worker, b: Worker) -> None:
    """An entry from a second ahead and more is refused; one of a clock that is behind counts as older than it is."""
    for ahead in (30, AHEAD_S + 0.5):
        with clock.shifted(ahead):
            await a.put()
        assert await b.get() is None
    with clock.shifted(AHEAD_S - 0.5):
        await a.put()
    assert await b.get() is not None
    with clock.shifted(-70):
        await a.put(life_s=600)
    assert await b.get() is None  # before anything this worker remembers


async def test_garbage_and_forgeries_are_misses(a: Worker, b: Worker) -> None:
    """Random bytes, truncation, another key's entry, another type, an unsigned entry, a list: all a miss."""
    await a.put()
    good = await raw(a)
    client = a.remote.aclient()
    assert await b.get("k", int) is None
    other = msgspec.msgpack.encode(SharedEntry("k", 10, clock.unix(), clock.unix() + 60, (), MIA))
    for bad in (b"", b"garbage", b"\x00" * 500, good[:-1], good[:20], bytes(32) + good[32:], bytes(32) + other):
        await client.set(NAME, bad, px=5000)
        assert await b.get() is None
    await client.set("ironauth:e:swapped", good, px=5000)
    assert await b.get("swapped") is None
    await client.delete(NAME)
    await client.rpush(NAME, "a list")
    assert await b.get() is None
    assert not b.remote.breaker.is_open
    assert b.remote.breaker.unusable_answers >= 7


async def test_the_master_keys_sign_it(a: Worker, b: Worker, settings: Settings) -> None:
    """Who has other master keys is not believed, nor who knows SECRET_KEY or an older key of ours alone."""
    before = dict(settings.IRONAUTH_MASTER_KEYS)
    await a.put()
    settings.IRONAUTH_MASTER_KEYS = {"t2": b"n" * 32, **before}
    assert await b.get() is None
    settings.IRONAUTH_MASTER_KEYS = {"t2": b"n" * 32}
    assert await b.get() is None
    settings.IRONAUTH_MASTER_KEYS = before
    payload = msgspec.msgpack.encode(SharedEntry("k", 10, clock.unix(), clock.unix() + 60, (), MIA))
    await a.remote.aclient().set(NAME, seal(b"entry", payload), px=5000)
    assert await b.get() is None


@pytest.mark.parametrize("secret", [True, False])
async def test_what_is_secret_stays_in_this_process(monkeypatch: pytest.MonkeyPatch, *, secret: bool) -> None:
    """Redis is not told of it; of all else it is."""
    told: list[str] = []
    cache = token_cache()
    monkeypatch.setattr(
        cache, "_l2", SimpleNamespace(share=lambda key, _entry: told.append(key), clear=lambda: None, asking=Asking())
    )

    async def load() -> Loaded[str]:
        return Loaded("value", (), clock.unix() + 60, secret=secret)

    assert await cache.fetch("a key", load, str, asked=True) == "value"
    assert told == ([] if secret else ["a key"])


# ---------------------------------------------------------------- a Redis that lies
async def test_no_version_of_before_a_revocation_is_believed_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis brings back whatever it was ever given: what was read before the revocation stays refused."""
    monkeypatch.setattr(shared_entries, "AHEAD_S", 0.0)
    liar = Liar()
    writer, reader = Worker(liar, 10), Worker(liar, 10)
    for as_of in (10, 11, 14):
        await writer.put("k", "sid:1", as_of=as_of, life_s=7_200)
    versions = liar.stored[NAME]
    for liar.answer in versions:
        assert await reader.get() is not None
    reader.known.apply({"sid:1": 15})
    reader.known.confirm(time.monotonic(), 15)
    for liar.answer in versions:
        assert await reader.get() is None
    reader.known._prune(time.monotonic() + RECENT_S + 1)
    assert not reader.known._recent
    for liar.answer in versions:
        assert await reader.get() is None
    await writer.put("k", "sid:1", as_of=15)
    liar.answer = versions[-1]
    assert await reader.get() is not None  # read after it: the session lives, or it would not have been shared


async def test_a_writer_that_races_a_revocation_is_not_believed() -> None:
    """It noted its position, read the live session, and shared after the revocation was known everywhere."""
    liar = Liar()
    writer, reader = Worker(liar, 10), Worker(liar, 10)
    read_at = time.monotonic()
    reader.known.apply({"sid:1": 11})
    writer.l2.share("k", L1Entry(MIA, read_at, 10, ("sid:1",), clock.unix() + 60))
    await writer.l2.sent()
    [liar.answer] = liar.stored[NAME]
    assert await reader.get() is None


async def test_an_answer_is_judged_where_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drop is forgotten while a copy of before it is judged: kept and judged under one lock, it is refused."""
    monkeypatch.setattr(shared_entries, "AHEAD_S", 0.0)
    liar = Liar()
    writer, reader = Worker(liar, 10), Worker(liar, 10)
    await writer.put("k", "sid:1", as_of=10)
    [liar.answer] = liar.stored[NAME]
    reader.known.apply({"sid:1": 11})
    reader.known.confirm(time.monotonic(), 11)
    judged: list[bool] = []
    real = reader.known.outdated

    def outdated(*given: Any) -> bool:
        judged.append(reader.known.lock.locked())  # nothing can be applied or forgotten meanwhile
        return real(*given)

    monkeypatch.setattr(reader.known, "outdated", outdated)
    assert await reader.get() is None
    assert judged
    assert all(judged)
    assert not len(reader.l1)


async def test_a_copy_that_was_asked_for_while_its_tag_was_dropped_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a question to Redis and its answer the tag is dropped, and that again forgotten."""
    monkeypatch.setattr(shared_entries, "AHEAD_S", 0.0)
    liar = Liar()
    writer, reader = Worker(liar, 10), Worker(liar, 10)
    await writer.put("k", "sid:1", as_of=900)
    [answer] = liar.stored[NAME]

    async def aget(_name: str) -> bytes:
        reader.known.apply({"sid:1": 11})
        reader.known._recent["sid:1"] = msgspec.structs.replace(reader.known._recent["sid:1"], at=0.0)
        return answer

    monkeypatch.setattr(liar, "aget", aget)
    assert await reader.get() is None
    assert await reader.l2.get("k", Person, into=reader.l1, sequence=reader.known.sequence - 1) is None


async def test_entries_of_a_table_that_was_replaced_are_not_believed() -> None:
    """A backup came back: positions begin lower, so that those of before lie beyond every revocation to come."""
    liar = Liar()
    writer, reader = Worker(liar, 900), Worker(liar, 900)
    await writer.put("k", "sid:1", as_of=900)
    [liar.answer] = liar.stored[NAME]
    assert await reader.get() is not None
    reader.known.restart(time.monotonic(), 500, 500)
    assert await reader.get() is None
    reader.known.apply({"sid:1": 501})
    assert await reader.get() is None
    reader.known._prune(time.monotonic() + RECENT_S + 1)
    assert await reader.get() is None


async def test_a_worker_that_starts_believes_what_was_read_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not know what was revoked before: what others shared then is read anew."""
    monkeypatch.setattr(shared_entries, "AHEAD_S", 0.0)
    liar = Liar()
    writer, reader = Worker(liar, 10), Worker(liar, 10)
    await writer.put()
    reader.known.restart(time.monotonic(), 10, 10)
    await writer.put()
    before, after = liar.stored[NAME]
    liar.answer = before
    assert await reader.get() is None
    liar.answer = after
    assert await reader.get() is not None


# ---------------------------------------------------------------- how it goes out
async def test_what_waits_goes_out_together_and_is_bounded(a: Worker, b: Worker) -> None:
    """Many entries are one pipeline; what would wait beyond the bound is left out."""
    for number in range(MOST_WAITING + 1):
        a.l2.share(f"k{number}", L1Entry(number, time.monotonic(), 10, (), clock.unix() + 60))
    assert len(a.l2._waiting) == MOST_WAITING
    await a.l2.sent()
    assert (await b.get("k0", int), await b.get(f"k{MOST_WAITING}", int)) != (None, None)
    assert await b.get(f"k{MOST_WAITING - 1}", int) is not None
    assert await b.get(f"k{MOST_WAITING}", int) is None


async def test_what_is_shared_while_redis_is_told_goes_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody shares anything afterwards: the task that sends looks again before it ends."""
    liar = Liar()
    worker = Worker(liar, 10)
    entry = L1Entry(MIA, time.monotonic(), 10, (), clock.unix() + 60)
    real = liar.aput

    async def told(entries: Sequence[tuple[str, bytes, int]]) -> bool:
        if not liar.stored:
            worker.l2.share("late", entry)
        return await real(entries)

    monkeypatch.setattr(liar, "aput", told)
    worker.l2.share("k", entry)
    await worker.l2.sent()
    assert list(liar.stored) == [NAME, "ironauth:e:late"]
    assert not worker.l2._waiting


async def test_what_cannot_be_written_down_is_left_out() -> None:
    """A number of more than 64 bits, which a stranger's document may have: the entries beside it go out."""
    liar = Liar()
    worker = Worker(liar, 10)
    for number, value in enumerate(({"n": 2**64 - 1}, {"n": 2**64}, {"n": -(2**63) - 1}, {"n": -(2**63)})):
        worker.l2.share(f"k{number}", L1Entry(value, time.monotonic(), 10, (), clock.unix() + 60))
    await worker.l2.sent()
    assert list(liar.stored) == ["ironauth:e:k0", "ironauth:e:k3"]


async def test_entries_leave_room_for_counts(a: Worker) -> None:
    """A Redis that is three quarters full gets no more of them; one that has room, or no bound, does."""
    client = a.remote.aclient()
    used = (await client.info("memory"))["used_memory"]
    for most, shared in ((int(used * 1.2), False), (int(used * 3), True), (0, True)):
        await client.config_set("maxmemory", most)
        await client.delete(NAME)
        a.l2._room_asked_at = a.l2._again_at = 0.0
        await a.put()
        assert (await client.exists(NAME) == 1) is shared


async def test_after_a_failure_nothing_is_shared_for_a_moment() -> None:
    """A Redis that refuses is not sent the next entries too."""
    liar = Liar()
    worker = Worker(liar, 10)

    async def refuse(_entries: Sequence[tuple[str, bytes, int]]) -> bool:
        worker.l2.share("late", L1Entry(MIA, time.monotonic(), 10, (), clock.unix() + 60))  # it comes meanwhile
        return False

    liar.aput = refuse  # type: ignore[method-assign, assignment]  # a Redis that is full
    await worker.put()
    worker.l2.share("k", L1Entry(MIA, time.monotonic(), 10, (), clock.unix() + 60))
    assert not worker.l2._waiting
    worker.l2._again_at = time.monotonic()
    worker.l2.share("k", L1Entry(MIA, time.monotonic(), 10, (), clock.unix() + 60))
    assert worker.l2._waiting
    await worker.l2.sent()


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


# ---------------------------------------------------------------- whether to ask
def test_who_finds_nothing_asks_seldom_until_something_is_found() -> None:
    """After many genuine entries that were not there one lookup in 16 is made; one that finds something ends that."""
    asking = Asking()
    misses = 0
    while asking.pays():
        asking.answered("k", found=False)
        asking.loaded("k")
        misses += 1
    assert ABOUT < misses < 2 * ABOUT  # 0.9375 ** 22 is less than a quarter
    assert [asking.pays() for _ in range(2 * ONE_IN)].count(True) == 2
    asking.answered("k", found=True)
    assert all(asking.pays() for _ in range(ONE_IN))


def test_one_entry_in_three_is_enough_to_ask() -> None:
    """A lookup spares more than three of them take."""
    asking = Asking()
    for number in range(300):
        assert asking.pays()
        asking.answered("k", found=number % 3 == 0)
        asking.loaded("k")


def test_tokens_that_are_not_genuine_do_not_count() -> None:
    """A stranger who asks for keys that do not exist neither ends the lookups nor fills the memory."""
    asking = Asking()
    for number in range(3 * MOST_OPEN):
        asking.answered(f"k{number}", found=False)
        asking.loaded("another")
    assert asking.pays()
    assert len(asking._open) == MOST_OPEN


@pytest.mark.django_db(transaction=True)
async def test_what_is_not_asked_for_is_read_and_shared(connected_cache: TwoLevelCache) -> None:
    """Where asking does not pay, an entry is read from the database, and others are told of it all the same."""
    reads: list[str] = []

    async def load() -> Loaded[str]:
        reads.append("read")
        return Loaded("value", (), clock.unix() + 60)

    shared = connected_cache._l2
    assert shared is not None
    for number in range(2 * ABOUT):
        assert await connected_cache.shared(f"k{number}", str) is None
        assert await connected_cache.fetch(f"k{number}", load, str, asked=True) == "value"
    assert len(reads) == 2 * ABOUT
    assert not shared.asking.pays()
    await shared.sent()
    assert connected_cache.remote is not None
    assert len(await connected_cache.remote.aclient().keys("ironauth:e:k*")) == 2 * ABOUT
