"""Redis behind Sentinel: real servers, and the master is killed."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import redis
from redis import Redis

from ironauth import settings_test
from ironauth.infrastructure.cache import broadcast
from ironauth.infrastructure.cache.plain_values import PlainRedisCache
from ironauth.infrastructure.cache.redis_client import RedisClient
from ironauth.infrastructure.threads import circuit_breaker as breaker
from ironauth.tests.services import PrivateRedis, PrivateSentinel

#: Seconds for a failover on a busy machine: half a second of silence is a loss, then the Sentinels vote.
FAILOVER_S = 40.0


class Watched(NamedTuple):
    """A master with a replica, which three Sentinels watch."""

    master: PrivateRedis
    replica: PrivateRedis
    url: str


@pytest.fixture
def watched(private_redis: PrivateRedis, tmp_path: Path) -> Iterator[Watched]:
    """The servers, when the Sentinels know the replica and each other."""
    options = ("--replicaof", "127.0.0.1", str(private_redis.port), "--repl-diskless-sync-delay", "0")
    with PrivateRedis(tmp_path / "replica", settings_test._free_port(), *options) as replica:
        sentinels = [
            PrivateSentinel(tmp_path / f"sentinel-{at}", settings_test._free_port(), private_redis.port, quorum=2)
            for at in range(3)
        ]
        try:
            for sentinel in sentinels:
                sentinel.start()
            for sentinel in sentinels:
                _await_ready(sentinel.port)
            hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinels)
            yield Watched(private_redis, replica, f"redis+sentinel://{hosts}/main/0")
        finally:
            for sentinel in sentinels:
                sentinel.stop(signal.SIGTERM)


@pytest.fixture
async def client(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RedisClient]:
    """The product's connections; an outage is over at once, so that each test asks as often as it likes."""
    monkeypatch.setattr(breaker, "PAUSE_S", 0.05)
    client = RedisClient(watched.url)
    yield client
    await client.disconnect()
    client._for_threads.close()


async def test_loops_and_threads_reach_the_next_master(client: RedisClient, watched: Watched) -> None:
    """While the master is away commands are misses, never errors; after the failover they are answered by the next."""
    assert await client.aattempt(lambda redis: redis.set("k", "1"), None)
    assert client.attempt(lambda redis: redis.get("k"), None) == b"1"
    with Redis(port=watched.master.port) as master:
        master.wait(1, 5000)  # the replica has it
    watched.master.stop(signal.SIGKILL)
    until = time.monotonic() + FAILOVER_S
    while not await client.aattempt(lambda redis: redis.set("k", "2"), None):
        assert time.monotonic() < until
        await asyncio.sleep(0.1)
    while client.attempt(lambda redis: redis.get("k"), None) != b"2":
        assert time.monotonic() < until
        await asyncio.sleep(0.1)
    with Redis(port=watched.replica.port) as promoted:
        assert promoted.get("k") == b"2"


async def test_a_demoted_master_is_left(client: RedisClient, watched: Watched) -> None:
    """A former master that is a replica now refuses writes: the next write goes to the one that takes them."""
    assert await client.aattempt(lambda redis: redis.set("k", "1"), None)
    with Redis(port=watched.replica.port) as replica, Redis(port=watched.master.port) as master:
        master.wait(1, 5000)
        _ask_sentinel(watched.url, "failover")
        until = time.monotonic() + FAILOVER_S
        while replica.info("replication")["role"] != "master":
            assert time.monotonic() < until
            await asyncio.sleep(0.05)
        master.execute_command("REPLICAOF", "127.0.0.1", watched.replica.port)  # Sentinel does it 10 s later
        while not await client.aattempt(lambda redis: redis.set("k", "2"), None):
            assert time.monotonic() < until
            await asyncio.sleep(0.05)
        assert replica.get("k") == b"2"


async def test_the_channel_follows_the_master(client: RedisClient, watched: Watched) -> None:
    """A subscription that lost its master is made anew at the next one."""
    heard: list[tuple[int, str]] = []
    listening = asyncio.create_task(broadcast.listen(watched.url, lambda number, tag: heard.append((number, tag))))
    try:
        until = time.monotonic() + FAILOVER_S
        for number in (1, 2):
            while not any(found == number for found, _ in heard):
                assert time.monotonic() < until
                await asyncio.to_thread(broadcast.publish, client, [(number, "sid:1")])
                await asyncio.sleep(0.1)
            if number == 1:
                watched.master.stop(signal.SIGKILL)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


def test_djangos_caches_are_at_the_master(watched: Watched) -> None:
    """Throttles and the query cache are entered the same way."""
    plain = PlainRedisCache(watched.url, {"KEY_PREFIX": "test"})
    plain.set("k", 7)
    assert plain.get("k") == 7
    with Redis(port=watched.master.port) as master:
        assert master.exists(str(plain.client.make_key("k")))
    plain.client.get_client().close()


def test_sentinels_that_know_no_master_are_a_miss(watched: Watched) -> None:
    """A service that they do not watch, or none of them there: a miss, as a Redis that is away."""
    nowhere = f"redis+sentinel://127.0.0.1:{settings_test._free_port()}/main"
    for url in (watched.url.replace("/main", "/other"), nowhere):
        client = RedisClient(url)
        assert client.attempt(lambda redis: redis.ping(), "miss") == "miss"
        client._for_threads.close()


def _ask_sentinel(url: str, act: str) -> None:
    port = int(url.partition("127.0.0.1:")[2].partition(",")[0])
    with Redis(port=port) as sentinel:
        sentinel.execute_command("SENTINEL", act, "main")


def _await_ready(port: int) -> None:
    """Return when a Sentinel knows the replica, and both others."""
    until = time.monotonic() + FAILOVER_S
    with Redis(port=port) as sentinel:
        while True:
            try:
                master = sentinel.sentinel_master("main")
                if master["num-slaves"] == 1 and master["num-other-sentinels"] == 2:
                    return
            except redis.ResponseError:
                pass
            assert time.monotonic() < until
            time.sleep(0.05)
