"""One fault from healthy to healthy again: load, the fault, recovery on either worker, what the database has then."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from perf.faults.cases import Case, Stage
from perf.faults.checker import Checker, Figures
from perf.faults.people import API, Lines, Person, Visits
from perf.faults.site import Site

PEOPLE = 8
RECOVERY_S = 5.0  # the promise, from the fault's end and without a restart
GIVEN_UP_S = 20.0  # no recovery in this time is none
IN_A_ROW = 5  # successes of a worker that count as recovery: each a refresh and a list of sessions
PROBE_PAUSE_S = 0.02
SETTLE_S = 5.0  # for refreshes whose answer was lost to be tried again
IGNORED = Checker(bound_s=float("inf"), grace_s=0)  # what probes meet is recovery; people judge the same moments


@dataclass(frozen=True)
class Times:
    """How long one fault is shown, in seconds."""

    healthy: float
    fault: float
    after: float


FULL = Times(healthy=1.5, fault=7.0, after=1.0)
QUICK = Times(healthy=0.5, fault=2.0, after=0.3)


@dataclass(frozen=True)
class Outcome:
    """What one fault showed. ``recovery_s``: of the slower worker, None without any."""

    name: str
    figures: Figures
    recovery_s: float | None


class Crowd:
    """The people of a site, who live on through all its faults."""

    def __init__(self, site: Site, checker: Checker, *, people: int = PEOPLE) -> None:
        self.site = site
        self.checker = checker
        self.visits = Visits(site.connector(), checker, site.sessions)
        self.probing = Visits(site.connector(), IGNORED, site.sessions[::-1])
        self.people = [Person(self.visits, Lines(self.visits)) for _ in range(people)]
        self.probes = [Person(self.probing, Lines(self.probing)) for _ in range(2)]
        self._lives: list[asyncio.Task[None]] = []

    def go(self) -> None:
        """Let them live."""
        self.visits.stop = False
        self._lives = [asyncio.create_task(person.live()) for person in self.people]

    async def halt(self) -> None:
        """Let each finish what it does.

        Raises whatever went wrong in the life of one.
        """
        self.visits.stop = True
        lives, self._lives = self._lives, []
        await asyncio.gather(*lives)

    async def end(self) -> None:
        """Stop everything."""
        for life in self._lives:
            life.cancel()
        await asyncio.gather(*self._lives, return_exceptions=True)
        await self.visits.end()
        for person in (*self.people, *self.probes):
            person.lines.close()


async def show(name: str, case: Case, crowd: Crowd, times: Times) -> Outcome:
    """Show one fault and return what came of it."""
    crowd.checker.begin(case.allowed)
    crowd.go()
    await asyncio.sleep(times.healthy)
    stage = Stage(crowd.site, crowd.people)
    stage.hurry()
    await asyncio.sleep(0.1)  # some are signing out when it happens, some have just done so
    crowd.checker.breaks()
    async with case.fault(stage):
        await asyncio.sleep(times.fault if case.hold else 0)
    recovery_s = await recovery(crowd.probes)
    await asyncio.sleep(times.after)
    await crowd.halt()
    crowd.checker.over()
    await settle(crowd)
    if recovery_s is None or recovery_s > RECOVERY_S:
        crowd.checker.broken(f"no recovery in {RECOVERY_S:g} s")
    return Outcome(name, crowd.checker.figures, recovery_s)


async def recovery(probes: list[Person]) -> float | None:
    """Return after how many seconds both workers do whatever they are asked, ``IN_A_ROW`` times; None for never."""
    began = time.monotonic()
    since: dict[int, list[float]] = {}
    while time.monotonic() < began + GIVEN_UP_S:
        for probe in probes:
            if not probe.refresh:
                await probe.arrive()
            for number in range(2):
                at = time.monotonic()
                worker = await _serves(probe, number)
                if worker:
                    since.setdefault(worker, []).append(at)
                else:
                    since.clear()
        steady = [moments[0] for moments in since.values() if len(moments) >= IN_A_ROW]
        if len(steady) >= 2:
            return max(0.0, max(steady) - began)
        await asyncio.sleep(PROBE_PAUSE_S)
    return None


async def _serves(probe: Person, number: int) -> int:
    """Refresh and list sessions over one connection; return the worker that did both, or 0."""
    lines = probe.lines
    body = {"refresh_token": probe.refresh}
    answer = await lines.ask("probe", "POST", f"{API}/refresh", body=body, at=number)
    if answer is None or not probe.take([answer]):
        return 0
    listed = await lines.ask("probe", "GET", f"{API}/sessions", token=probe.access, at=number)
    if listed is None or listed.status != HTTPStatus.OK or listed.worker != answer.worker:
        return 0
    other = lines.worker(1 - number)
    if other in (0, listed.worker):  # both at one worker: try for the other one next time
        lines.drop(1 - number)
    return listed.worker


async def settle(crowd: Crowd) -> None:
    """Have every session's present generation known, and hold it against the database; then show old tokens."""
    until = time.monotonic() + SETTLE_S
    for person in crowd.people:
        while (person.first_tried is not None or not person.access) and time.monotonic() < until:
            await person.act()
    crowd.checker.allowed = type(crowd.checker.allowed)(ending=crowd.checker.allowed.ending)
    held = {person.session_id: person for person in crowd.people if person.refresh and person.first_tried is None}
    found = await asyncio.to_thread(crowd.site.generations, list(held))
    for session_id, person in held.items():
        crowd.checker.stored(held=person.generation, found=found.get(session_id))
    for person in crowd.people[::3]:
        with suppress(StopIteration):
            await _show_old(person)


async def _show_old(person: Person) -> None:
    """Show a refresh token two generations old: the session ends, and its newest token with it."""
    for _ in range(2):
        await person.exchange()
    if not (person.older and person.refresh):
        return
    for token in (person.older, person.refresh):
        body = {"refresh_token": token}
        answer = await person.lines.ask("old refresh token", "POST", f"{API}/refresh", body=body)
        if answer is not None:
            person.visits.checker.reuse(answer.status)
    person.refresh = ""
