"""Fixtures of the infrastructure tests: a Redis of one test alone, and a running feed."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ironauth import settings_test
from ironauth.infrastructure.invalidation import InvalidationFeed, invalidation_feed
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
async def feed() -> AsyncIterator[InvalidationFeed]:
    """The process's feed, running on the test's loop."""
    running = invalidation_feed()
    await running.start()
    yield running
    await running.stop()
