"""An open-loop HTTP/1.1 load generator: requests are due at fixed times, however slowly answers come.

A closed loop stops asking while the server stalls and so measures one slow answer where clients would have seen many
(coordinated omission). Here every latency counts from the moment the request was *due*: the n-th is due n / rate
seconds after the start, the connection free for longest sends it, and when none is free it waits, and that counts.

The generator must not be what is measured. It runs on plain asyncio over ``select()``, whose timeouts are in
microseconds (epoll's, and so uvloop's, in milliseconds), and where it may (root, CAP_SYS_NICE) at the lowest real-time
priority: as if it were on another machine, it never waits for a time slice behind the server's own threads, and takes
about 0.2 ms of CPU time for each request. How late it noticed that a request was due is measured and reported: its lag.

It only talks to loopback addresses and always stops by itself. ``python -m perf.load URL --rate 200`` is the command.
"""

import asyncio
import gc
import os
import selectors
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter_ns

from perf.http_client import ResponseError, parse_response, refuse_remote
from perf.load.closed_loop import MAX_SECONDS
from perf.load.sources import Source

DRAIN_S = 10.0  # how long answers still missing after the last request was due are waited for
MAX_CONNECTIONS = 900  # select() takes file descriptors below 1,024
MAX_RATE = 20_000.0  # requests/s; far above what one Python process can send: its lag shows that long before


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


async def drive_fixed(
    address: tuple[str, int],
    sources: Sequence[Source],
    *,
    rate: float,
    seconds: float,
    ramp_s: float = 0.0,
    drain_s: float = DRAIN_S,
) -> FixedRateResult:
    """Send ``rate`` requests per second for ``ramp_s + seconds`` over one connection per source.

    Those due in the last ``seconds`` are measured. What has no answer ``drain_s`` after the last was due is a failure.

    Raises:
        ValueError: the address is not loopback, or a figure is outside of its bounds.
    """
    refuse_remote(address)
    _refuse_excess(connections=len(sources), seconds=seconds + ramp_s, rate=rate)
    result = FixedRateResult(seconds, rate)
    run = Run(address, result, ramp_s)
    if not run.total:
        raise ValueError("not one request is due in that time: raise the rate or the duration")
    run.open = len(sources)
    gc.collect()
    gc.disable()  # a collection would show up as server latency
    try:
        await asyncio.gather(*(run.connect(source) for source in sources))
        if not run.open:
            return result
        with urgent() as result.scheduling:
            run.begin()
            async with asyncio.timeout(ramp_s + seconds + drain_s):
                await run.over.wait()
    except TimeoutError:
        result.failures[f"no answer within {drain_s:.0f} s of the end"] += run.missing
    finally:
        gc.enable()
        run.end()
    return result


def _refuse_excess(*, connections: int, seconds: float, rate: float) -> None:
    """Raise ``ValueError`` for a run that is empty, or larger than this generator can or may make."""
    if not 0 < connections <= MAX_CONNECTIONS or not 0 < seconds <= MAX_SECONDS or not 0 < rate <= MAX_RATE:
        raise ValueError(
            f"give 1 to {MAX_CONNECTIONS} connections, a duration of at most {MAX_SECONDS:.0f} s, "
            f"and a rate of at most {MAX_RATE:,.0f}/s"
        )


def run_fixed(
    address: tuple[str, int], sources: Sequence[Source], *, rate: float, seconds: float, ramp_s: float = 0.0
) -> FixedRateResult:
    """Do ``drive_fixed`` on a loop whose timers are exact to microseconds."""
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        return runner.run(drive_fixed(address, sources, rate=rate, seconds=seconds, ramp_s=ramp_s))


def precise_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop over ``select()``, the one call here whose timeout is not rounded to milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


@contextmanager
def urgent() -> Iterator[str]:
    """Run the calling thread before everything of normal priority, where that is permitted; yields what came of it.

    Real-time, because a niceness only counts within a session (autogroups, sched(7)) or control group.
    """
    before = os.sched_getscheduler(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        yield "normal priority: waits behind other threads' time slices are in the latencies"
        return
    try:
        yield "real-time priority"
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))
