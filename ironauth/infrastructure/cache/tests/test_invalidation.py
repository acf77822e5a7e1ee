"""How a revocation reaches every process, and how long it may take."""

import asyncio
import statistics
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis.asyncio
from django.db import transaction
from pytest_django import Settings

from accounts.users.invariants import role_tag, sub_tag
from ironauth.infrastructure.cache import broadcast
from ironauth.infrastructure.cache.invalidation import InvalidationFeed, invalidate, invalidation_feed
from ironauth.infrastructure.cache.memory import freshness
from ironauth.infrastructure.cache.two_level import Loaded, TwoLevelCache, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.models import Invalidation
from ironauth.tests.services import PrivateRedis
from tokens.keys.units import KEYS_TAG
from tokens.sessions.models import sid_tag

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


async def hold(key: str, *tags: str) -> None:
    """Have this process hold ``key``."""

    async def load() -> Loaded[str]:
        return Loaded(key, tags, clock.unix() + 600)

    await token_cache().fetch(key, load, str)


def remote_row(*tags: str) -> None:
    """Write rows as another process does: this one hears nothing of it."""
    for tag in tags:
        Invalidation.objects.create(tag=tag)


async def until(condition: Callable[[], bool], limit_s: float) -> float:
    """Wait until ``condition()`` holds; return the seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < limit_s
        await asyncio.sleep(0.002)
    return time.monotonic() - began


def test_tags_fit_the_column() -> None:
    """Every tag fits its column, also that of a role with the longest name, and differs by what it names."""
    one, two = uuid.uuid4(), uuid.uuid4()
    tags = {sid_tag(one), sid_tag(two), sub_tag(one), role_tag("a" * 150), role_tag("ä" * 150), KEYS_TAG}
    assert len(tags) == 6
    assert max(map(len, tags)) <= 80
    assert sid_tag(one) == sid_tag(str(one))


async def test_a_feed_that_starts_refuses_shared_copies_from_before_what_it_read() -> None:
    """Also where an id below is missing, which may still be uncommitted and holds the feed's position back."""

    def rows() -> None:
        Invalidation.objects.create(id=100, tag="sid:1")
        Invalidation.objects.create(id=102, tag="sid:2")

    await database().write(rows)
    feed = InvalidationFeed()
    await feed.start()
    try:
        later = time.monotonic() + 60
        assert freshness.outdated(("sid:2",), 101, later)
        assert not freshness.outdated(("sid:2",), 102, later)
    finally:
        await feed.stop()


async def test_it_takes_effect_here_at_commit_and_not_before() -> None:
    """Inside the transaction the entry is still used; when write() returns it is gone."""
    seen: list[object] = []

    def unit() -> None:
        invalidate("sid:1", "sid:1", "sub:1")
        seen.append(token_cache().peek("held"))

    await hold("held", "sid:1")
    await hold("other", "sid:2")
    await database().write(unit)
    assert seen == ["held"]
    assert token_cache().peek("held") is None
    assert token_cache().peek("other") == "other"
    rows = await database().read(lambda: list(Invalidation.objects.order_by("id").values_list("tag", flat=True)))
    assert rows == ["sid:1", "sub:1"]


async def test_a_rollback_invalidates_nothing() -> None:
    """When the transaction, or the savepoint around the call, is rolled back, there is no row and no drop."""

    def whole() -> None:
        invalidate("sid:1")
        raise KeyError

    def part() -> None:
        try:
            with transaction.atomic():
                invalidate("sid:1")
                raise KeyError
        except KeyError:
            pass

    await hold("held", "sid:1")
    with pytest.raises(KeyError):
        await database().write(whole)
    await database().write(part)
    assert token_cache().peek("held") == "held"
    assert await database().read(Invalidation.objects.count) == 0


async def test_it_costs_one_query(django_assert_num_queries: Any) -> None:
    """However many tags; none for none."""

    def unit() -> None:
        with django_assert_num_queries(1, connection=None):
            invalidate(*(f"sid:{n}" for n in range(50)))
        with django_assert_num_queries(0, connection=None):
            invalidate()

    await database().write(unit)


async def test_the_feed_applies_what_others_invalidated(feed: InvalidationFeed) -> None:
    """A row written by another process drops the entry at the next reading, and moves the position."""
    await hold("held", "sid:1")
    await hold("other", "sid:2")
    before = feed.position
    await database().write(remote_row, "sid:1")
    assert token_cache().peek("held") == "held"
    await feed.poll()
    assert token_cache().peek("held") is None
    assert token_cache().peek("other") == "other"
    assert before is not None
    assert feed.position == before + 1 or before == 0


async def test_the_running_feed_needs_no_help(feed: InvalidationFeed) -> None:
    """Without Redis a revocation elsewhere is applied within the stated 2 s (plus a reading)."""
    await hold("held", "sid:1")
    await database().write(remote_row, "sid:1")
    assert await until(lambda: token_cache().peek("held") is None, 3.0) < 2.5


async def test_a_synced_feed_keeps_entries_past_the_bound(settings: Settings) -> None:
    """Entries older than the bound stay usable while the feed reads, and stop when it ends."""
    settings.IRONAUTH_L1_MAX_STALE_S = 0.5
    feed = invalidation_feed()
    await feed.start()
    try:
        await hold("held", "sid:1")
        for _ in range(30):
            assert token_cache().peek("held") == "held"
            await asyncio.sleep(0.05)
    finally:
        await feed.stop()
    assert token_cache().peek("held") is None


async def test_with_the_database_gone_entries_stop_being_used(settings: Settings, feed: InvalidationFeed) -> None:
    """Every reading fails: after the bound nothing is used; when readings succeed again, the feed is back."""
    settings.IRONAUTH_L1_MAX_STALE_S = 0.5
    settings.IRONAUTH_DATABASE_TIMEOUT_S = 0.05
    settings.IRONAUTH_DATABASE_THREADS = 1
    await hold("held", "sid:1")
    gate = threading.Event()
    pool = database()
    with pytest.raises(Unavailable):
        await pool.read(gate.wait)  # the only thread is stuck: nothing can be read
    began = time.monotonic()
    await until(lambda: token_cache().peek("held") is None, 2)
    assert time.monotonic() - began < 0.9
    gate.set()
    settings.IRONAUTH_DATABASE_TIMEOUT_S = 2.0
    await until(lambda: time.monotonic() - feed.synced_at < 0.4, 3)
    await hold("held", "sid:1")
    assert token_cache().peek("held") == "held"


async def test_a_mistake_in_a_reading_does_not_end_the_feed(
    settings: Settings, feed: InvalidationFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected exception is survived: the next reading works."""
    settings.IRONAUTH_L1_MAX_STALE_S = 0.5
    with monkeypatch.context() as broken:
        broken.setattr(feed, "_history", None)
        await asyncio.sleep(0.5)
    last = feed.synced_at
    await until(lambda: feed.synced_at > last, 2)


async def test_an_emptied_table_is_a_fresh_start(feed: InvalidationFeed) -> None:
    """When the history the feed has read is gone, nothing held from before is used."""
    await database().write(remote_row, "sid:8")
    await feed.poll()
    await hold("held", "sid:1")
    await database().write(lambda: Invalidation.objects.all().delete())
    await feed.poll()
    assert token_cache().peek("held") is None
    await hold("held", "sid:1")
    await database().write(remote_row, "sid:1")
    await feed.poll()
    assert token_cache().peek("held") is None


async def test_our_own_rows_are_not_applied_twice(feed: InvalidationFeed) -> None:
    """What this process refilled after its own invalidation stays when the feed reads that row."""
    await hold("held", "sid:1")
    await database().write(invalidate, "sid:1")
    await hold("held", "sid:1")
    await feed.poll()
    assert token_cache().peek("held") == "held"
    assert not feed._own


async def test_a_reading_sees_our_own_rows_applied_or_not_yet_ours(
    feed: InvalidationFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that reads a row while its own process applies it waits: it neither applies it again nor runs ahead of it."""
    applied: list[str] = []
    ahead: list[bool] = []
    begun = threading.Event()
    apply, confirm = freshness.apply, freshness.confirm

    def slow_apply(ids: dict[str, int]) -> None:
        begun.set()
        time.sleep(0.2)
        apply(ids)
        applied.extend(ids)

    def watched_confirm(synced_at: float, position: int) -> None:
        ahead.append(position >= written[0] and not applied)
        confirm(synced_at, position)

    written = [await database().write(lambda: Invalidation.objects.create(tag="sid:1").pk)]
    monkeypatch.setattr(freshness, "apply", slow_apply)
    monkeypatch.setattr(freshness, "confirm", watched_confirm)
    committing = threading.Thread(target=feed.apply_own, args=([(written[0], "sid:1")],))
    committing.start()
    assert begun.wait(5)
    await feed.poll()
    committing.join()
    assert applied == ["sid:1"]
    assert ahead == [False]
    assert not feed._own


async def test_a_row_that_was_read_already_is_not_awaited_again(feed: InvalidationFeed) -> None:
    """A reading between the commit and its callback applies the row; its number does not stay behind as ours."""
    row_id = await database().write(lambda: Invalidation.objects.create(tag="sid:1").pk)
    await feed.poll()
    feed.apply_own([(row_id, "sid:1")])
    assert not feed._own
    feed.apply_own([(row_id + 1, "sid:2")])
    assert feed._own == {row_id + 1}


async def test_subscribers_hear_of_their_tag(feed: InvalidationFeed) -> None:
    """Once per invalidation here or elsewhere, on the feed's loop; a failing subscriber disturbs nobody."""
    heard: list[object] = []

    def note() -> None:
        heard.append(asyncio.get_running_loop())

    def fail() -> None:
        raise KeyError

    feed.subscribe("test-keys", fail)
    feed.subscribe("test-keys", note)
    feed.subscribe("test-keys", note)
    await database().write(invalidate, "test-keys", "sid:1")
    await until(lambda: len(heard) == 1, 1)
    await database().write(remote_row, "test-keys")
    await feed.poll()
    assert heard == [asyncio.get_running_loop()] * 2
    await feed.stop()
    await database().write(lambda: invalidate("other"))
    del feed._callbacks["test-keys"]
    feed.subscribe("test-keys", lambda: heard.append("thread"))
    await database().write(invalidate, "test-keys")
    assert heard[2:] == ["thread"]
    del feed._callbacks["test-keys"]


# ---------------------------------------------------------------- with Redis
@pytest.fixture
async def connected(redis_cache: TwoLevelCache, feed: InvalidationFeed) -> TwoLevelCache:
    """The process's cache on Redis, its feed listening."""
    assert redis_cache.remote
    client = redis_cache.remote.aclient()

    async def subscribed() -> bool:
        return bool((await client.pubsub_numsub(broadcast.CHANNEL))[0][1])

    deadline = time.monotonic() + 5
    while not await subscribed():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    return redis_cache


async def test_a_message_drops_the_entry_within_a_tenth_of_a_second(
    connected: TwoLevelCache, private_redis: PrivateRedis
) -> None:
    """Another process's message acts at once, long before the feed's next reading."""
    took = []
    async with redis.asyncio.Redis.from_url(private_redis.url) as stranger:
        for n in range(1, 6):  # one or two may have waited for a processor
            await hold("held", f"sid:{n}")
            await stranger.publish(broadcast.CHANNEL, f"{5 * n} sid:{n}")
            took.append(await until(lambda: connected.peek("held") is None, 1))
    assert statistics.median(took) < 0.1


async def test_invalidate_publishes_after_commit(connected: TwoLevelCache, private_redis: PrivateRedis) -> None:
    """Other processes get one message per tag with the row's id; none for a rollback."""

    def rolled_back() -> None:
        invalidate("sid:lost")
        raise KeyError

    async with (
        redis.asyncio.Redis.from_url(private_redis.url) as stranger,
        stranger.pubsub(ignore_subscribe_messages=True) as channel,
    ):
        await channel.subscribe(broadcast.CHANNEL)
        await channel.get_message(timeout=1)
        with pytest.raises(KeyError):
            await database().write(rolled_back)
        await database().write(invalidate, "sid:1", "sub:1")
        messages: list[tuple[int, str] | None] = []
        while len(messages) < 2:
            message = await channel.get_message(timeout=1)
            assert message is not None
            messages.append(broadcast.parse(message["data"]))
    ids = await database().read(lambda: dict(Invalidation.objects.values_list("tag", "id")))
    assert messages == [(ids["sid:1"], "sid:1"), (ids["sub:1"], "sub:1")]


async def test_many_at_once_are_sent_in_pieces(connected: TwoLevelCache, private_redis: PrivateRedis) -> None:
    """What one act invalidates for many people is few round trips of a bounded size, in order, and none is lost."""
    many = 2 * broadcast.AT_ONCE + 7
    ids = [(number, f"sid:{number}") for number in range(1, many + 1)]
    async with (
        redis.asyncio.Redis.from_url(private_redis.url) as stranger,
        stranger.pubsub(ignore_subscribe_messages=True) as channel,
    ):
        await channel.subscribe(broadcast.CHANNEL)
        await channel.get_message(timeout=1)
        before = (await stranger.info("stats"))["total_reads_processed"]
        await asyncio.to_thread(invalidation_feed().committed, ids)
        reads = (await stranger.info("stats"))["total_reads_processed"] - before
        heard = [await channel.get_message(timeout=1) for _ in range(many)]
    assert [broadcast.parse(message["data"]) for message in heard if message] == ids
    assert reads < 100


async def test_made_up_messages_do_no_harm(connected: TwoLevelCache, private_redis: PrivateRedis) -> None:
    """Garbage is ignored, and a message with a huge id neither hides a later revocation nor stops the feed."""
    feed = invalidation_feed()
    await hold("held", "sid:1")
    async with redis.asyncio.Redis.from_url(private_redis.url) as stranger:
        for text in ("", "x", "5", "5 ", "-1 sid:1", "abc sid:1", "9" * 40 + " sid:1", "5 " + "y" * 81, b"\xff\xfe 1"):
            await stranger.publish(broadcast.CHANNEL, text)
        await asyncio.sleep(0.1)
        assert connected.peek("held") == "held"
        await stranger.publish(broadcast.CHANNEL, f"{2**63 - 1} sid:1")
    await until(lambda: connected.peek("held") is None, 1)
    await hold("held", "sid:1")
    assert connected.peek("held") == "held"
    await database().write(remote_row, "sid:1")
    await feed.poll()
    assert connected.peek("held") is None


async def test_the_channel_comes_back_by_itself(connected: TwoLevelCache, private_redis: PrivateRedis) -> None:
    """Redis restarted: the listener subscribes again and messages act again."""
    private_redis.stop()
    await hold("held", "sid:1")
    await database().write(invalidate, "sid:1")  # does not fail
    assert connected.peek("held") is None
    private_redis.start()

    async def acts() -> bool:
        await hold("held", "sid:1")
        async with redis.asyncio.Redis.from_url(private_redis.url) as stranger:
            await stranger.publish(broadcast.CHANNEL, "5 sid:1")
        await asyncio.sleep(0.05)
        return connected.peek("held") is None

    deadline = time.monotonic() + 5
    while not await acts():
        assert time.monotonic() < deadline


async def test_what_another_worker_shared_is_used_until_it_is_revoked(connected: TwoLevelCache) -> None:
    """fetch() finds in Redis what another worker put there, and not any more once its tag was invalidated."""

    async def load(value: str) -> Loaded[str]:
        return Loaded(value, ("sid:1",), clock.unix() + 600)

    def reading(value: str) -> Callable[[], Awaitable[Loaded[str]]]:
        return lambda: load(value)

    freshness._reaches_at -= 60  # the feed has run for a minute
    assert await connected.fetch("k", reading("first"), str) == "first"
    assert connected._l2 is not None
    await connected._l2.sent()
    with freshness.lock:
        connected._l1.remove_all()  # as in a worker that has not asked yet
    assert await connected.fetch("k", reading("second"), str) == "first"
    await database().write(invalidate, "sid:1")
    assert await connected.fetch("k", reading("third"), str) == "third"


async def test_redis_has_no_part_in_what_was_just_invalidated(
    connected: TwoLevelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a tag known to be dropped moments ago, only the database is asked; else Redis is asked first, and told."""
    asked: list[str] = []
    told: list[str] = []

    async def ask(key: str, *_: object, **__: object) -> None:
        asked.append(key)

    def tell(key: str, *_: object) -> None:
        told.append(key)

    async def load() -> Loaded[str]:
        return Loaded("fresh", ("sid:1", "sub:1"), clock.unix() + 600)

    monkeypatch.setattr(connected._l2, "get", ask)
    monkeypatch.setattr(connected._l2, "share", tell)
    await database().write(invalidate, "sub:1")
    assert await connected.fetch("k", load, str, tags=("sid:1", "sub:1")) == "fresh"
    assert asked == []
    assert await connected.fetch("other", load, str, tags=("sid:1",)) == "fresh"
    with monkeypatch.context() as later:
        now = time.monotonic
        later.setattr("time.monotonic", lambda: now() + connected._l1.max_stale_s + 1)
        assert await connected.fetch("later", load, str, tags=("sid:1", "sub:1")) == "fresh"
    assert asked == told == ["other", "later"]


async def test_a_refill_from_redis_after_a_revocation_is_refused(connected: TwoLevelCache) -> None:
    """Whatever Redis still holds of it, a revoked entry does not come back, neither here nor after a message."""
    assert connected._l2 is not None

    async def load() -> Loaded[str]:
        return Loaded("before", ("sid:1",), clock.unix() + 600)

    async def after() -> Loaded[str]:
        raise LookupError("revoked")

    for revoke in (invalidate, remote_row):
        await connected.fetch("k", load, str)
        await asyncio.sleep(0.05)
        await database().write(revoke, "sid:1")
        await invalidation_feed().poll()
        with pytest.raises(LookupError):
            await connected.fetch("k", after, str)
        await invalidation_feed().poll()


async def test_a_pool_whose_threads_all_wait_does_not_delay_the_feed(settings: Settings) -> None:
    """It reads on a connection of its own: else cached tokens would be refused five seconds later."""
    over = threading.Event()
    count = settings.IRONAUTH_DATABASE_THREADS + 1
    waiting = [asyncio.create_task(database().read(over.wait, 5.0)) for _ in range(count)]
    try:
        await until(lambda: database().pools[0].queued == 1, 2.0)
        began = time.monotonic()
        await invalidation_feed().poll()
        assert invalidation_feed().synced_at >= began
        assert database().pools[0].running == count - 1
    finally:
        over.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        await invalidation_feed().stop()
