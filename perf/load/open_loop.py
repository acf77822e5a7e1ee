"""The engine of the fixed-rate load: a schedule of due requests, and connections that take the next of them."""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from time import perf_counter_ns

from perf.http_client import ResponseError, parse_response
from perf.load.sources import Source

_NS = 1_000_000_000
_SHED = 503
_HEAD_START_NS = 20_000_000  # between the opening of the connections and the first request


@dataclass(slots=True)
class FixedRateResult:
    """What one run saw; times in ns, of requests due inside the measured window.

    ``dues`` is when the accepted ones were due (perf_counter). ``latencies`` and ``shed`` (503) count from the intended
    send time, ``services`` from the actual one, of the same answers as ``latencies``. ``lags``: how late the
    generator noticed each request. ``waited`` requests found no free connection. ``no_retry_after`` (503 without the
    field) and ``failures`` cover the whole run, ramp included.
    """

    seconds: float
    rate: float
    scheduling: str = ""
    dues: list[int] = field(default_factory=list)
    latencies: list[int] = field(default_factory=list)
    services: list[int] = field(default_factory=list)
    shed: list[int] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)
    waited: int = 0
    no_retry_after: int = 0
    reconnects: int = 0
    failures: Counter[str] = field(default_factory=Counter)


class Run:
    """The schedule, and the connections that are free."""

    def __init__(self, address: tuple[str, int], result: FixedRateResult, ramp_s: float) -> None:
        self.address = address
        self.result = result
        self.loop = asyncio.get_running_loop()
        self.total = round((ramp_s + result.seconds) * result.rate)
        self.first_measured = round(ramp_s * result.rate)
        self.noticed = 0  # requests that were due so far
        self.missing = self.total  # requests without an outcome
        self.open = 0
        self.due: deque[int] = deque()  # numbers of the requests that wait for a connection
        self.free: deque[Connection] = deque()
        self.connections: set[Connection] = set()
        self.over = asyncio.Event()
        self.start_ns = 0

    def begin(self) -> None:
        """Start the schedule now that the connections are open."""
        self.start_ns = perf_counter_ns() + _HEAD_START_NS
        self._arm()

    def due_ns(self, number: int) -> int:
        """Return when a request is meant to be sent."""
        return self.start_ns + int(number * _NS / self.result.rate)

    def measured(self, number: int) -> bool:
        """Return whether a request is due after the ramp."""
        return number >= self.first_measured

    def settle(self) -> None:
        """Note that one more request has its outcome."""
        self.missing -= 1
        if self.missing == 0:
            self.over.set()

    def fail(self, reason: str) -> None:
        """Note that a request will have no answer."""
        self.result.failures[reason] += 1
        self.settle()

    def _arm(self) -> None:
        if self.noticed < self.total:
            self.loop.call_later(max(self.due_ns(self.noticed) - perf_counter_ns(), 0) / _NS, self._tick)

    def _tick(self) -> None:
        """Send what is due by now, and what cannot be sent let wait."""
        now = perf_counter_ns()
        while self.noticed < self.total and (due := self.due_ns(self.noticed)) <= now:
            if self.measured(self.noticed):
                self.result.lags.append(now - due)
                self.result.waited += not self.free
            self.due.append(self.noticed)
            self.noticed += 1
        self.dispatch()
        self._arm()

    def dispatch(self) -> None:
        """Send what is due over what is free, the oldest first."""
        while self.due and self.free:
            self.free.popleft().send(self.due.popleft())
        while self.due and not self.open:
            self.due.popleft()
            self.fail("no connection left")

    def end(self) -> None:
        """Give up every connection; none is opened any more."""
        self.over.set()
        for connection in self.connections.copy():
            connection.abandon()

    async def connect(self, source: Source) -> None:
        """Open a connection for ``source``; without one its share falls to the others."""
        try:
            await self.loop.create_connection(lambda: Connection(self, source), *self.address)
        except OSError as error:
            self.result.failures[f"connect: {error.strerror or error}"] += 1
            self.open -= 1
            self.dispatch()


class Connection(asyncio.Protocol):
    """One connection: at most one request under way."""

    __slots__ = ("_buffer", "_number", "_run", "_sent_ns", "_source", "_transport")
    _transport: asyncio.Transport

    def __init__(self, run: Run, source: Source) -> None:
        self._run = run
        self._source = source
        self._buffer = b""
        self._number: int | None = None
        self._sent_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Offer itself to the schedule."""
        self._transport = transport  # type: ignore[assignment]  # create_connection gives a read-write Transport
        self._run.connections.add(self)
        self._run.free.append(self)
        self._run.dispatch()

    def send(self, number: int) -> None:
        """Send the request with this number in the schedule."""
        request = self._source.next_request()
        if request is None:
            self._run.due.appendleft(number)  # another connection's turn
            self._run.open -= 1
            self.abandon()
            return
        self._number = number
        self._sent_ns = perf_counter_ns()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Take the answer, or a part of it."""
        now = perf_counter_ns()
        data = self._buffer + data
        try:
            response = parse_response(data)
        except ResponseError as error:
            self._fail(f"malformed: {error}")
            return
        if response is None:
            self._buffer = data
            return
        self._buffer = b""
        number = self._number
        if number is None:
            self._fail("an answer nobody asked for")
            return
        self._number = None
        status, body, keep_alive = response
        self._record(number, now, accepted=self._source.accept(status, body), status=status, data=data)
        if keep_alive:
            self._run.free.append(self)
        else:
            self._transport.close()
        self._run.settle()
        self._run.dispatch()

    def _record(self, number: int, now: int, *, accepted: bool, status: int, data: bytes) -> None:
        run, result = self._run, self._run.result
        if not accepted and status != _SHED:
            result.failures[f"unexpected answer, status {status}"] += 1
            return
        if not accepted and not has_retry_after(data):
            result.no_retry_after += 1
        if run.measured(number):
            if accepted:
                result.dues.append(run.due_ns(number))
                result.services.append(now - self._sent_ns)
            (result.latencies if accepted else result.shed).append(now - run.due_ns(number))

    def connection_lost(self, exc: Exception | None) -> None:
        """Replace a connection that the server closed, as often as there are requests at most."""
        run = self._run
        if self not in run.connections:
            return  # given up by us
        self._forget()
        if self._number is not None:
            self._number = None
            run.fail("connection lost before the answer")
        run.result.reconnects += 1
        if not run.over.is_set() and run.result.reconnects <= run.total:
            run.loop.create_task(run.connect(self._source))
        else:
            run.open -= 1

    def _fail(self, reason: str) -> None:
        """Count a broken answer and replace the connection, whose state nobody knows."""
        waiting, self._number = self._number is not None, None
        if waiting:
            self._run.fail(reason)
        else:
            self._run.result.failures[reason] += 1
        if self in self._run.free:
            self._run.free.remove(self)
        self._transport.abort()

    def _forget(self) -> None:
        self._run.connections.discard(self)
        if self in self._run.free:
            self._run.free.remove(self)

    def abandon(self) -> None:
        """Give the connection up; what it still waits for has been counted."""
        self._forget()
        self._transport.abort()


def has_retry_after(data: bytes) -> bool:
    """Return whether a whole response has Retry-After in seconds, 1 or more (RFC 9110 §10.2.3)."""
    head = data.partition(b"\r\n\r\n")[0].lower()
    value = head.partition(b"\r\nretry-after:")[2].partition(b"\r\n")[0].strip()
    return value.isdigit() and int(value) >= 1
