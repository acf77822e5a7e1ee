"""People who go through nginx all the time: a restart or a cut cable that costs an answer shows; and the restarts."""

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

from perf.http_client import Connection, Reply
from perf.nodes.site import Site
from perf.nodes.watch import UNAVAILABLE, Answers, Pair, Walkers, Wrong, paired
from perf.rig import seed

CLIENTS = 8
THINK_S = 0.02  # below nginx' 100 requests a second for each address, with room
RETRY_S = 0.3
GIVE_UP_S = 20.0
SIGN_IN_EVERY = 20  # turns, of five requests each: more would be a test of Argon2
OK, NO_CONTENT = 200, 204
_AROUND_S = 1.0  # of load before the first restart and after the last


class Crowd(Walkers):
    """Eight people, each on a connection of their own. The ``patient`` take a 503 and ask again; others want none."""

    people = CLIENTS

    def __init__(self, site: Site, *, patient: bool) -> None:
        super().__init__()
        self.refused: dict[str, int] = {"GET": 0, "POST": 0}
        self._site = site
        self._patient = patient

    async def _walk(self, number: int) -> None:
        """Renew, read and list, and now and then sign out and in again; end early when an answer leaves no session."""
        serial, session = self._site.person()
        refresh = session.refresh_token
        async with self._site.through_nginx(number) as client:
            for turn in itertools.count(1):
                try:
                    pair = await self._turn(client, refresh)
                    refresh = pair.refresh
                    if turn % SIGN_IN_EVERY == 0:
                        await self._ask(client, "POST", "/access/logout", token=pair.access, wanted=NO_CONTENT)
                        body: dict[str, object] = {"email": seed.email_of(serial), "password": seed.PASSWORD}
                        refresh = paired(await self._ask(client, "POST", "/access/signin", body=body)).refresh
                except Wrong:
                    return  # noted with the answer
                if self._done:
                    return

    async def _turn(self, client: Connection, refresh: str) -> Pair:
        pair = paired(await self._ask(client, "POST", "/access/refresh", body={"refresh_token": refresh}))
        for path in ("/access/me", "/access/me", "/access/sessions"):
            await self._ask(client, "GET", path, token=pair.access)
        return pair

    async def _ask(
        self,
        client: Connection,
        method: str,
        path: str,
        *,
        token: str = "",
        body: dict[str, object] | None = None,
        wanted: int = OK,
    ) -> Reply | None:
        """Ask, and where one is patient ask again after a 503."""
        began = time.monotonic()
        allowed = {wanted, UNAVAILABLE} if self._patient else {wanted}
        while True:
            await asyncio.sleep(THINK_S)
            answer = await self.answers.ask(client, method, path, token=token, body=body, allowed=allowed)
            if answer is None or answer.status != UNAVAILABLE:
                return answer
            self.refused[method] += 1
            if not self._patient or time.monotonic() - began > GIVE_UP_S:
                return answer
            await asyncio.sleep(RETRY_S)


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
