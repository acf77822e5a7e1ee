"""The five requests that sign somebody in at a client, by clients of a closed loop that check every answer.

Authorize, password, code for tokens, introspection, refresh: each time another person in a browser nobody has seen.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Final

import uvloop

from perf.http_client import Connection, Reply, ResponseError, refuse_remote
from perf.load.closed_loop import MAX_SECONDS
from perf.load.oauth_messages import (
    Application,
    Asking,
    Tokens,
    Wrong,
    check_introspection,
    code_in,
    code_led_back,
    sealed_in,
    subject_in,
    tokens_in,
)

STEPS: Final = ("authorize", "sign-in", "token", "introspect", "refresh")
_SHED: Final = 503
_NS: Final = 1_000_000_000


class Shed(Exception):
    """503 with Retry-After, the seconds it asks to wait."""


@dataclass
class Flows:
    """What one run saw. ``steps``: latencies in ns of the answers in the window; ``flows``: those completed in it.

    ``failures`` and ``shed`` are of the whole run, the ramp and the end included.
    """

    seconds: float
    steps: dict[str, list[int]] = field(default_factory=lambda: {step: [] for step in STEPS})
    flows: list[int] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    shed: int = 0


class Visit:
    """One person's way through the five requests."""

    def __init__(self, connection: Connection, application: Application, note: Callable[[str, int], None]) -> None:
        self._connection = connection
        self._application = application
        self._note = note
        self._cookies: dict[str, str] = {}

    async def walk(self, email: str, password: str) -> None:
        """Do the five. Raises ``Wrong`` at the first answer that is not right, ``Shed`` at one that is 503."""
        await self._use(*await self.signed_in(email, password))

    async def again(self) -> None:
        """Do four, as somebody who was signed in before: authorize leads back at once. Raises as ``walk``."""
        application, asking = self._application, Asking.anew()
        answer = await self._send("authorize", "GET", asking.target(application), 303)
        tokens = await self._tokens("token", **asking.grant(code_led_back(answer, asking.state, application.issuer)))
        await self._use(tokens, subject_in(tokens.id_token, application, nonce=asking.nonce))

    async def _use(self, tokens: Tokens, subject: str) -> None:
        """Introspect and refresh, as the client's server."""
        application = self._application
        asked = {"token": tokens.access_token, **application.credentials}
        check_introspection(
            await self._send("introspect", "POST", "/oauth/introspect", 200, asked), application, subject
        )
        newer = await self._tokens("refresh", grant_type="refresh_token", refresh_token=tokens.refresh_token)
        if newer.refresh_token == tokens.refresh_token or newer.access_token == tokens.access_token:
            raise Wrong("refresh: the tokens of before")
        if subject_in(newer.id_token, application, nonce="") != subject:
            raise Wrong("refresh: an ID token of somebody else")

    async def signed_in(self, email: str, password: str) -> tuple[Tokens, str]:
        """Do the first three; return what the client has got, and for which person. Raises as ``walk``."""
        application = self._application
        asking = Asking.anew()
        page = await self._send("authorize", "GET", asking.target(application), 200)
        form = {"request": sealed_in(page), "email": email, "password": password}
        answer = await self._send("sign-in", "POST", "/oauth/signin", 303, form)
        code = code_in(answer, state=asking.state, issuer=application.issuer)
        tokens = await self._tokens("token", **asking.grant(code))
        return tokens, subject_in(tokens.id_token, application, nonce=asking.nonce)

    async def _tokens(self, step: str, **grant: str) -> Tokens:
        reply = await self._send(step, "POST", "/oauth/token", 200, {**grant, **self._application.credentials})
        return tokens_in(reply, step)

    async def _send(
        self, step: str, method: str, target: str, expected: int, form: Mapping[str, str] | None = None
    ) -> Reply:
        """Send as a browser would the first two, as the client's server the others."""
        fields = {}
        if step in ("authorize", "sign-in") and self._cookies:
            fields["Cookie"] = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        if step == "sign-in":
            fields |= {"Origin": self._application.issuer, "Sec-Fetch-Site": "same-origin"}
        sent = perf_counter_ns()
        reply = await self._connection.send(method, target, form=form, fields=fields)
        if reply.status == _SHED and reply.field("retry-after").isdigit():
            raise Shed(reply.field("retry-after"))
        if reply.status != expected:
            raise Wrong(f"{step}: status {reply.status}")
        if "no-store" not in reply.field("cache-control"):
            raise Wrong(f"{step}: an answer that caches may store")
        self._note(step, sent)
        self._cookies |= reply.cookies()
        return reply


def run_flows(
    address: tuple[str, int], application: Application, *, clients: int, seconds: float, ramp_s: float,
    emails: Iterator[str], password: str, observe: Callable[[], None],
) -> Flows:  # fmt: skip
    """Have so many clients sign people in for ``ramp_s + seconds``; the last ``seconds`` are the window.

    ``observe`` is called when the window begins and when it ends. A flow under way at the end is finished.

    Raises:
        ValueError: the address is not loopback, or the run would last over ``MAX_SECONDS``.
    """
    refuse_remote(address)
    if clients < 1 or not 0 < seconds + ramp_s <= MAX_SECONDS:
        raise ValueError(f"give at least one client and a duration of at most {MAX_SECONDS:.0f} s")
    gc.collect()  # before the clock starts: a big heap takes longer than a short run
    run = _Run(address, application, seconds=seconds, ramp_s=ramp_s, emails=emails, password=password)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run.all(clients, observe))


def access_tokens(
    address: tuple[str, int], application: Application, *, emails: Iterator[str], password: str
) -> list[str]:
    """Sign these people in at the client, one after the other so that nothing is shed; return its access tokens.

    Raises:
        ValueError: The address is not loopback.
        Wrong: An answer was not right.
        Shed: Something else keeps the server busy.
    """
    refuse_remote(address)

    async def all_of_them() -> list[str]:
        async with Connection(address) as connection:
            visits = [Visit(connection, application, lambda _step, _sent: None) for _ in people]
            return [
                (await visit.signed_in(email, password))[0].access_token
                for visit, email in zip(visits, people, strict=True)
            ]

    people = list(emails)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(all_of_them())


class _Run:
    """The state the clients of one run share."""

    def __init__(
        self, address: tuple[str, int], application: Application, *, seconds: float, ramp_s: float,
        emails: Iterator[str], password: str,
    ) -> None:  # fmt: skip
        self.result = Flows(seconds)
        self._address = address
        self._application = application
        self._emails = emails
        self._password = password
        self._ramp_s = ramp_s
        self._start_ns = perf_counter_ns() + int(ramp_s * _NS)
        self._stop_ns = self._start_ns + int(seconds * _NS)

    async def all(self, clients: int, observe: Callable[[], None]) -> Flows:
        loop = asyncio.get_running_loop()
        loop.call_later(self._ramp_s, observe)
        loop.call_later(self._ramp_s + self.result.seconds, observe)
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._client())
            group.create_task(asyncio.sleep(self._ramp_s + self.result.seconds + 0.05))  # for the second look
        return self.result

    async def _client(self) -> None:
        async with Connection(self._address) as connection:
            while perf_counter_ns() < self._stop_ns:
                began = perf_counter_ns()
                try:
                    await Visit(connection, self._application, self._note).walk(next(self._emails), self._password)
                except Shed as asked:
                    self.result.shed += 1
                    left = max(self._stop_ns - perf_counter_ns(), 0) / _NS
                    await asyncio.sleep(min(float(str(asked)), left))
                except Wrong as wrong:
                    self.result.failures[str(wrong)] += 1
                except (OSError, ResponseError) as lost:
                    self.result.failures[f"connection: {type(lost).__name__}"] += 1
                else:
                    if self._counts(perf_counter_ns()):
                        self.result.flows.append(perf_counter_ns() - began)

    def _note(self, step: str, sent: int) -> None:
        now = perf_counter_ns()
        if self._counts(now):
            self.result.steps[step].append(now - sent)

    def _counts(self, now: int) -> bool:
        return self._start_ns <= now < self._stop_ns
