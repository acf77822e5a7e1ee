"""Consecutive failures: the waits, the end at one hundred, known devices, and that nothing is forgiven by itself."""

import asyncio
from collections.abc import Callable

import pytest

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.models import ThrottleFailures, purge_throttles
from ironauth.infrastructure.ratelimit import lockout
from ironauth.infrastructure.ratelimit.lockout import KEEP_S, Count, Reserved

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

DAY = 86_400
SetClock = Callable[[float], None]


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """A clock that stands still until it is set, unix seconds."""

    def put(seconds: float) -> None:
        monkeypatch.setattr(clock, "_source", lambda: seconds)

    put(1_800_000_000)
    return put


PLAIN, STRANGERS, KNOWN = Count("k"), Count("k", most=12), Count("known", most=11)


async def fail(count: Count = PLAIN, *devices: str) -> Reserved | float:
    """Try and fail."""
    return await database().write(lockout.register_attempt, count, known=[(device, KNOWN) for device in devices])


async def failures(key: str = "k") -> int:
    """Return what is stored."""
    return (await ThrottleFailures.objects.aget(pk=key)).failures


def wait_after(failures: int, most: int = 100) -> int | None:
    """Return how many seconds a try has to wait after so many failures in a row, as documented; None: for good."""
    if failures >= most:
        return None
    return 0 if failures < 10 else min(2 ** (failures - 10), DAY)


def test_the_formula() -> None:
    """Both sides of every bend, in the words of the documentation that the next test holds the statement to."""
    found = {n: wait_after(n) for n in (0, 9, 10, 11, 20, 26, 27, 99, 100, 1000)}
    assert found == {0: 0, 9: 0, 10: 1, 11: 2, 20: 1024, 26: 65_536, 27: DAY, 99: DAY, 100: None, 1000: None}
    assert [wait_after(n, most=12) for n in (11, 12)] == [2, None]
    assert lockout.MAX_FAILURES == 100


async def test_a_try_beside_another_waits_only_where_there_is_a_wait(set_clock: SetClock) -> None:
    """A try may read the clock before another one is stored, and be stored after it: that alone is no wait."""
    now = clock.unix()
    for n in range(10):
        set_clock(now - n * 0.001)
        assert isinstance(await fail(), Reserved)
    assert await failures() == 10
    assert await fail() == pytest.approx(1.0)  # from the tenth failure's own time


async def test_waits_are_those_of_the_formula_to_the_second(set_clock: SetClock) -> None:
    """After every failure a try is refused until the wait has passed, and let in then, a hundred times and no more."""
    now = clock.unix()
    for n in range(100):
        wait = wait_after(n)
        assert wait is not None
        if wait:
            set_clock(now + wait - 0.5)
            assert await fail() == 0.5
        now += wait
        set_clock(now)
        assert isinstance(await fail(), Reserved)
        assert await failures() == n + 1
    assert now - 1_800_000_000 == 2**17 - 1 + 73 * DAY
    for later in (0, DAY, 360 * DAY):
        set_clock(now + later)
        assert await fail() == KEEP_S - later  # until it is forgotten
    assert await failures() == 100


async def test_parallel_tries_are_counted_one_by_one(set_clock: SetClock) -> None:
    """Of forty at once ten are let in; a refusal counts nothing."""
    found = await asyncio.gather(*(fail() for _ in range(40)))
    assert sum(isinstance(one, Reserved) for one in found) == 10
    assert await failures() == 10


async def test_giving_back_undoes_a_try_and_its_wait(set_clock: SetClock) -> None:
    """The next try is let in at once; a wait that another try began stays."""
    tries = [await fail() for _ in range(10)]
    assert await fail() == 1
    assert isinstance(tries[9], Reserved)
    await database().write(lockout.give_back, tries[9])
    again = await fail()
    assert isinstance(again, Reserved)
    assert isinstance(tries[0], Reserved)
    await database().write(lockout.give_back, tries[0])
    assert await failures() == 9
    assert await fail() == 1


async def test_known_devices_have_a_count_of_their_own(set_clock: SetClock) -> None:
    """They are let in while strangers are not, for as long as they are known; all of a kind have waits together."""
    await database().write(lockout.reset, ["k"], remember=["d1", "d2"], known_s=DAY)
    for _ in range(10):
        assert isinstance(await fail(STRANGERS, "stranger"), Reserved)
    assert await fail(STRANGERS, "stranger") == 1
    for n in range(10):
        reserved = await fail(STRANGERS, "nobody", ("d1", "d2")[n % 2])
        assert isinstance(reserved, Reserved)
        assert reserved.key == "known"
    assert await fail(STRANGERS, "d1") == 1
    assert await fail(STRANGERS, "d2") == 1
    assert (await failures("k"), await failures("known"), await failures("d1")) == (10, 10, 0)
    set_clock(clock.unix() + DAY - 1)
    assert isinstance(await fail(STRANGERS, "d1"), Reserved)
    assert (await failures("k"), await failures("known")) == (10, 11)
    set_clock(clock.unix() + 1)
    await fail(STRANGERS, "d1")
    assert (await failures("k"), await failures("known")) == (11, 11)


@pytest.mark.parametrize("before", [10, 11])
async def test_a_kind_at_its_end_tries_as_strangers_do(set_clock: SetClock, before: int) -> None:
    """Its last try is its own, the next ones count with the strangers', and there is an end to those too."""
    await database().write(lockout.reset, ["k"], remember=["d1"], known_s=90 * DAY)
    await fail(KNOWN)
    await ThrottleFailures.objects.filter(pk="known").aupdate(failures=before, retry_at=0)
    assert isinstance(await fail(STRANGERS, "d1"), Reserved)
    assert await failures("known") == 11
    assert await ThrottleFailures.objects.filter(pk="k").acount() == before - 10
    await fail(STRANGERS)
    for strangers, let_in in ((11, True), (12, False)):
        await ThrottleFailures.objects.filter(pk="k").aupdate(failures=strangers, retry_at=0)
        assert isinstance(await fail(STRANGERS, "d1"), Reserved) == let_in
    assert await fail(STRANGERS, "d1") == KEEP_S
    assert (await failures("k"), await failures("known")) == (12, 11)


async def test_devices_are_forgotten_together(set_clock: SetClock) -> None:
    """Those that succeeded until this second are strangers; one that succeeds a second later is known again."""

    async def known() -> list[bool]:
        found = []
        for device in ("d1", "d2"):
            reserved = await database().write(
                lockout.register_attempt, PLAIN, known=[(device, KNOWN)], forgotten="all of k"
            )
            found.append(isinstance(reserved, Reserved) and reserved.key == KNOWN.key)
        return found

    await database().write(lockout.reset, ["k"], remember=["d1", "d2"], known_s=DAY)
    assert await known() == [True, True]
    await database().write(lockout.forget_devices, "all of k", known_s=DAY)
    await database().write(lockout.reset, ["k"], remember=["d1"], known_s=DAY)
    assert await known() == [False, False]
    set_clock(clock.unix() + 1)
    await database().write(lockout.reset, ["k"], remember=["d1"], known_s=DAY)
    assert await known() == [True, False]


async def test_only_old_rows_are_purged(set_clock: SetClock) -> None:
    """A count stays for a year after its last failure, which forgives ten tries a year to who waits for it."""
    await fail(Count("a"))
    set_clock(clock.unix() + KEEP_S - 1)
    assert await database().write(purge_throttles) == 0
    await fail(Count("b"))
    set_clock(clock.unix() + 1)
    assert await database().write(purge_throttles) == 1
    assert [row.pk async for row in ThrottleFailures.objects.all()] == ["b"]


async def test_tries_prune_as_they_come(set_clock: SetClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any timer, one try in a hundred deletes what counts no more."""
    await fail(Count("a"))
    set_clock(clock.unix() + KEEP_S)
    monkeypatch.setattr(lockout, "_PRUNE_ONE_IN", 1)
    await fail(Count("b"))
    assert [row.pk async for row in ThrottleFailures.objects.all()] == ["b"]
