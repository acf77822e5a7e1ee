"""Django's caches in Redis: signed values, bounded in time, each cache apart."""

import pickle
import signal
import time
from typing import Any

import msgspec
import pytest
from redis import Redis

from ironauth.infrastructure.cache import redis_client
from ironauth.infrastructure.cache.plain_values import PlainRedisCache
from ironauth.tests.services import PrivateRedis


class Person(msgspec.Struct, frozen=True):
    """A typed value."""

    name: str


@pytest.fixture
def plain(private_redis: PrivateRedis) -> PlainRedisCache:
    """A cache of this test alone."""
    return PlainRedisCache(private_redis.url, {"KEY_PREFIX": "test", "TIMEOUT": 60})


def test_values_of_every_kind_come_back(plain: PlainRedisCache) -> None:
    """What was set is returned, with its type; what was not, as the default."""
    for value in ("text", 7, -(2**40), 1.5, True, None, [1, {"a": (2, 3)}], b"\x00\xff", Person("Mia")):
        plain.set("k", value)
        found = plain.get("k", "missing")
        assert found == value
        assert type(found) is type(value)
    assert plain.get("other", 5) == 5
    assert plain.add("k", 1) is False


def test_nothing_is_unpickled_that_was_not_signed(plain: PlainRedisCache, private_redis: PrivateRedis) -> None:
    """Pickles that someone else put into Redis are a miss: their code does not run."""
    ran: list[int] = []
    _Payload.ran = ran
    plain.set("k", {"fine": True})
    with Redis.from_url(private_redis.url) as client:
        client.set(str(plain.client.make_key("k")), pickle.dumps(_Payload()))
    assert plain.get("k") is None
    assert plain.get_many(["k"]) == {"k": None}
    assert ran == []


def test_clearing_leaves_the_other_caches(plain: PlainRedisCache, private_redis: PrivateRedis) -> None:
    """clear() empties this prefix and no other: the counts of throttles are in the same Redis."""
    other = PlainRedisCache(private_redis.url, {"KEY_PREFIX": "test-other"})
    plain.set("k", 1)
    other.set("k", 2)
    plain.clear()
    assert plain.get("k") is None
    assert other.get("k") == 2


@pytest.mark.parametrize("trouble", ["stopped", "frozen"])
def test_losing_redis_is_a_miss(private_redis: PrivateRedis, trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading and writing raise nothing, and wait for a bounded time."""
    monkeypatch.setattr(redis_client, "LIMIT_S", 0.2)
    plain = PlainRedisCache(private_redis.url, {"KEY_PREFIX": "test", "TIMEOUT": 60})
    plain.set("k", 1)
    if trouble == "frozen":
        assert private_redis.process
        private_redis.process.send_signal(signal.SIGSTOP)
    else:
        private_redis.stop(signal.SIGKILL)
    began = time.monotonic()
    assert plain.get("k", "miss") == "miss"
    plain.set("k", 2)
    assert time.monotonic() - began < 3


def _run() -> int:
    _Payload.ran.append(1)
    return 1


class _Payload:
    ran: list[int] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return _run, ()
