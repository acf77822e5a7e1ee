"""Many tags of one transaction that commits late: PostgreSQL shows what was written after it before it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest
from django.db import connection, transaction

from ironauth.infrastructure.cache.gap_tracker import MAX_GAPS
from ironauth.infrastructure.cache.invalidation import InvalidationFeed
from ironauth.infrastructure.cache.memory import freshness
from ironauth.infrastructure.cache.two_level import Loaded, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.models import Invalidation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.only_postgres]

type Begin = Callable[[Sequence[int]], Awaitable[Callable[[], Awaitable[None]]]]


async def hold(key: str) -> None:
    """Have this process hold ``key``, with itself as its tag."""

    async def load() -> Loaded[str]:
        return Loaded(key, (key,), clock.unix() + 600)

    await token_cache().fetch(key, load, str)


def write(ids: Sequence[int]) -> None:
    """Write a row of each id as another process does: this one hears nothing of it."""
    Invalidation.objects.bulk_create(Invalidation(id=row_id, tag=f"sid:{row_id}") for row_id in ids)


def held(ids: Sequence[int]) -> list[int]:
    """Return those of ``ids`` whose entry may still be used."""
    return [row_id for row_id in ids if token_cache().peek(f"sid:{row_id}") is not None]


@pytest.fixture
async def feed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[InvalidationFeed]:
    """A feed that reads only when the test tells it to: one more between two lines would change what they see."""

    async def rest(_: InvalidationFeed) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(InvalidationFeed, "_poll_forever", rest)
    feed = InvalidationFeed()
    yield feed
    await feed.stop()


@pytest.fixture
async def begin() -> AsyncIterator[Begin]:
    """Begins a transaction on another connection that has written rows; what it returns commits it."""
    finish, threads = threading.Event(), []

    async def started(ids: Sequence[int]) -> Callable[[], Awaitable[None]]:
        written = threading.Event()

        def work() -> None:
            try:
                with transaction.atomic():
                    write(ids)
                    written.set()
                    finish.wait(30)
            finally:
                connection.close()

        thread = threading.Thread(target=work)
        threads.append(thread)
        thread.start()
        assert await asyncio.to_thread(written.wait, 10)

        async def commit() -> None:
            finish.set()
            await asyncio.to_thread(thread.join, 10)

        return commit

    yield started
    finish.set()
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)


#: More than 1,000 ids that follow each other, and as many with one of another transaction between each two.
RANGE = range(1_002, 1_002 + MAX_GAPS + 500)
EVERY_SECOND = range(1_002, 1_002 + 2 * (MAX_GAPS + 50), 2)


@pytest.mark.parametrize("ids", [RANGE, EVERY_SECOND], ids=["one range", "each apart"])
async def test_every_tag_of_a_transaction_that_commits_late_is_dropped(
    feed: InvalidationFeed, begin: Begin, ids: range
) -> None:
    """At the first reading after its commit, although later ids were read before; until then the position waits."""
    await database().write(write, [1_001])
    await feed.start()
    commit = await begin(ids)
    later = [row_id for row_id in range(ids[0], ids[-1] + 2) if row_id not in ids]
    await database().write(write, later)
    for row_id in (*ids, *later):
        await hold(f"sid:{row_id}")
    await feed.poll()
    assert held(later) == []
    assert len(held(ids)) == len(ids)
    assert feed.position is not None
    assert feed.position < ids[0]
    for row_id in ids:
        await hold(f"sid:{row_id}")  # what is refilled before the commit is as old
    await commit()
    await feed.poll()
    assert held(ids) == []
    assert freshness.outdated((f"sid:{ids[-1]}",), ids[0] - 1, float("inf"))


@pytest.mark.parametrize("ids", [RANGE, EVERY_SECOND], ids=["one range", "each apart"])
async def test_a_feed_that_starts_before_the_commit_drops_them_too(
    feed: InvalidationFeed, begin: Begin, ids: range
) -> None:
    """It has read later ids at its start, and nothing of these."""
    commit = await begin(ids)
    await database().write(write, [row_id for row_id in range(ids[0], ids[-1] + 2) if row_id not in ids])
    await feed.start()
    assert feed.position is not None
    assert feed.position < ids[0]
    for row_id in ids:
        await hold(f"sid:{row_id}")
    await commit()
    await feed.poll()
    assert held(ids) == []


async def test_what_others_hold_stays_while_one_range_is_open(feed: InvalidationFeed, begin: Begin) -> None:
    """A thousand ids of one transaction cost nobody an entry that carries none of its tags."""
    await database().write(write, [1_001])
    await feed.start()
    commit = await begin(RANGE)
    await database().write(write, [RANGE[-1] + 1])
    await hold("sid:1")
    await feed.poll()
    await commit()
    await feed.poll()
    assert held([1]) == [1]
