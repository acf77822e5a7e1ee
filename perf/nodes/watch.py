"""What people do at the nodes, and what is noted of every answer."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from perf.http_client import Connection, Reply, ResponseError

REFUSED = 401
UNAVAILABLE = 503


class Wrong(Exception):
    """An answer that no case allows; the message says which."""


@dataclass
class Answers:
    """Statuses by number, what was wrong in words, and the longest wait in seconds.

    ``during`` says what goes on, and stands before whatever goes wrong then.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    during: str = ""

    async def ask(
        self, client: Connection, method: str, path: str, *, token: str = "", body: dict[str, object] | None = None,
        allowed: Collection[int] = (200,),
    ) -> Reply | None:  # fmt: skip
        """Send a request below /api/v1 and note the answer, as wrong unless ``allowed``; None where none came."""
        return await self.send(client, method, f"/api/v1{path}", allowed=allowed, token=token, json=body)

    async def send(
        self, client: Connection, method: str, target: str, *, allowed: Collection[int] = (200,), **content: Any
    ) -> Reply | None:
        """Send any request with the ``content`` that `Connection.send` takes; else as ``ask``."""
        began, during = time.monotonic(), f"{self.during}: " if self.during else ""
        what = f"{during}{method} {target}"
        try:
            answer = await client.send(method, target, **content)
        except (OSError, ResponseError) as error:
            self._note(began, 0)
            self.wrong.append(f"{what}: {type(error).__name__} {error}".rstrip())
            return None
        self._note(began, answer.status)
        if answer.status not in allowed:
            self.wrong.append(f"{what}: {answer.status} {answer.text}")
        return answer

    def _note(self, began: float, status: int) -> None:
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        self.statuses[status] += 1

    @property
    def total(self) -> int:
        """How many were sent."""
        return sum(self.statuses.values())


class Walkers:
    """``people`` who use servers all the time, each by ``_walk``; ``answers`` has what became of their requests."""

    people = 1

    def __init__(self) -> None:
        self.answers = Answers()
        self._done = False

    @asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        """Walk while the block runs; end with everybody's last answer."""
        walks = [asyncio.create_task(self._walk(number)) for number in range(self.people)]
        try:
            yield
        finally:
            self._done = True
            await asyncio.gather(*walks)

    async def _walk(self, number: int) -> None:
        """Send requests until ``_done``."""
        raise NotImplementedError


@dataclass
class Pair:
    """A session as its owner holds it."""

    access: str
    refresh: str
    session: str


async def renew(answers: Answers, client: Connection, refresh: str) -> Pair:
    """Trade a refresh token in.

    Raises:
        Wrong: it was refused.
    """
    answer = await answers.ask(client, "POST", "/access/refresh", body={"refresh_token": refresh})
    return paired(answer)


async def sign_in(answers: Answers, client: Connection, email: str, password: str) -> Pair:
    """Open a session.

    Raises:
        Wrong: it was refused.
    """
    return paired(await answers.ask(client, "POST", "/access/signin", body={"email": email, "password": password}))


def paired(answer: Reply | None) -> Pair:
    """Read the session in an answer.

    Raises:
        Wrong: there is none.
    """
    if answer is None or answer.status != 200:
        raise Wrong("no session: " + ("no answer" if answer is None else answer.text))
    made = answer.json()
    return Pair(made["access_token"], made["refresh_token"], made["session_id"])


async def make_known(answers: Answers, client: Connection, token: str) -> None:
    """Have a node answer for a token until it does so from its memory."""
    for _ in range(3):
        await answers.ask(client, "GET", "/access/me", token=token)


async def seconds_until_refused(
    answers: Answers, client: Connection, token: str, *, limit_s: float, every_s: float = 0.005
) -> float:
    """Ask for the account until the token is refused; return how long it was taken, in seconds from now.

    Raises:
        Wrong: it was still taken after ``limit_s``.
    """
    began, taken = time.monotonic(), 0.0
    for _ in itertools.count():
        sent = time.monotonic()
        answer = await answers.ask(client, "GET", "/access/me", token=token, allowed=(200, REFUSED))
        if answer is not None and answer.status == REFUSED:
            return taken
        # Taken at some time between question and answer: the earlier one is what is certain, the later one is said.
        taken = time.monotonic() - began
        if sent - began > limit_s:
            break
        await asyncio.sleep(every_s)
    raise Wrong(f"a revoked token was still taken after {taken:.1f} s")
