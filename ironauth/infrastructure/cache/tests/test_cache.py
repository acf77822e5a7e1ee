"""TwoLevelCache as Django's cache backend (both faces, with and without Redis), and its tagged entries."""

import asyncio
import pickle
import signal
import socket
import struct
import time
import timeit
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
import uvloop
from asgiref.sync import sync_to_async
from django.core.cache import caches

from ironauth.infrastructure.cache.memory import freshness
from ironauth.infrastructure.cache.redis_values import RemoteCache
from ironauth.infrastructure.cache.two_level import Loaded, TwoLevelCache, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.threads import circuit_breaker as breaker
from ironauth.tests.services import PrivateRedis


class Person(msgspec.Struct, frozen=True):
    """A typed value."""

    name: str


class Face:
    """One way to call a cache from a test: its async methods, or its sync ones in a thread."""

    def __init__(self, cache: TwoLevelCache, *, native: bool) -> None:
        self.cache = cache
        self._native = native

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if self._native:
            return getattr(self.cache, f"a{name}")  # type: ignore[no-any-return]
        return sync_to_async(getattr(self.cache, name), thread_sensitive=False)


@pytest.fixture(params=["local-sync", "local-async", "redis-sync", "redis-async"])
async def face(request: pytest.FixtureRequest, patient_cache: None) -> AsyncIterator[Face]:
    """Every combination of store and face."""
    where, how = request.param.split("-")
    location = request.getfixturevalue("private_redis").url if where == "redis" else ""
    cache = TwoLevelCache(location, {"KEY_PREFIX": f"test-{request.param}", "TIMEOUT": 60})
    await cache.aclear()
    yield Face(cache, native=how == "async")
    await cache.aclear()
    await cache.disconnect()


async def test_values_of_every_kind_come_back(face: Face) -> None:
    """What was set is returned, with its type; what was not, as the default."""
    for value in ("text", 7, -(2**40), 1.5, True, None, [1, {"a": (2, 3)}], b"\x00\xff", Person("Mia")):
        await face.set("k", value)
        found = await face.get("k", "missing")
        assert found == value
        assert type(found) is type(value)
    assert await face.get("other") is None
    assert await face.get("other", 5) == 5
    assert await face.has_key("k")
    assert not await face.has_key("other")


async def test_versions_and_prefixes_keep_values_apart(face: Face) -> None:
    """The same key in another version or under another prefix is another value."""
    await face.set("k", "one")
    await face.set("k", "two", version=2)
    assert (await face.get("k"), await face.get("k", version=2)) == ("one", "two")
    await face.delete("k", version=2)
    assert (await face.get("k"), await face.get("k", version=2)) == ("one", None)
    assert await face.incr_version("k") == 2
    assert (await face.get("k"), await face.get("k", version=2)) == (None, "one")
    location = face.cache.remote.url if face.cache.remote else ""
    other = TwoLevelCache(location, {"KEY_PREFIX": "stranger"})
    assert await other.aget("k", version=2) is None
    await other.disconnect()


async def test_timeouts(face: Face) -> None:
    """None lasts, 0 and less is not kept and removes what was there, a number of seconds ends on time."""
    await face.set("lasting", 1, timeout=None)
    for nothing in (0, -5):
        await face.set("none", 1)
        await face.set("none", 2, timeout=nothing)
        assert await face.get("none") is None
    await face.set("short", 1, timeout=1)
    assert await face.get("short") == 1
    await asyncio.sleep(1.05)
    assert await face.get("short") is None
    assert await face.get("lasting") == 1


async def test_add_stores_only_what_is_missing(face: Face) -> None:
    """add() returns whether it stored, never overwrites, and of fifty at once exactly one wins."""
    assert await face.add("k", "first") is True
    assert await face.add("k", "second") is False
    assert await face.get("k") == "first"
    wins = await asyncio.gather(*(face.add("race", number) for number in range(50)))
    assert wins.count(True) == 1
    assert await face.add("zero", 1, timeout=0) is True
    assert await face.get("zero") is None


async def test_incr_is_one_step_and_keeps_the_time(face: Face) -> None:
    """A hundred concurrent increments all count; a missing key is a ValueError; the time-out stays."""
    with pytest.raises(ValueError, match="not found"):
        await face.incr("n")
    await face.set("n", 0, timeout=2)
    await asyncio.gather(*(face.incr("n") for _ in range(100)))
    assert await face.get("n") == 100
    assert await face.decr("n", 30) == 70
    await asyncio.sleep(2.05)
    with pytest.raises(ValueError, match="not found"):
        await face.incr("n")


async def test_touch_changes_the_time_of_what_is_there(face: Face) -> None:
    """touch() prolongs, makes lasting, ends, and says whether there was a value."""
    assert await face.touch("k") is False
    await face.set("k", 1, timeout=0.2)
    assert await face.touch("k", 60) is True
    await asyncio.sleep(0.25)
    assert await face.get("k") == 1
    assert await face.touch("k", None) is True
    assert await face.touch("k", None) is True
    assert await face.get("k") == 1
    await face.touch("k", 0)
    assert await face.get("k") is None


async def test_many_at_once_and_clear(face: Face) -> None:
    """set_many, get_many, delete_many and get_or_set work; clear() empties this prefix and no other."""
    assert await face.set_many({"a": 1, "b": 2, "c": 3}) == []
    assert await face.get_many(["a", "b", "missing"]) == {"a": 1, "b": 2}
    await face.delete_many(["a", "b"])
    assert await face.get_many(["a", "b", "c"]) == {"c": 3}
    assert await face.get_or_set("made", lambda: 9) == 9
    assert await face.delete("c") is True
    assert await face.delete("c") is False
    other = TwoLevelCache(face.cache.remote.url if face.cache.remote else "", {"KEY_PREFIX": "neighbour"})
    await other.aset("stays", 1)
    await face.clear()
    assert await face.get("made") is None
    assert await other.aget("stays") == 1
    await other.aclear()
    await other.disconnect()


async def test_the_faces_see_each_other(face: Face) -> None:
    """A value set by one face is read by the other."""
    await face.cache.aset("a", {"x": 1})
    assert await sync_to_async(face.cache.get)("a") == {"x": 1}
    await sync_to_async(face.cache.set)("b", 5)
    assert await face.cache.aincr("b") == 6


def test_every_object_of_django_sees_the_same_values() -> None:
    """caches["default"], in whatever thread or task, and token_cache() share one store."""
    caches["default"].set("k", "v")
    assert token_cache().get("k") == "v"

    async def elsewhere() -> Any:
        return await caches["default"].aget("k")

    assert asyncio.run(elsewhere()) == "v"


async def test_nothing_is_unpickled_that_was_not_signed(redis_cache: TwoLevelCache) -> None:
    """Pickles that someone else put into Redis are a miss: their code does not run."""
    ran: list[int] = []
    _Payload.ran = ran
    remote = redis_cache.remote
    assert remote
    name = str(remote.client.make_key("k"))
    await redis_cache.aset("k", {"fine": True})
    await remote.aclient().set(name, pickle.dumps(_Payload()))
    assert await redis_cache.aget("k", "miss") == "miss"
    assert await asyncio.to_thread(redis_cache.get, "k", "miss") == "miss"
    assert ran == []
    assert remote.breaker.garbage >= 2


def _run() -> int:
    _Payload.ran.append(1)
    return 1


class _Payload:
    ran: list[int] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return _run, ()


# ---------------------------------------------------------------- tagged entries
def loader(value: object, *tags: str, calls: list[int] | None = None) -> Callable[[], Awaitable[Loaded[Any]]]:
    """Return a reading that finds ``value``."""

    async def load() -> Loaded[Any]:
        if calls is not None:
            calls.append(1)
        return Loaded(value, tags, clock.unix() + 60)

    return load


async def test_a_fetched_value_is_then_in_memory() -> None:
    """peek() knows nothing before fetch() and the value afterwards; one reading for a hundred callers."""
    cache, calls = token_cache(), list[int]()
    assert cache.peek("p") is None
    load = loader(Person("Mia"), "sub:1", calls=calls)
    assert set(await asyncio.gather(*(cache.fetch("p", load, Person) for _ in range(100)))) == {Person("Mia")}
    assert cache.peek("p") == Person("Mia")
    assert len(calls) == 1


async def test_errors_are_not_kept() -> None:
    """What load() raises reaches the caller, and the next call loads again."""
    cache = token_cache()

    async def fail() -> Loaded[Person]:
        raise LookupError("revoked")

    with pytest.raises(LookupError):
        await cache.fetch("p", fail, Person)
    assert await cache.fetch("p", loader(Person("Mia")), Person) == Person("Mia")


async def test_dropping_a_tag_ends_its_entries_here() -> None:
    """After drop(tag) neither peek() nor fetch() uses the old value."""
    cache = token_cache()
    await cache.fetch("p", loader(Person("old"), "sub:1"), Person)
    cache.drop("sub:1")
    assert cache.peek("p") is None
    assert await cache.fetch("p", loader(Person("new"), "sub:1"), Person) == Person("new")


async def test_an_expired_value_is_returned_once_and_never_kept_in_use() -> None:
    """A reading whose value ends now is not found again."""
    cache = token_cache()

    async def load() -> Loaded[Person]:
        return Loaded(Person("Mia"), (), clock.unix())

    assert await cache.fetch("p", load, Person) == Person("Mia")
    assert cache.peek("p") is None


async def test_a_value_of_another_kind_is_a_miss() -> None:
    """What is not of the wanted type is read again."""
    cache = token_cache()
    await cache.fetch("p", loader("text"), str)
    assert await cache.fetch("p", loader(Person("Mia")), Person) == Person("Mia")


async def test_a_reading_overtaken_by_an_invalidation_is_not_kept() -> None:
    """Revoked between reading and filling: the one who asked before gets the answer, nobody after does."""
    cache = token_cache()
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> Loaded[Person]:
        began.set()
        await go_on.wait()
        return Loaded(Person("stale"), ("sid:1",), clock.unix() + 60)

    before = asyncio.ensure_future(cache.fetch("p", slow, Person))
    await began.wait()
    freshness.apply({"sid:1": 7})
    after = asyncio.ensure_future(cache.fetch("p", loader(Person("current"), "sid:1"), Person))
    await asyncio.sleep(0.01)
    go_on.set()
    assert (await before, await after) == (Person("stale"), Person("current"))
    assert cache.peek("p") == Person("current")


async def test_the_warm_path_costs_less_than_two_microseconds() -> None:
    """token_cache().peek(key), as an authenticator calls it."""
    await token_cache().fetch("at:1", loader(Person("Mia"), "sid:1", "sub:1"), Person)
    assert min(timeit.repeat(lambda: token_cache().peek("at:1"), number=2000, repeat=20)) / 2000 < 2e-6


# ---------------------------------------------------------------- Redis in trouble
async def timed(call: Awaitable[Any]) -> tuple[Any, float]:
    """Return the result and the seconds it took."""
    began = time.perf_counter()
    result = await call
    return result, time.perf_counter() - began


@pytest.mark.parametrize("trouble", ["stopped", "frozen"])
async def test_losing_redis_costs_one_time_limit_and_no_exception(
    second_of_redis: None, redis_cache: TwoLevelCache, private_redis: PrivateRedis, trouble: str
) -> None:
    """The first command after the loss costs at most the limit, the next ones nothing; both faces answer misses."""
    await redis_cache.aset("k", 1)
    assert await redis_cache.aget("k") == 1
    if trouble == "frozen":
        assert private_redis.process
        private_redis.process.send_signal(signal.SIGSTOP)
    else:
        private_redis.stop(signal.SIGKILL)
    value, took = await timed(redis_cache.aget("k", "miss"))
    assert value == "miss"
    assert took < 1.9  # less than two time limits
    for call, expected in (
        (redis_cache.aget("k", "miss"), "miss"),
        (redis_cache.aadd("k", 2), False),
        (redis_cache.aset("k", 2), None),
        (redis_cache.adelete("k"), False),
        (redis_cache.atouch("k"), False),
        (redis_cache.ahas_key("k"), False),
        (asyncio.to_thread(redis_cache.get, "k", "miss"), "miss"),
        (asyncio.to_thread(redis_cache.add, "k", 2), False),
        (asyncio.to_thread(redis_cache.set, "k", 2), None),
    ):
        value, took = await timed(call)
        assert value == expected
        assert took < 0.9  # less than one time limit
    with pytest.raises(ValueError, match="not found"):
        await redis_cache.aincr("k")
    assert await redis_cache.fetch("p", loader(Person("Mia")), Person) == Person("Mia")
    if trouble == "frozen":
        assert private_redis.process
        private_redis.process.send_signal(signal.SIGCONT)
    else:
        private_redis.start()
    deadline = time.monotonic() + 15
    while await redis_cache.aget("k", "miss") != 3:  # recovers by itself
        await redis_cache.aset("k", 3)
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert await asyncio.to_thread(redis_cache.get, "k") == 3


async def test_an_outage_delays_one_caller_a_second(
    redis_cache: TwoLevelCache, private_redis: PrivateRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While Redis is frozen, of a hundred reads a second one asks it, and waits."""
    await redis_cache.aset("k", 1)
    assert private_redis.process
    private_redis.process.send_signal(signal.SIGSTOP)
    await redis_cache.aget("k")
    assert redis_cache.remote
    asked = Mock(side_effect=redis_cache.remote.aclient)
    monkeypatch.setattr(redis_cache.remote, "aclient", asked)
    began = time.monotonic()
    while time.monotonic() - began < 2.2:
        await redis_cache.aget("k")
        await asyncio.sleep(0.01)
    assert 1 <= asked.call_count <= (time.monotonic() - began) / breaker.PAUSE_S


async def test_a_flushed_or_restarted_redis_is_only_a_miss(
    redis_cache: TwoLevelCache, private_redis: PrivateRedis
) -> None:
    """Values are gone; nothing fails, not even on connections that the old server had closed."""
    await redis_cache.aset("k", 1)
    assert await asyncio.to_thread(redis_cache.get, "k") == 1
    private_redis.stop()
    private_redis.start()
    assert await redis_cache.aget("k", "miss") == "miss"
    assert await asyncio.to_thread(redis_cache.get, "k", "miss") == "miss"
    await redis_cache.aset("k", 2)
    assert await redis_cache.aget("k") == 2
    assert isinstance(redis_cache.remote, RemoteCache)
    assert not redis_cache.remote.breaker.is_open


async def test_a_server_that_talks_nonsense_is_an_outage(second_of_redis: None) -> None:
    """Something that is not Redis answers on the port: misses within the time limit, no exception."""

    async def nonsense(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    cache = TwoLevelCache(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0", {})
    for _ in range(3):
        value, took = await timed(cache.aget("k", "miss"))
        assert value == "miss"
        assert took < 1.9  # less than two time limits
    assert await asyncio.to_thread(cache.get, "k", "miss") == "miss"
    assert cache.remote
    assert cache.remote.breaker.is_open
    await cache.disconnect()
    server.close()
    await server.wait_closed()


async def test_a_redis_without_memory_is_a_miss_not_an_outage(redis_cache: TwoLevelCache) -> None:
    """A refused write is not stored; reads go on."""
    await redis_cache.aset("k", 1)
    assert redis_cache.remote
    await redis_cache.remote.aclient().config_set("maxmemory", "1")
    await redis_cache.aset("other", 2)
    assert await redis_cache.aget("other") is None
    assert await redis_cache.aget("k") == 1
    assert not redis_cache.remote.breaker.is_open


async def test_cancelled_callers_do_not_mix_up_answers(redis_cache: TwoLevelCache) -> None:
    """Two thousand reads, half of them cancelled at random moments: nobody gets another key's value."""
    for number in range(20):
        await redis_cache.aset(f"k{number}", number)

    async def ask(number: int) -> None:
        assert await redis_cache.aget(f"k{number}", number) == number

    for round_number in range(100):
        tasks = [asyncio.ensure_future(ask(number)) for number in range(20)]
        await asyncio.sleep(0.0001 * (round_number % 10))
        for task in tasks[::2]:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError), result


def test_a_connection_that_was_reset_unread_is_a_miss() -> None:
    """Under uvloop writing on it raises RuntimeError; any other one is a mistake, and passes."""
    remote = RemoteCache("redis://127.0.0.1:1/0", {})

    def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at_once = struct.pack("ii", 1, 0)  # struct linger, socket(7)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        writer.transport.abort()

    async def attempts() -> None:
        server = await asyncio.start_server(reset, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())

        async def write(_: object) -> str:
            writer.writelines([b"PING"])
            return "written"

        try:
            await asyncio.sleep(0.1)  # the reset is on its way
            assert await remote.aattempt(write, "miss") == "miss"
            assert remote.breaker.is_open
        finally:
            server.close()

    async def mistake(_: object) -> str:
        raise RuntimeError("no running event loop")

    uvloop.run(attempts())
    with pytest.raises(RuntimeError, match="no running"):
        uvloop.run(RemoteCache("redis://127.0.0.1:1/1", {}).aattempt(mistake, "miss"))
