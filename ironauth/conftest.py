"""Fixtures of the infrastructure tests: a Redis of one test alone, and a running feed."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from ironauth import settings_test
from ironauth.infrastructure.cache import redis_client
from ironauth.infrastructure.cache.invalidation import InvalidationFeed, invalidation_feed
from ironauth.infrastructure.cache.two_level import TwoLevelCache, token_cache
from ironauth.infrastructure.threads import circuit_breaker as breaker
from ironauth.tests.services import BinaryMissing, PrivateRedis, find_binary


@pytest.fixture
def private_redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    """A Redis that the test may kill, freeze or fill with garbage."""
    try:
        find_binary("redis-server", "redis-server")
    except BinaryMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with PrivateRedis(tmp_path / "redis", settings_test._free_port()) as server:
        yield server


@pytest.fixture
def second_of_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is the limit for Redis, outages last three: time enough to tell one limit from two, and from none."""
    monkeypatch.setattr(redis_client, "LIMIT_S", 1.0)
    monkeypatch.setattr(breaker, "PAUSE_S", 3.0)


@pytest.fixture
async def redis_cache(private_redis: PrivateRedis, settings: Settings) -> AsyncIterator[TwoLevelCache]:
    """The process's cache, on a Redis of this test alone."""
    settings.REDIS_URL = private_redis.url
    yield token_cache()
    await token_cache().disconnect()


@pytest.fixture
async def feed() -> AsyncIterator[InvalidationFeed]:
    """The process's feed, running on the test's loop."""
    running = invalidation_feed()
    await running.start()
    yield running
    await running.stop()
