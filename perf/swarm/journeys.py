"""Who uses an authentication service, and how: the users of the swarm.

Closed loop (the next request follows the answer to the last one and a pause): ``Member``, ``Browser``. At a constant
rate (times fixed in advance, however slow the server is): ``ServiceClient``, ``Newcomer``.

Weights and pauses keep 40 users, the default, at about 3 hashes per second: a sixth of what two hash threads do. Some
200 users, or a spike, ask for more than that, and the server sheds load.
"""

import random
import time

from locust import task
from locust.env import Environment

from perf.swarm.answers import user_in, user_of, verified
from perf.swarm.people import Schedule
from perf.swarm.sessions import BearerGuest, CookieGuest
from perf.swarm.visitor import CREW, JourneyEnded

NEWCOMER_PERIOD_S = 15.0  # four hashes each time: sign-up, sign-in, and both again to close the account


class Member(BearerGuest):
    """Signs in, reads, refreshes half-way, looks at the sessions, signs out."""

    weight = 6

    @task
    def visit(self) -> None:
        """One visit, about 20 s."""
        self.visit_as_somebody(self._stay)

    def _stay(self) -> None:
        reads = random.randint(20, 50)
        for number in range(reads):
            if number == reads // 2:
                self.renew()
            self.read_me()
            self.think(0.2, 0.8)
        self.read_sessions()


class Browser(CookieGuest):
    """The same by cookies, as pages do it: fewer requests, longer pauses."""

    weight = 2

    @task
    def visit(self) -> None:
        """One visit, about 20 s."""
        self.visit_as_somebody(self._stay)

    def _stay(self) -> None:
        for _ in range(random.randint(10, 30)):
            self.read_me()
            self.think(0.5, 1.5)
        self.renew()
        self.read_me()


class _Punctual(BearerGuest):
    """Begins at times fixed in advance; late beginnings are counted."""

    abstract = True
    period_s = 0.0

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        # Everybody somewhere else in the first period: users that start together must not stay together.
        self._schedule = Schedule(self.period_s, time.monotonic() + random.random() * self.period_s)
        self.pause_s = self._schedule.wait_s(time.monotonic())

    def on_start(self) -> None:
        """Wait for the first time."""
        self.wait()  # type: ignore[no-untyped-call] # Locust does not annotate it

    def begin(self) -> None:
        """Count a beginning; the tally takes the schedule's counters over."""
        schedule = self._schedule
        late = schedule.late
        schedule.begin(time.monotonic())
        CREW.tally.starts += 1
        CREW.tally.late += schedule.late - late
        CREW.tally.latest_ms = max(CREW.tally.latest_ms, 1_000 * schedule.latest_s)

    def end(self, *, failed: bool = False) -> None:
        """Have Locust pause until the next time: not before the server asked for, nor at once after a failure."""
        now = time.monotonic()
        if failed or self.waits:
            self.waits = 0
            self._schedule.skip(now + (1.0 if failed else 0.0))
        self.pause_s = self._schedule.wait_s(now)


class ServiceClient(_Punctual):
    """A service with one long session: asks who it is, or lets a token be verified as a reverse proxy does."""

    weight = 1
    period_s = 1 / CREW.assignment.rate

    def on_start(self) -> None:
        """Take somebody's name, for good."""
        self._person = CREW.people.take()
        self._id = ""  # known once signed in
        self._asked = 0
        super().on_start()

    @task
    def ask(self) -> None:
        """One request; signed in first if need be, which may take longer than a period."""
        failed = False
        try:
            if self.signed_in:
                self.begin()
                self._asked += 1
                if self._asked % 2:
                    self.read("/verify", expect=204, check=verified(self._id))
                else:
                    self.read_me()
                CREW.tally.count("journeys", "ServiceClient")
            else:
                self.sign_in(self._person, CREW.assignment.password)
                self._id = str(user_in(self.read_me()).id)
                self._schedule.skip(time.monotonic())  # what a sign-in takes is no lateness
        except JourneyEnded:
            failed = True
            self.tidy()
        self.end(failed=failed)

    def on_stop(self) -> None:
        """Sign out."""
        self.tidy()
        CREW.people.give_back(self._person)


class Newcomer(_Punctual):
    """Somebody new every time: signs up, signs in, reads, signs out; then closes the account, so that none is left."""

    weight = 1
    period_s = NEWCOMER_PERIOD_S * CREW.assignment.think

    @task
    def arrive(self) -> None:
        """One person's first visit, and the last one."""
        self.begin()
        email, password = CREW.new_address(), CREW.assignment.password
        exists = failed = False
        try:
            CREW.ledger.made(email)
            body = {"email": email, "password": password, "name": "Newcomer"}
            self.call("POST", "/signup", expect=201, check=user_of(email), body=body)
            exists = True
            CREW.tally.accounts_made += 1
            self.sign_in(email, password)
            for _ in range(3):
                self.think(0.1, 0.5)
                self.read_me()
            self.sign_out()
            CREW.tally.count("journeys", "Newcomer")
        except JourneyEnded:
            failed = True  # counted where it happened
        finally:
            self.tidy()
            if exists:
                self._close(email, password)
        self.end(failed=failed)

    def _close(self, email: str, password: str) -> None:
        """Close the account; the ledger remembers one that could not be, for the cleaning after the run."""
        with self.tidying():
            self.sign_in(email, password)
            self.call("DELETE", "/me", expect=204, body={"password": password}, headers=self.credential())
            CREW.tally.sessions_closed += 1  # it went with the account
            CREW.tally.accounts_closed += 1
            CREW.ledger.closed(email)
        self.signed_in = False
