"""Answering at even times, so that the clock does not tell what was done meanwhile.

Equal statements do not take equal time: a row that refers to a user has more to be checked than one that refers to
nobody. Measured: a known address took 0.05 to 0.15 ms longer, which some hundred requests tell apart.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

STEP_S: Final = 0.1  # seconds; fifty times what the work takes, and nobody who waits for a message minds
REFUSAL_STEP_S: Final = 0.01  # seconds; a hundred times what the row and event of a refusal differ by
TIMER_S: Final = 0.002  # what a loop's timer may be late by, seconds: one that uvloop rounds, and one that epoll does


@asynccontextmanager
async def answered_evenly() -> AsyncIterator[None]:
    """Let the block end a whole number of ``STEP_S`` seconds after it began; an error passes through at once."""
    began = time.monotonic_ns()
    yield
    await wait_for_step(began, STEP_S)


async def wait_for_step(began_ns: int, step_s: float) -> None:
    """Return a whole number of ``step_s`` seconds after ``began_ns`` of ``time.monotonic_ns``, never before.

    An event loop's own timers count from now, in whole milliseconds, so less than a millisecond of the work would still
    show. The last two milliseconds are therefore spent by asking the clock, one turn of the loop after the other.

    Args:
        began_ns: Nanoseconds of ``time.monotonic_ns``.
        step_s: Seconds.
    """
    due = _next_step(began_ns, step_s)
    await asyncio.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9 - TIMER_S))
    while time.monotonic_ns() < due:  # noqa: ASYNC110 - there is no event for a point in time
        await asyncio.sleep(0)


def wait_for_step_blocking(began_ns: int, step_s: float) -> None:
    """Do the same in a thread, whose sleep is exact enough: it ends at a point in time, not milliseconds from now.

    Args:
        began_ns: Nanoseconds of ``time.monotonic_ns``.
        step_s: Seconds.
    """
    due = _next_step(began_ns, step_s)
    while (left := due - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9)


def _next_step(began_ns: int, step_s: float) -> int:
    step = int(step_s * 1e9)
    return began_ns + ((time.monotonic_ns() - began_ns) // step + 1) * step
