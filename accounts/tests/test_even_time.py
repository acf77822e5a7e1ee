"""Answers at even times."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import pytest
import uvloop

from accounts import services
from accounts.errors import InvalidCredentials
from accounts.even_time import REFUSAL_STEP_S, STEP_S, answered_evenly, wait_for_step
from accounts.models import User
from conftest import PASSWORD
from ironauth.infrastructure.database import database


@pytest.mark.parametrize(("work_s", "steps"), [(0, 1), (0.5, 1), (1.2, 2), (2.5, 3)])
async def test_a_block_ends_with_the_next_step(work_s: float, steps: int) -> None:
    """Whatever takes less than a step takes a step, and so on."""
    began = time.perf_counter()
    async with answered_evenly():
        await asyncio.sleep(work_s * STEP_S)
    assert steps * STEP_S <= time.perf_counter() - began + 0.002 < (steps + 0.9) * STEP_S


async def test_an_error_is_not_held_back() -> None:
    """A database that cannot be reached is reported at once."""
    began = time.perf_counter()
    with pytest.raises(ZeroDivisionError):
        async with answered_evenly():
            _ = 1 / 0
    assert time.perf_counter() - began < STEP_S / 2


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_is_below_a_millisecond_does_not_show(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Whatever the work took, nothing ends before its step, where a loop's timers end 0.7 ms early or late."""

    async def late_by(work_ns: int) -> float:
        began = time.monotonic_ns()
        while time.monotonic_ns() < began + work_ns:
            pass
        await wait_for_step(began, REFUSAL_STEP_S)
        return (time.monotonic_ns() - began) / 1e9 % REFUSAL_STEP_S

    async def all_of_them() -> None:
        for work_us in (4_000, 4_300, 4_700):
            late = [await late_by(work_us * 1_000) for _ in range(15)]
            assert min(late) < 0.0004, (work_us, late)  # the quickest: what else is running delays some
            assert sorted(late)[7] < 0.008, (work_us, late)  # none that ended early, which is 0.009 and more here

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(all_of_them())


@pytest.mark.django_db(transaction=True)
async def test_a_refused_sign_in_ends_with_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is refused waits, address known or not; a right password is not kept waiting."""
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
