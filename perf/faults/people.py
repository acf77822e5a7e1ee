"""Who uses IronAuth while it is being broken: each with a session and a connection to either worker."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec

from perf.faults.checker import HASHING, Checker, generation_of
from perf.faults.wire import Answer, Connector, Line, LostError, connect
from perf.rig import seed

API = "/api/v1/access"
PAUSE_S = 0.03  # between two acts of a person
REFUSED_PAUSE_S = 0.15  # after a refusal; Retry-After says 1 s, here the first moment of recovery is wanted
STAY_S = 2.5  # until a person signs out and comes back
SIGN_IN_EVERY = 5  # of those who come back, this one types the password (one hash, 0.1 s of a core)
SIGNING_IN = 40  # people who do that: the first of those in the database
WATCH_S = 1.5  # a revoked token is tried for this long past the bound
WATCH_PAUSE_S = 0.2


class Pair(msgspec.Struct):
    """The tokens of an answer."""

    access_token: str
    refresh_token: str
    session_id: str


class Visits:
    """What people share: how connections are made, who judges, sessions to begin with, and when to stop.

    ``cutting``: the port of a proxy that loses every answer; refreshes go there first.
    """

    def __init__(self, connector: Connector, checker: Checker, sessions: list[seed.SeededSession]) -> None:
        self.connector = connector
        self.checker = checker
        self.sessions = iter(sessions)
        self.people = itertools.count()
        self.cutting: int | None = None
        self.stop = False
        self._watches: set[asyncio.Task[None]] = set()

    def watch(self, token: str) -> None:
        """Try a revoked token at both workers until past the bound, beside everything else."""
        task = asyncio.create_task(self._watch(token))
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)

    async def end(self) -> None:
        """Give up what is still being watched."""
        for task in tuple(self._watches):
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)

    async def _watch(self, token: str) -> None:
        until = time.monotonic() + self.checker.bound_s + WATCH_S
        lines = Lines(self)
        try:
            while time.monotonic() < until:
                for _ in range(2):
                    answer = await lines.ask("revoked", "GET", f"{API}/me", token=token)
                    if answer is not None and answer.status == HTTPStatus.OK:
                        self.checker.accepted(token, answer.began, answer.worker)
                await asyncio.sleep(WATCH_PAUSE_S)
        finally:
            lines.close()


class Lines:
    """Two connections, to different workers where there are two, used in turn and made anew when they end."""

    def __init__(self, visits: Visits) -> None:
        self._visits = visits
        self._lines: list[Line | None] = [None, None]
        self._turn = 0

    async def ask(
        self, act: str, method: str, path: str, *, token: str = "", body: object = None, at: int | None = None
    ) -> Answer | None:
        """Ask over the next connection, or the one numbered ``at``; None when no answer came. The checker hears."""
        if at is None:
            self._turn = at = 1 - self._turn
        checker = self._visits.checker
        try:
            try:
                answer = await (await self._line(at)).ask(method, path, token=token, body=body)
            except LostError as error:
                if error.kind != "idle":
                    raise
                answer = await (await self._line(at)).ask(method, path, token=token, body=body)
        except LostError as error:
            checker.lost(act, error.kind)
            await asyncio.sleep(REFUSED_PAUSE_S)
            return None
        checker.answered(act, answer.status, answer.ended - answer.began, retry=answer.retry)
        return answer

    async def _line(self, at: int) -> Line:
        line, other = self._lines[at], self._lines[1 - at]
        if line is None or not line.usable:
            line = self._lines[at] = await self._visits.connector.line(other_than=other.worker if other else 0)
        return line

    @property
    def workers(self) -> list[int]:
        """The processes at the other ends of usable connections."""
        return [worker for at in range(2) if (worker := self.worker(at))]

    def worker(self, at: int) -> int:
        """Return the process at the other end of one of them, 0 when it has ended."""
        line = self._lines[at]
        return line.worker if line is not None and line.usable else 0

    def drop(self, at: int) -> None:
        """Close one of them; the next request opens another."""
        line, self._lines[at] = self._lines[at], None
        if line is not None:
            line.close()

    def close(self) -> None:
        """Close both."""
        for line in self._lines:
            if line is not None:
                line.close()


@dataclass
class Person:
    """One session at a time. ``older`` is the refresh token two generations before ``refresh``.

    ``first_tried``: since when it is not known whether ``refresh`` was exchanged.
    """

    visits: Visits
    lines: Lines
    access: str = ""
    refresh: str = ""
    session_id: str = ""
    before: str = ""
    older: str = ""
    first_tried: float | None = None
    leaves_at: float = 0.0
    _leaving: bool = False
    _acts: Iterator[Callable[[], Awaitable[bool]]] = field(init=False)

    def __post_init__(self) -> None:
        self._acts = itertools.cycle(
            [self.look, self.look, self.exchange, self.look, self.list_sessions, self.look, self.exchange_twice]
        )

    @property
    def generation(self) -> int:
        """The number in the newest refresh token."""
        return generation_of(self.refresh)

    async def live(self) -> None:
        """Act until the visits stop; whatever happens, go on."""
        while not self.visits.stop:
            done = await self.act()
            await asyncio.sleep(PAUSE_S if done else REFUSED_PAUSE_S)

    async def act(self) -> bool:
        """Do the next thing; False when it was refused."""
        if not self.refresh:
            return await self.arrive()
        if not self.access or self.first_tried is not None:
            return await self.exchange()
        if self._leaving or time.monotonic() >= self.leaves_at:
            return await self.leave()
        return await next(self._acts)()

    async def arrive(self) -> bool:
        """Begin a session: one prepared in the database, or by password."""
        number = next(self.visits.people)
        self.access = self.before = self.older = ""
        self._leaving = False
        self.leaves_at = time.monotonic() + STAY_S * (0.6 + 0.1 * (number % 9))
        prepared = next(self.visits.sessions, None) if number % SIGN_IN_EVERY else None
        if prepared is not None:
            self.refresh, self.session_id = prepared.refresh_token, prepared.session_id
            return True
        body = {"email": seed.email_of(number % SIGNING_IN), "password": seed.PASSWORD}
        answer = await self.lines.ask(HASHING, "POST", f"{API}/signin", body=body)
        if answer is None or answer.status != HTTPStatus.OK:
            return False
        pair = msgspec.json.decode(answer.body, type=Pair)
        self.access, self.refresh, self.session_id = pair.access_token, pair.refresh_token, pair.session_id
        return True

    async def look(self) -> bool:
        """GET /me."""
        return await self._use("me")

    async def list_sessions(self) -> bool:
        """GET /sessions, which asks the database each time."""
        return await self._use("sessions")

    async def _use(self, what: str) -> bool:
        answer = await self.lines.ask(what, "GET", f"{API}/{what}", token=self.access)
        if answer is None:
            return False
        if answer.status == HTTPStatus.OK:
            self.visits.checker.accepted(self.access, answer.began, answer.worker)
            return True
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self.visits.checker.refused(what, self.access)
            self.access = ""  # refreshes next
        return False

    async def exchange(self) -> bool:
        """POST /refresh; where replies are cut, once in vain before."""
        if self.visits.cutting is not None and self.first_tried is None:
            await self._exchange_in_vain(self.visits.cutting)
        return self.take([await self._present()])

    async def exchange_twice(self) -> bool:
        """POST /refresh with the same token at both workers at the same time."""
        return self.take(list(await asyncio.gather(self._present(at=0), self._present(at=1))))

    async def _present(self, at: int | None = None) -> Answer | None:
        body = {"refresh_token": self.refresh}
        return await self.lines.ask("refresh", "POST", f"{API}/refresh", body=body, at=at)

    async def _exchange_in_vain(self, port: int) -> None:
        self.first_tried = time.monotonic()
        line = None
        try:
            line = await connect(port)
            await line.ask("POST", f"{API}/refresh", body={"refresh_token": self.refresh})
        except LostError as error:
            self.visits.checker.lost("refresh", error.kind)
        finally:
            if line is not None:
                line.close()

    def take(self, answers: list[Answer | None]) -> bool:
        """Go on with what a refresh token was exchanged for; False when no answer says."""
        checker, presented = self.visits.checker, self.refresh
        given = [answer for answer in answers if answer is not None]
        began = min((answer.began for answer in given), default=time.monotonic())
        good = [answer for answer in given if answer.status == HTTPStatus.OK]
        for answer in good:
            pair = msgspec.json.decode(answer.body, type=Pair)
            checker.succeeded(presented, pair.refresh_token)
        if any(answer.status == HTTPStatus.UNAUTHORIZED for answer in given):
            checker.not_refreshed(first_tried=self.first_tried, began=began)
            self.refresh, self.first_tried = "", None  # and with it the session
            return False
        if not good:
            self.first_tried = self.first_tried or began
            return False
        pair = msgspec.json.decode(good[0].body, type=Pair)
        self.older, self.before = self.before, presented
        self.access, self.refresh, self.first_tried = pair.access_token, pair.refresh_token, None
        return True

    async def leave(self) -> bool:
        """POST /logout until it is confirmed; then the token is watched, and somebody else comes."""
        answer = await self.lines.ask("logout", "POST", f"{API}/logout", token=self.access)
        if answer is not None and answer.status == HTTPStatus.NO_CONTENT:
            self.visits.checker.revoked(self.access, answer.ended)
            self.visits.watch(self.access)
            self.refresh = ""
            return True
        if answer is not None and answer.status == HTTPStatus.UNAUTHORIZED:
            if not self._leaving:
                self.visits.checker.refused("logout", self.access)
            self.refresh = ""
        self._leaving = True  # not known whether it is over already
        return False
