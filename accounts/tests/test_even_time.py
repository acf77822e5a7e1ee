"""Answers at even times."""

import asyncio
import time

import pytest

from accounts.even_time import STEP_S, answered_evenly


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
