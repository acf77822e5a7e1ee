"""Node B cut off from Redis, from Postgres, from both, and from nginx: what it still takes, and what people see."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from perf.http_client import Connection, Reply
from perf.nodes.crowd import Crowd
from perf.nodes.site import Site
from perf.nodes.watch import REFUSED, UNAVAILABLE, Answers, make_known, renew

CASES: dict[str, tuple[str, ...]] = {
    "Redis": ("redis",),
    "Postgres": ("postgres",),
    "Postgres and Redis": ("postgres", "redis"),
    "nginx": ("web",),
}
BOUND_S = 5.0  # IRONAUTH_L1_MAX_STALE_S as it is by default
REPORTED_S = 2.5  # an answer of 503 is due within 2 s, and a client's own share (ironauth/tests/test_faults.py)
RECOVERY_S = 5.0
_ASK_S = 0.05
_HEALTHY_IN_A_ROW = 10
_RECOVERY_LIMIT_S = 30.0


@dataclass
class Cut:
    """What was seen of one cut, in seconds."""

    what: str
    at_a: Answers = field(default_factory=Answers)
    at_b: Answers = field(default_factory=Answers)
    people: Answers = field(default_factory=Answers)
    refused: dict[str, int] = field(default_factory=dict)
    ended: int = 0
    latest_s: float = 0.0  # after its sign-out, node B's last 200 for a token
    recovery_s: float = float("inf")


async def cut_off(site: Site, what: str, *, seconds: float, people: int) -> Cut:
    """Cut node B off for ``seconds``, during which ``people`` sign out at node A, one after the other.

    Raises:
        Wrong: somebody had no session to begin with.
    """
    seen, crowd, links = Cut(what), Crowd(site, patient=True), CASES[what]
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(site.direct(site.a))
        tokens = [await _known(site, seen, here) for _ in range(people + 1)]
        async with crowd.around():
            await asyncio.sleep(1)
            site.b.machine.cut(*links)
            try:
                await _while_cut(site, seen, here, tokens, seconds)
            finally:
                site.b.machine.heal(*links)
            seen.recovery_s = await _recovery(site, seen, tokens[0])
        async with site.direct(site.b) as there:
            for token in tokens[1:]:
                await seen.at_b.ask(there, "GET", "/access/me", token=token, allowed=(REFUSED,))
    seen.people, seen.refused = crowd.answers, crowd.refused
    return seen


async def _known(site: Site, seen: Cut, here: Connection) -> str:
    """Return an access token that both nodes know."""
    _, session = site.person()
    token = (await renew(seen.at_a, here, session.refresh_token)).access
    await make_known(seen.at_a, here, token)
    async with site.direct(site.b) as there:
        await make_known(seen.at_b, there, token)
    return token


async def _while_cut(site: Site, seen: Cut, here: Connection, tokens: list[str], seconds: float) -> None:
    """End all sessions but the first at node A, spread over the cut, each watched at node B to its end."""
    ends = time.monotonic() + seconds
    staying, leaving = tokens[0], tokens[1:]
    watches = [asyncio.create_task(_stays(site, seen, staying, ends))]
    # The last ones have the whole bound left to be seen in.
    pause = max(0.0, seconds - BOUND_S - 1) / len(leaving)
    for token in leaving:
        await seen.at_a.ask(here, "POST", "/access/logout", token=token, allowed=(204,))
        watches.append(asyncio.create_task(_ended(site, seen, token, ends)))
        await asyncio.sleep(pause)
    seen.ended = len(leaving)
    while time.monotonic() < ends:
        await seen.at_a.ask(here, "GET", "/access/me", token=staying)
        await asyncio.sleep(_ASK_S)
    await asyncio.gather(*watches)


async def _ended(site: Site, seen: Cut, token: str, ends: float) -> None:
    """Ask node B about an ended session until the cut ends; note how long it took its token."""
    began = time.monotonic()
    async for answer in _asking(site, seen, token, ends, allowed=(200, REFUSED, UNAVAILABLE)):
        if answer.status == 200:
            seen.latest_s = max(seen.latest_s, time.monotonic() - began)


async def _stays(site: Site, seen: Cut, token: str, ends: float) -> None:
    """Ask node B about a session that goes on: its owner is never refused, at worst asked to wait."""
    async for _ in _asking(site, seen, token, ends, allowed=(200, UNAVAILABLE)):
        pass


async def _asking(site: Site, seen: Cut, token: str, ends: float, allowed: Collection[int]) -> AsyncIterator[Reply]:
    async with site.direct(site.b) as there:
        while time.monotonic() < ends:
            answer = await seen.at_b.ask(there, "GET", "/access/me", token=token, allowed=allowed)
            if answer is not None:
                yield answer
            await asyncio.sleep(_ASK_S)


async def _recovery(site: Site, seen: Cut, token: str) -> float:
    """Return after how many seconds node B, asked itself, does everything again: ten good answers in a row."""
    began = first = time.monotonic()
    good = 0
    _, session = site.person()
    refresh = session.refresh_token
    async with site.direct(site.b) as there:
        while good < _HEALTHY_IN_A_ROW:
            if time.monotonic() - began > _RECOVERY_LIMIT_S:
                return float("inf")
            asked = time.monotonic()
            body: dict[str, object] = {"refresh_token": refresh}
            renewed = await seen.at_b.ask(there, "POST", "/access/refresh", body=body, allowed=(200, UNAVAILABLE))
            me = await seen.at_b.ask(there, "GET", "/access/me", token=token, allowed=(200, UNAVAILABLE))
            if renewed is not None and renewed.status == 200 and me is not None and me.status == 200:
                refresh = renewed.json()["refresh_token"]
                first, good = (asked, 1) if good == 0 else (first, good + 1)
            else:
                good = 0
            await asyncio.sleep(_ASK_S)
    return first - began
