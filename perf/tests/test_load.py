"""The load generator against a tiny real server with scripted answers."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from perf.load.closed_loop import LoadResult, drive
from perf.load.sources import Constant, Refresh, SignUp, get

type Answer = Callable[[int], list[bytes]]  # request number on its connection, from 0 → pieces; [] closes


def answer(status: int, body: bytes = b"ok", *, close: bool = False) -> bytes:
    """Build a response."""
    extra = "Connection: close\r\n" if close else ""
    return f"HTTP/1.1 {status} X\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def serving(respond: Answer, requests: list[bytes] | None = None) -> AsyncIterator[tuple[str, int]]:
    """Serve on a free loopback port; the pieces of an answer leave in packets of their own."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in itertools.count():
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            if requests is not None:
                requests.append(head)
            pieces = respond(number)
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0.001)
            if not pieces or b"Connection: close" in pieces[0]:
                break
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[:2]


async def load(respond: Answer, *, connections: int = 2, drain_s: float = 5.0) -> LoadResult:
    """Load a scripted server for a second: long enough that a busy machine still answers some."""
    async with serving(respond) as address:
        sources = [Constant(get("/", "x")) for _ in range(connections)]
        return await drive(address, sources, seconds=1.0, drain_s=drain_s)


async def test_accepted_answers_are_counted_and_timed() -> None:
    """Every right answer has a latency, and nothing else is reported."""
    result = await load(lambda number: [answer(200)])
    assert len(result.latencies_ns) > 10
    assert min(result.latencies_ns) > 0
    assert result.rate == len(result.latencies_ns) / 1.0
    assert (result.failures, result.shed, result.reconnects) == ({}, 0, 0)


async def test_a_slow_collection_of_garbage_is_not_inside_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a big heap costs before the first request is not taken from the measured window."""
    monkeypatch.setattr("perf.load.closed_loop.gc.collect", lambda: time.sleep(1.2))
    result = await load(lambda number: [answer(200)])
    assert len(result.latencies_ns) > 10


async def test_an_answer_in_pieces_is_one_answer() -> None:
    """The network may cut an answer anywhere."""
    result = await load(lambda number: [answer(200)[:9], answer(200)[9:30], answer(200)[30:]])
    assert result.latencies_ns
    assert not result.failures


async def test_an_unexpected_status_is_a_failure() -> None:
    """A wrong status is counted as such, never as a request served."""
    result = await load(lambda number: [answer(500 if number == 1 else 200)])
    assert result.failures == {"unexpected answer, status 500": 2}


async def test_another_body_is_a_failure() -> None:
    """A constant workload whose answer changes is not measuring what it says."""
    result = await load(lambda number: [answer(200, b"no" if number == 1 else b"ok")])
    assert result.failures == {"unexpected answer, status 200": 2}


async def test_shed_requests_are_counted_apart() -> None:
    """503 is the server's own refusal: neither served nor a failure."""
    result = await load(lambda number: [answer(503 if number == 1 else 200)])
    assert (result.shed, result.failures) == (2, {})


async def test_a_broken_answer_ends_its_connection_as_a_failure() -> None:
    """What cannot be parsed is a failure with its reason."""
    result = await load(lambda number: [b"nonsense\r\n\r\n"])
    assert result.failures == {"malformed: not an HTTP/1.1 status line": 2}


async def test_a_connection_lost_while_waiting_is_a_failure() -> None:
    """A request without an answer is never forgotten, and the load goes on over a new connection."""
    result = await load(lambda number: [answer(200)] if number < 5 else [])
    assert result.failures["connection lost before the answer"] >= result.reconnects > 0
    assert result.latencies_ns


async def test_a_connection_closed_after_its_answer_is_replaced() -> None:
    """Connection: close is the server's right: the next request takes a new connection."""
    result = await load(lambda number: [answer(200, close=True)])
    assert len(result.latencies_ns) > 10
    assert abs(result.reconnects - len(result.latencies_ns)) <= 2  # the last answer of each connection
    assert not result.failures


async def test_silence_is_a_failure_and_the_run_ends() -> None:
    """A server that never answers costs the drain time, then each waiting connection is a failure."""
    result = await load(lambda number: [b"HTTP/1.1 200 OK\r\n"], drain_s=0.1)
    assert result.failures == {"no answer within 0 s of the end": 2}


async def test_a_refused_connection_is_a_failure() -> None:
    """No server means failures, not an error or an endless run."""
    async with serving(lambda number: []) as address:
        pass
    result = await drive(address, [Constant(get("/", "x"))], seconds=1.0)
    assert list(result.failures.values()) == [1]


async def test_the_ramp_is_not_measured() -> None:
    """Answers before the window count for nothing but their failures; the window's ends are observed."""
    seen: list[float] = []
    loop = asyncio.get_running_loop()
    async with serving(lambda number: [answer(200 if number else 500)]) as address:
        began = loop.time()
        result = await drive(
            address,
            [Constant(get("/", "x"))],
            seconds=1.0,
            ramp_s=1.0,
            observe=lambda: seen.append(loop.time() - began),
        )
    assert result.failures == {"unexpected answer, status 500": 1}
    assert 1.0 <= seen[0] < seen[1]
    assert seen[1] >= 2.0
    assert result.latencies_ns


async def test_a_run_ends_when_its_sources_do() -> None:
    """Exhausted sources end the run before its time."""

    class Once(Constant):
        left = 3

        def next_request(self) -> bytes:
            self.left -= 1
            return super().next_request() if self.left >= 0 else None  # type: ignore[return-value]  # ends the source

    async with serving(lambda number: [answer(200)]) as address, asyncio.timeout(5):
        result = await drive(address, [Once(get("/", "x"))], seconds=60)
    assert len(result.latencies_ns) == 3


@pytest.mark.parametrize(("host", "seconds"), [("192.0.2.1", 1.0), ("127.0.0.1", 601.0), ("127.0.0.1", 0.0)])
async def test_other_machines_and_endless_runs_are_refused(host: str, seconds: float) -> None:
    """The load generator only ever loads its own machine, for a bounded time."""
    with pytest.raises(ValueError, match=r"loopback|at most"):
        await drive((host, 9), [Constant(get("/", "x"))], seconds=seconds)


def test_refresh_sends_the_token_it_was_given_last() -> None:
    """Each answer's refresh token is the next request's; the same token again is a failure."""
    source = Refresh("x", "first")
    assert b'{"refresh_token":"first"}' in source.next_request()
    assert source.accept(200, b'{"access_token":"a","refresh_token":"second","expires_in":600}')
    assert b'{"refresh_token":"second"}' in source.next_request()
    assert not source.accept(200, b'{"access_token":"a","refresh_token":"second"}')
    assert not source.accept(401, b"{}")
    assert not source.accept(200, b"not JSON")


def test_sign_ups_never_repeat_an_address() -> None:
    """Connections that share their serials sign up different people, and only a 201 naming them counts."""
    serials = itertools.count()
    first, second = (SignUp("x", serials, "new-", "secret") for _ in range(2))
    assert first.next_request() != second.next_request() != first.next_request()
    assert first.accept(201, b'{"email":"new-2@bench.example"}')
    assert not first.accept(201, b'{"email":"new-1@bench.example"}')
    assert not first.accept(409, b'{"email":"new-2@bench.example"}')
