"""Sliding windows: the same answers from Redis and from the database, at every boundary and in parallel."""

import asyncio
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from ironauth.infrastructure.cache.two_level import TwoLevelCache, token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.models import ThrottleWindow, purge_throttles
from ironauth.infrastructure.ratelimit import window as sliding_window
from ironauth.infrastructure.ratelimit.window import Refusal, Slot, hit, take_in_database, take_in_redis
from ironauth.tests.services import PrivateRedis

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

LIMIT, WINDOW_S = 10, 60
START = 1_800_000_000.0  # the beginning of a window

SetClock = Callable[[float], None]
Take = Callable[..., Any]


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """A clock that stands still until it is set, seconds after START."""

    def put(seconds: float) -> None:
        monkeypatch.setattr(clock, "_source", lambda: START + seconds)

    put(0)
    return put


async def in_database(key: str, limit: int = LIMIT) -> Slot | Refusal:
    """Ask the database."""
    return await database().write(take_in_database, hit(key, limit=limit, window_s=WINDOW_S))


async def in_redis(key: str, limit: int = LIMIT) -> Slot | Refusal:
    """Ask Redis, which must answer."""
    found = await take_in_redis(hit(key, limit=limit, window_s=WINDOW_S))
    assert found is not None
    return found


@pytest.fixture(params=["database", "redis"])
def take(request: pytest.FixtureRequest) -> Take:
    """Each of the two stores in turn."""
    if request.param == "redis":
        request.getfixturevalue("redis_cache")
    return in_redis if request.param == "redis" else in_database


async def test_the_last_place_and_the_wait_for_the_next(take: Take, set_clock: SetClock) -> None:
    """The limit is reached exactly, a refusal counts nothing, and its wait is right to the second."""
    set_clock(45)
    for _ in range(LIMIT):
        assert isinstance(await take("a"), Slot)
    refused = await take("a")
    assert refused == Refusal(15 + 6)  # a tenth of the next window makes room for one
    assert await take("a") == refused
    set_clock(45 + 20)
    assert await take("a") == Refusal(1)
    set_clock(45 + 21)
    assert isinstance(await take("a"), Slot)
    assert await take("a") == Refusal(6)
    set_clock(180)
    for _ in range(LIMIT):  # two windows later nothing is left
        assert isinstance(await take("a"), Slot)
    assert isinstance(await take("b"), Slot)  # another key has its own count


async def test_the_wait_is_told_without_a_try(take: Take, set_clock: SetClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a refused try is told it, in the next window and after it too; asking takes no place."""
    if take is in_database:
        monkeypatch.setattr(token_cache(), "remote", None)

    async def told() -> int:
        return await database().read(sliding_window.wait_now_s, hit("w", limit=LIMIT, window_s=WINDOW_S))

    set_clock(45)
    for _ in range(LIMIT):
        assert await told() == 0
        assert isinstance(await take("w"), Slot)
    for seconds, wait_s in ((45, 21), (45 + 20, 1), (45 + 21, 0), (180, 0)):
        set_clock(seconds)
        assert await told() == wait_s
        if wait_s:
            assert await take("w") == Refusal(wait_s)
    set_clock(45 + 21)
    assert isinstance(await take("w"), Slot)
    assert await told() == 6


async def test_parallel_callers_share_the_places(take: Take) -> None:
    """Of forty at once exactly ten are let in."""
    found = await asyncio.gather(*(take("p") for _ in range(40)))
    assert sum(isinstance(one, Slot) for one in found) == LIMIT


async def test_a_place_given_back_is_free(request: pytest.FixtureRequest, take: Take, set_clock: SetClock) -> None:
    """In its own window and in the next; never below nothing, and not for the wrong key."""
    taken = [await take("g") for _ in range(LIMIT)]

    async def give_back(one: Slot) -> None:
        if one.in_redis:
            await sliding_window.give_back_to_redis(one)
        else:
            await database().write(sliding_window.give_back_to_database, one.key, one.slot)

    await give_back(taken[0])
    assert isinstance(await take("g"), Slot)
    assert isinstance(await take("g"), Refusal)
    set_clock(WINDOW_S)
    assert isinstance(await take("g"), Refusal)
    await give_back(taken[1])
    set_clock(WINDOW_S + 7)  # the first call in a window moves the counts on
    assert isinstance(await take("g"), Slot)
    await give_back(taken[2])
    for _ in range(30):
        await give_back(Slot("g", taken[0].slot - 5, taken[0].in_redis))  # long over: nothing to give back
    assert isinstance(await take("g"), Slot)
    assert isinstance(await take("g"), Refusal)


async def test_both_stores_agree(redis_cache: TwoLevelCache, set_clock: SetClock) -> None:
    """Two hundred random steps in time, clocks of other workers included: the same answers, waits too."""
    chance = random.Random(4)
    at = 0.0
    answers = []
    for _ in range(200):
        at += chance.choice([0, 0, 0, 1, 7.25, 31, 64, 150])
        set_clock(at + chance.choice([0, 0, 0.5, -0.5]))
        first, second = await in_database("m"), await in_redis("m")
        assert isinstance(first, Slot) == isinstance(second, Slot)
        if isinstance(first, Refusal):
            assert first == second
        answers.append(type(first))
    assert min(answers.count(Slot), answers.count(Refusal)) > 20


async def test_a_clock_ahead_opens_no_second_window(take: Take, set_clock: SetClock) -> None:
    """A worker whose clock has begun the next window already shares it with those whose clock has not."""
    set_clock(60)
    for _ in range(LIMIT):
        assert isinstance(await take("c"), Slot)
    set_clock(59)
    assert isinstance(await take("c"), Refusal)


@pytest.mark.parametrize("fault", ["kill", "freeze", "garbage"])
async def test_without_an_answer_of_redis_the_database_is_asked(
    second_of_redis: None, redis_cache: TwoLevelCache, private_redis: PrivateRedis, fault: str
) -> None:
    """Within the time limit, and at most the limit once more."""
    for _ in range(LIMIT):
        assert isinstance(await in_redis("f"), Slot)
    assert isinstance(await in_redis("f"), Refusal)
    assert private_redis.process
    assert redis_cache.remote
    if fault == "garbage":
        remote = redis_cache.remote
        await remote.aclient().set(sliding_window._name(remote, "f"), "x")
    else:
        private_redis.process.send_signal(signal.SIGSTOP if fault == "freeze" else signal.SIGKILL)
    began = time.monotonic()
    asked = hit("f", limit=LIMIT, window_s=WINDOW_S)
    assert await take_in_redis(asked) is None
    assert time.monotonic() - began < 1.9  # less than two limits
    for _ in range(LIMIT):
        assert isinstance(await in_database("f"), Slot)
    assert isinstance(await in_database("f"), Refusal)


async def test_clearing_the_cache_keeps_the_counts(redis_cache: TwoLevelCache) -> None:
    """Anybody who empties the cache does not reset a throttle."""
    for _ in range(LIMIT):
        await in_redis("k")
    await sync_to_async(token_cache().clear)()
    assert isinstance(await in_redis("k"), Refusal)


async def test_old_rows_are_purged(set_clock: SetClock) -> None:
    """A row goes when it counts no more, and not a second earlier."""
    await in_database("old")
    set_clock(2 * WINDOW_S - 1)
    assert await database().write(purge_throttles) == 0
    set_clock(2 * WINDOW_S)
    assert await database().write(purge_throttles) == 1
    assert not await ThrottleWindow.objects.aexists()
