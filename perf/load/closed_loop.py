"""A closed-loop HTTP/1.1 load generator on uvloop Protocols: each connection sends, waits, checks, sends again.

It only talks to loopback addresses and always stops by itself. ``python -m perf.load`` makes a small wrk of it.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns

import uvloop

from perf.http_client import ResponseError, parse_response, refuse_remote
from perf.load.sources import Source

MAX_SECONDS = 600.0  # longest run: a forgotten one ends within ten minutes
DRAIN_S = 10.0  # how long answers still outstanding at the end are waited for; none may be lost
MAX_RECONNECTS = 1_000  # a server that closes every connection must not make the run endless
_NS = 1_000_000_000
_SHED = 503


@dataclass(slots=True)
class LoadResult:
    """What one run saw. Latencies are of accepted answers inside the measured window, in ns, as they came.

    ``failures`` (reason → count) and ``shed`` (503 answers) cover the whole run, ramp and drain included.
    """

    seconds: float
    latencies_ns: list[int] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    shed: int = 0
    reconnects: int = 0

    @property
    def rate(self) -> float:
        """Accepted answers per second."""
        return len(self.latencies_ns) / self.seconds


class _Run:
    """The state the connections of one run share."""

    def __init__(self, address: tuple[str, int], *, seconds: float, ramp_s: float) -> None:
        self.address = address
        self.result = LoadResult(seconds)
        self.loop = asyncio.get_running_loop()
        self.start_ns = perf_counter_ns() + int(ramp_s * _NS)
        self.stop_ns = self.start_ns + int(seconds * _NS)
        self.open = 0
        self.over = asyncio.Event()
        self.connections: set[_Connection] = set()

    async def connect(self, source: Source) -> None:
        try:
            await self.loop.create_connection(lambda: _Connection(self, source), *self.address)
        except OSError as error:
            self.result.failures[f"connect: {error.strerror or error}"] += 1
            self.leave()

    def reconnect(self, source: Source) -> None:
        """Replace a connection the server closed, until the run is over or it happened too often."""
        if perf_counter_ns() < self.stop_ns and self.result.reconnects < MAX_RECONNECTS:
            self.result.reconnects += 1
            self.loop.create_task(self.connect(source))
        else:
            self.leave()

    def leave(self) -> None:
        self.open -= 1
        if self.open == 0:
            self.over.set()


class _Connection(asyncio.Protocol):
    """One connection: at most one request under way."""

    __slots__ = ("_buffer", "_done", "_run", "_sent_ns", "_source", "_transport", "_waiting")
    _transport: asyncio.Transport

    def __init__(self, run: _Run, source: Source) -> None:
        self._run = run
        self._source = source
        self._buffer = b""
        self._sent_ns = 0
        self._waiting = False
        self._done = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._run.connections.add(self)
        self._transport = transport  # type: ignore[assignment]  # create_connection gives a read-write Transport
        self._send()

    def data_received(self, data: bytes) -> None:
        now = perf_counter_ns()
        if self._buffer:
            data = self._buffer + data
            self._buffer = b""
        try:
            response = parse_response(data)
        except ResponseError as error:
            self._fail(f"malformed: {error}")
            return
        if response is None:
            self._buffer = data
            return
        self._waiting = False
        status, body, keep_alive = response
        run = self._run
        if self._source.accept(status, body):
            if run.start_ns <= now < run.stop_ns:
                run.result.latencies_ns.append(now - self._sent_ns)
        elif status == _SHED:
            run.result.shed += 1
        else:
            run.result.failures[f"unexpected answer, status {status}"] += 1
        if keep_alive:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._run.connections.discard(self)
        if self._done:
            return
        self._done = True
        if self._waiting:
            self._run.result.failures["connection lost before the answer"] += 1
        self._run.reconnect(self._source)

    def _send(self) -> None:
        now = perf_counter_ns()
        request = self._source.next_request() if now < self._run.stop_ns else None
        if request is None:
            self._leave()
            return
        self._waiting = True
        self._sent_ns = now
        self._transport.write(request)

    def _fail(self, reason: str) -> None:
        self._run.result.failures[reason] += 1
        self._waiting = False
        self._leave()

    def _leave(self) -> None:
        self.abandon()
        self._run.leave()

    def abandon(self) -> None:
        """Give the connection up; what it still waits for has been counted."""
        self._done = True
        self._transport.abort()


async def drive(
    address: tuple[str, int],
    sources: Sequence[Source],
    *,
    seconds: float,
    ramp_s: float = 0.0,
    drain_s: float = DRAIN_S,
    observe: Callable[[], None] | None = None,
) -> LoadResult:
    """Run one connection per source for ``ramp_s + seconds``; answers in the last ``seconds`` are measured.

    Ends early when every source is exhausted (the result's ``seconds`` is not shortened). Answers still missing
    ``drain_s`` after the end are failures. ``observe`` is called when the measured window begins and ends.

    Raises:
        ValueError: the address is not loopback, there is no source, or the run would last over ``MAX_SECONDS``.
    """
    refuse_remote(address)
    if not sources or not 0 < seconds + ramp_s <= MAX_SECONDS:
        raise ValueError(f"give at least one connection and a duration of at most {MAX_SECONDS:.0f} s")
    gc.collect()  # before the clock starts: a big heap takes longer than a short run
    run = _Run(address, seconds=seconds, ramp_s=ramp_s)
    run.open = len(sources)
    if observe is not None:
        run.loop.call_later(ramp_s, observe)
        run.loop.call_later(ramp_s + seconds, observe)
    gc.disable()  # a collection over the growing list of latencies would show up as server latency
    try:
        async with asyncio.timeout(ramp_s + seconds + drain_s):
            await asyncio.gather(*(run.connect(source) for source in sources))
            await run.over.wait()
    except TimeoutError:
        run.result.failures[f"no answer within {drain_s:.0f} s of the end"] += run.open
    finally:
        gc.enable()
        for connection in run.connections.copy():
            connection.abandon()
    return run.result


def run_load(
    address: tuple[str, int],
    sources: Sequence[Source],
    *,
    seconds: float,
    ramp_s: float = 0.0,
    drain_s: float = DRAIN_S,
    observe: Callable[[], None] | None = None,
) -> LoadResult:
    """Do ``drive`` on a uvloop of its own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        run = drive(address, sources, seconds=seconds, ramp_s=ramp_s, drain_s=drain_s, observe=observe)
        return runner.run(run)
