"""A Locust user that checks every answer, waits when it is told to, and leaves nothing behind."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import gevent
import msgspec
from gevent import GreenletExit
from locust import FastHttpUser
from locust.env import Environment
from locust.user.task import LOCUST_STATE_STOPPING, LOCUST_STATE_WAITING

from perf.swarm import assignment as assignments
from perf.swarm.answers import Answer, Check, retry_after_s, wrong
from perf.swarm.assignment import Assignment
from perf.swarm.people import Ledger, People
from perf.swarm.thresholds import Tally

SHED_RETRIES: Final = 5  # a client gives up after so many 503 in a row
API: Final = "/api/v1/access"


@dataclass
class Crew:
    """One process of the swarm. ``total`` is what all processes counted, as far as they have reported."""

    assignment: Assignment
    index: int = 0
    tally: Tally = field(default_factory=Tally)
    total: Tally = field(default_factory=Tally)
    _serial: int = 0

    def __post_init__(self) -> None:
        self.enrol(self.index)

    def enrol(self, index: int) -> None:
        """Become process ``index``: known only once Locust has forked and the master has given it out."""
        given = self.assignment
        self.index = index
        self.people = People(given.address, given.people, index=index, processes=given.processes)
        self.ledger = Ledger(Path(given.ledger), f"process-{os.getpid()}")

    def new_address(self) -> str:
        """Return an address that no other newcomer of any process has."""
        self._serial += 1
        return f"{self.assignment.prefix}-{os.getpid()}-{self._serial}@swarm.example"


CREW = Crew(assignments.read())


class JourneyEnded(Exception):
    """An answer that makes the rest of the journey pointless; it has been counted where it came."""


class Visitor(FastHttpUser):
    """The base of all users: ``call`` for requests, ``think`` for pauses in which Locust may stop the user."""

    abstract = True
    network_timeout = 30.0
    connection_timeout = 10.0
    concurrency = 1  # each user is one client with one keep-alive connection

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.pause_s = 0.0
        self.leaving = False  # tidying up: no pause may be the end of it
        self.waits = 0  # how often the server asked to come back later

    def wait_time(self) -> float:
        """Return the pause Locust makes now, in seconds."""
        return self.pause_s

    def think(self, least_s: float, most_s: float) -> None:
        """Pause like a person, for a random time; the user may be stopped meanwhile (``finally`` runs)."""
        self.pause_s = random.uniform(least_s, most_s) * CREW.assignment.think
        self.wait()  # type: ignore[no-untyped-call] # Locust does not annotate it

    def call(
        self,
        method: str,
        path: str,
        *,
        expect: int,
        check: Check | None = None,
        body: dict[str, str] | None = None,
        form: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        note: str = "",
        expired: bool = False,
    ) -> Answer:
        """Send one request until it is answered by something else than 503 with ``Retry-After``, and check that.

        ``body`` goes as JSON, ``form`` as a form; ``path`` is below the API's, or /oauth/ and what follows. ``note`` is
        added to the name in the statistics. ``expired``: the access token may be over, so that 401 is as right as
        ``expect``.

        Raises:
            JourneyEnded: the answer was wrong or missing, or 503 came too often.
        """
        for _ in range(1 + SHED_RETRIES):
            what = {
                "expect": expect,
                "check": check,
                "body": body,
                "form": form,
                "headers": headers or {},
                "note": note,
            }
            answer, fine = self._send_to_the_end(method, path, **what, expired=expired)
            asked_s = retry_after_s(answer)
            if asked_s is None or fine:
                break
            self.waits += 1
            self._wait_for_server(asked_s)
        else:
            CREW.tally.gave_up += 1
            raise JourneyEnded("shed too often")
        if not fine:
            raise JourneyEnded("an answer was wrong")
        return answer

    @contextmanager
    def tidying(self) -> Iterator[None]:
        """Do the last requests of a journey: nothing may cut them short, and what they fail by has been counted."""
        self.leaving = True
        if self._state == LOCUST_STATE_WAITING:
            # Stopped while it paused. Locust would stop it once more at the next change of the number of users, in the
            # middle of the request that signs out; of those already stopping it only waits for the end.
            self._state = LOCUST_STATE_STOPPING
        try:
            yield
        except JourneyEnded:
            pass
        finally:
            self.leaving = False

    def _wait_for_server(self, asked_s: float) -> None:
        """Wait as asked, and up to a second more: those who were sent away together must not come back together."""
        self.pause_s = asked_s + random.random()
        if self.leaving:
            time.sleep(self.pause_s)
        else:
            self.wait()  # type: ignore[no-untyped-call] # Locust does not annotate it

    def _send_to_the_end(self, method: str, path: str, **what: Any) -> tuple[Answer, bool]:
        """Send once, whole: one that is cut short keeps the only connection, and nobody could sign out any more.

        Locust ends a pause by a kill that arrives a turn of its loop later, when the pause may be over. It then does
        what stopping a busy user does: the next pause is the end.
        """
        sending = gevent.spawn(self._send, method, path, **what)
        while True:
            try:
                sent: tuple[Answer, bool] = sending.get()
            except GreenletExit:
                self._state = LOCUST_STATE_STOPPING
            else:
                return sent

    def _send(
        self,
        method: str,
        path: str,
        *,
        expect: int,
        check: Check | None,
        body: dict[str, str] | None,
        form: dict[str, str] | None,
        headers: dict[str, str],
        note: str,
        expired: bool,
    ) -> tuple[Answer, bool]:
        """Send once, and report to Locust what came of it; return the answer and whether it was right."""
        content: dict[str, Any] = {}
        if body is not None:
            content = {"data": msgspec.json.encode(body).decode()}
            headers = {**headers, "Content-Type": "application/json"}
        elif form is not None:
            content = {"data": urlencode(form)}
            headers = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
        name = path.partition("?")[0] + note
        where = path if path.startswith("/oauth/") else API + path
        sent = self.client.request(
            method, where, name=name, headers=headers, catch_response=True, allow_redirects=False, **content
        )
        with sent as response:
            answer = _answer_in(response)
            CREW.tally.count("answers", str(CREW.index))
            if retry_after_s(answer) is not None:
                CREW.tally.count("shed", f"{method} {name}")
                response.request_meta["name"] = f"{name} [503]"  # refused at once: no latency of the real thing
                response.success()
                return answer, False
            if expired and answer.status == 401:
                response.request_meta["name"] = f"{name} [expired]"
                expect, check = 401, None
            reason = wrong(answer, expect, check)
            if reason:
                response.failure(reason)
            else:
                response.success()  # Locust would count an expected 401 as a failure
            return answer, not reason


def _answer_in(response: Any) -> Answer:
    """Return what came, with its fields' names in lower case; status 0 and the error's name where nothing did."""
    if not response.status_code:
        return Answer(0, {}, type(response.error).__name__.encode())
    received = {key.lower(): value for key, value in (response.headers or {}).items()}
    return Answer(response.status_code, received, response.content or b"")
