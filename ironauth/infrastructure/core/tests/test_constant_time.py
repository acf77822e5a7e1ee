"""Answers at even times."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest
import uvloop

from accounts.errors import InvalidCredentials
from accounts.users import services
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import constant_time
from ironauth.infrastructure.core.constant_time import (
    REFUSAL_STEP_S,
    STEP_S,
    TIMER_S,
    answered_evenly,
    wait_for_step,
    wait_for_step_blocking,
)
from ironauth.infrastructure.db.unit_of_work import database


class Clock:
    """A clock, and a loop whose timers count whole milliseconds from when they are set, early or late by ``off_ns``."""

    TURN_NS = 20_000  # what a turn of the loop takes

    def __init__(self, off_ns: int) -> None:
        self.now_ns = 10**12 + 123_456
        self.off_ns = off_ns

    def monotonic_ns(self) -> int:
        """Return the time."""
        return self.now_ns

    async def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        whole_ms = round(seconds * 1e3)
        self.now_ns += whole_ms * 1_000_000 + self.off_ns if whole_ms else self.TURN_NS

    def block(self, seconds: float) -> None:
        """Let the time pass in a thread: late at most, as ``time.sleep`` promises."""
        self.now_ns += round(seconds * 1e9) + self.TURN_NS // 2


@pytest.fixture(params=[-700_000, 0, 300_000, 700_000])
def clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that stands for the real one; what else the machine does is not in it."""
    made = Clock(request.param)
    stand_in = SimpleNamespace(monotonic_ns=made.monotonic_ns, sleep=made.block)
    monkeypatch.setattr(constant_time, "time", stand_in)
    monkeypatch.setattr(constant_time, "asyncio", SimpleNamespace(sleep=made.sleep))
    return made


@pytest.mark.parametrize(("work_s", "steps"), [(0, 1), (0.5, 1), (1.2, 2), (2.5, 3)])
async def test_a_block_ends_with_the_next_step(clock: Clock, work_s: float, steps: int) -> None:
    """Whatever takes less than a step takes a step, and so on."""
    began = clock.now_ns
    async with answered_evenly():
        clock.now_ns += int(work_s * STEP_S * 1e9)
    assert 0 <= clock.now_ns - began - steps * int(STEP_S * 1e9) < Clock.TURN_NS


async def test_an_error_is_not_held_back(clock: Clock) -> None:
    """A database that cannot be reached is reported at once."""
    began = clock.now_ns
    with pytest.raises(ZeroDivisionError):
        async with answered_evenly():
            _ = 1 / 0
    assert clock.now_ns == began


@pytest.mark.parametrize("work_us", [0, 90, 4_000, 4_300, 4_700, 8_600, 9_990, 14_300])
async def test_what_is_below_a_millisecond_does_not_show(clock: Clock, work_us: int) -> None:
    """Whatever the work took, and however a loop's timers round: a turn of the loop after its step, never before it."""
    began = clock.now_ns
    clock.now_ns += work_us * 1_000
    await wait_for_step(began, REFUSAL_STEP_S)
    step_ns = int(REFUSAL_STEP_S * 1e9)
    assert 0 <= clock.now_ns - began - (work_us * 1_000 // step_ns + 1) * step_ns < Clock.TURN_NS


@pytest.mark.parametrize("work_us", [0, 90, 4_300, 9_990, 14_300])
def test_a_thread_waits_for_the_same_step(clock: Clock, work_us: int) -> None:
    """As on the loop: never before the step that comes next."""
    began = clock.now_ns
    clock.now_ns += work_us * 1_000
    wait_for_step_blocking(began, REFUSAL_STEP_S)
    step_ns = int(REFUSAL_STEP_S * 1e9)
    assert 0 <= clock.now_ns - began - (work_us * 1_000 // step_ns + 1) * step_ns < Clock.TURN_NS


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_on_real_loops(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Nothing ends before its step, and timers are late by no more than what is left to turns of the loop."""

    async def all_of_them() -> None:
        late = []
        for _ in range(21):  # the shortest is the loop's own; others may have waited for a processor
            asked = time.monotonic_ns()
            await asyncio.sleep(0.0043)
            late.append(time.monotonic_ns() - asked - 4_300_000)
        assert min(late) < TIMER_S * 1e9
        for work_s in (0.004, 0.0043, 0.0047):
            began = time.monotonic_ns()
            await asyncio.sleep(work_s)
            asked = time.monotonic_ns()
            await wait_for_step(began, REFUSAL_STEP_S)
            steps_before = (asked - began) // int(REFUSAL_STEP_S * 1e9)
            assert time.monotonic_ns() - began >= (steps_before + 1) * int(REFUSAL_STEP_S * 1e9)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(all_of_them())


@pytest.mark.django_db(transaction=True)
async def test_a_refused_sign_in_ends_with_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody who is refused waits, address known or not; a right password is not kept waiting."""
    waits: list[float] = []

    async def noted(began_ns: int, step_s: float) -> None:
        assert 0 <= time.monotonic_ns() - began_ns < 10e9
        waits.append(step_s)

    await database().write(partial(User.objects.create_user, email="known@example.com", password=PASSWORD))
    monkeypatch.setattr(services, "wait_for_step", noted)
    await services.authenticate(email="known@example.com", password=PASSWORD)
    assert not waits
    for email in ("known@example.com", "unknown@example.com"):
        with pytest.raises(InvalidCredentials):
            await services.authenticate(email=email, password="wrong horse battery 7")
    assert waits == [REFUSAL_STEP_S, REFUSAL_STEP_S]
