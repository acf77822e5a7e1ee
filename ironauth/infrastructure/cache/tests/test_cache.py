"""The tagged entries of the two-level cache, and a Redis in trouble."""

import asyncio
import signal
import socket
import struct
import time
import timeit
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
import uvloop

from ironauth.infrastructure.cache import redis_client
from ironauth.infrastructure.cache.memory import freshness
from ironauth.infrastructure.cache.redis_client import RedisClient
from ironauth.infrastructure.cache.two_level import Loaded, TwoLevelCache, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.threads import circuit_breaker as breaker
from ironauth.tests.services import PrivateRedis


class Person(msgspec.Struct, frozen=True):
    """A typed value."""

    name: str


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


async def get(cache: TwoLevelCache) -> object:
    """Return what Redis holds under a name, as the product asks it on the event loop."""
    assert cache.remote

    async def ask(redis: Any) -> object:
        return await redis.get("k")

    return await cache.remote.aattempt(ask, None)


async def get_blocking(cache: TwoLevelCache) -> object:
    """Return the same, as a thread asks."""
    assert cache.remote
    return await asyncio.to_thread(cache.remote.attempt, lambda redis: redis.get("k"), None)


async def put(cache: TwoLevelCache, value: str) -> object:
    """Store it; return whether Redis has."""
    assert cache.remote
    return await cache.remote.aattempt(lambda redis: redis.set("k", value), False)


@pytest.mark.parametrize("trouble", ["stopped", "frozen"])
async def test_losing_redis_costs_one_time_limit_and_no_exception(
    second_of_redis: None, redis_cache: TwoLevelCache, private_redis: PrivateRedis, trouble: str
) -> None:
    """The first command after the loss costs at most the limit, the next ones nothing; loops and threads get misses."""
    assert await put(redis_cache, "1")
    assert await get(redis_cache) == b"1"
    if trouble == "frozen":
        assert private_redis.process
        private_redis.process.send_signal(signal.SIGSTOP)
    else:
        private_redis.stop(signal.SIGKILL)
    value, took = await timed(get(redis_cache))
    assert value is None
    assert took < 1.9  # less than two time limits
    for call, expected in (
        (get(redis_cache), None),
        (put(redis_cache, "2"), False),
        (get_blocking(redis_cache), None),
    ):
        value, took = await timed(call)
        assert value == expected
        assert took < 0.9  # less than one time limit
    assert await redis_cache.fetch("p", loader(Person("Mia")), Person) == Person("Mia")
    if trouble == "frozen":
        assert private_redis.process
        private_redis.process.send_signal(signal.SIGCONT)
    else:
        private_redis.start()
    deadline = time.monotonic() + 15
    while await get(redis_cache) != b"3":  # recovers by itself
        await put(redis_cache, "3")
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert await get_blocking(redis_cache) == b"3"


async def test_an_outage_delays_one_caller_a_second(
    redis_cache: TwoLevelCache, private_redis: PrivateRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While Redis is frozen, of a hundred reads a second one asks it, and waits."""
    monkeypatch.setattr(redis_client, "LIMIT_S", 0.2)
    await put(redis_cache, "1")
    assert private_redis.process
    private_redis.process.send_signal(signal.SIGSTOP)
    await get(redis_cache)
    assert redis_cache.remote
    asked = Mock(side_effect=redis_cache.remote.aclient)
    monkeypatch.setattr(redis_cache.remote, "aclient", asked)
    began = time.monotonic()
    while time.monotonic() - began < 2.2:
        await get(redis_cache)
        await asyncio.sleep(0.01)
    assert 1 <= asked.call_count <= (time.monotonic() - began) / breaker.PAUSE_S


async def test_a_flushed_or_restarted_redis_is_only_a_miss(
    redis_cache: TwoLevelCache, private_redis: PrivateRedis
) -> None:
    """Values are gone; nothing fails, not even on connections that the old server had closed."""
    await put(redis_cache, "1")
    assert await get_blocking(redis_cache) == b"1"
    private_redis.stop()
    private_redis.start()
    assert await get(redis_cache) is None
    assert await get_blocking(redis_cache) is None
    await put(redis_cache, "2")
    assert await get(redis_cache) == b"2"
    assert redis_cache.remote
    assert not redis_cache.remote.breaker.is_open


async def test_a_server_that_talks_nonsense_is_an_outage(second_of_redis: None) -> None:
    """Something that is not Redis answers on the port: misses within the time limit, no exception."""

    async def nonsense(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    cache = TwoLevelCache(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0")
    for _ in range(3):
        value, took = await timed(get(cache))
        assert value is None
        assert took < 1.9  # less than two time limits
    assert await get_blocking(cache) is None
    assert cache.remote
    assert cache.remote.breaker.is_open
    await cache.disconnect()
    server.close()
    await server.wait_closed()


async def test_a_redis_without_memory_is_a_miss_not_an_outage(redis_cache: TwoLevelCache) -> None:
    """A refused write is not stored; reads go on."""
    await put(redis_cache, "1")
    assert redis_cache.remote
    await redis_cache.remote.aclient().config_set("maxmemory", "1")
    assert not await put(redis_cache, "2")
    assert await get(redis_cache) == b"1"
    assert not redis_cache.remote.breaker.is_open


async def test_cancelled_callers_do_not_mix_up_answers(redis_cache: TwoLevelCache) -> None:
    """Two thousand reads, half of them cancelled at random moments: nobody gets another key's value."""
    remote = redis_cache.remote
    assert remote
    for number in range(20):
        await remote.aclient().set(f"k{number}", number)

    async def read(redis: Any, number: int) -> bytes:
        return bytes(await redis.get(f"k{number}"))

    async def ask(number: int) -> None:
        found = await remote.aattempt(lambda redis: read(redis, number), b"%d" % number)
        assert found == b"%d" % number

    for round_number in range(100):
        tasks = [asyncio.ensure_future(ask(number)) for number in range(20)]
        await asyncio.sleep(0.0001 * (round_number % 10))
        for task in tasks[::2]:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError), result


def test_a_connection_that_was_reset_unread_is_a_miss() -> None:
    """Under uvloop writing on it raises RuntimeError; any other one is a mistake, and passes."""
    remote = RedisClient("redis://127.0.0.1:1/0")

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
        uvloop.run(RedisClient("redis://127.0.0.1:1/1").aattempt(mistake, "miss"))
