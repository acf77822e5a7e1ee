"""Restarts under load: each node in turn, and new workers by SIGHUP; nobody behind nginx notices."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from perf.nodes.crowd import Crowd
from perf.nodes.site import Site
from perf.nodes.watch import Answers

_AROUND_S = 1.0  # of load before the first and after the last


@dataclass(frozen=True)
class Renewed:
    """What a crowd saw of so many renewals, in so many seconds."""

    what: str
    times: int
    seconds: float
    answers: Answers


async def restart_in_turn(site: Site, rounds: int) -> Renewed:
    """Stop and start A, then B, ``rounds`` times, each when the other one is healthy."""

    def again(number: int) -> None:
        node = site.nodes[number % len(site.nodes)]
        node.stop()
        node.start()

    return await _under_load(site, "restarts, one node after the other", rounds * len(site.nodes), again)


async def renew_workers(site: Site, rounds: int) -> Renewed:
    """Send SIGHUP to A and B in turn, ``rounds`` times each, waiting for the new workers."""
    return await _under_load(
        site,
        "SIGHUP, one node after the other",
        rounds * len(site.nodes),
        lambda at: site.nodes[at % len(site.nodes)].renew(),
    )


async def _under_load(site: Site, what: str, times: int, step: Callable[[int], None]) -> Renewed:
    crowd, began = Crowd(site, patient=False), time.monotonic()
    async with crowd.around():
        await asyncio.sleep(_AROUND_S)
        for number in range(times):
            await asyncio.to_thread(step, number)
        await asyncio.sleep(_AROUND_S)
    return Renewed(what, times, time.monotonic() - began, crowd.answers)
