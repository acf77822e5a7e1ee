"""The limits, tried on a real server as far as that is quick, and what the command says about what it saw."""

import asyncio
import os
import signal
import time
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from itertools import repeat

import pytest

from conftest import ServeProcess
from perf.limits.__main__ import Crowded, beside
from perf.limits.boundaries import AT_ONCE_S, Case, Outcome, try_all, wrong
from perf.limits.client import SILENT, End, connected, whole
from perf.limits.crowds import PING, Crowd, silent
from perf.limits.hash_queue import Scene, Way, sign_in_at_a_rate
from perf.limits.pool import Refusals, Witnessed
from perf.limits.report import finding

REFUSED = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\r\n"
SEEN = Witnessed(100, 1.0, 5.0, {}, 0)


@pytest.mark.live
def test_every_bound_holds_on_both_sides(serve_process: ServeProcess) -> None:
    """The whole list, against the server as it is started."""
    address = ("127.0.0.1", int(serve_process().rsplit(":", 1)[1]))
    outcomes = asyncio.run(try_all(address))
    assert wrong(outcomes) == []
    assert len(outcomes) > 25


def test_an_interruption_waits_for_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C ends the ordinary client's process without a traceback, and the command does not wait for what it does."""
    with ExitStack() as stack:
        processes = beside(stack)
        os.kill(processes.submit(os.getpid).result(), signal.SIGINT)
        with pytest.raises(BrokenProcessPool):
            processes.submit(time.sleep, 60).result()
    with ExitStack() as stack:
        asked = beside(stack).submit(time.sleep, 60)
    assert isinstance(asked.exception(), BrokenProcessPool)
    assert capfd.readouterr().err == ""


def test_a_client_notes_how_it_ended() -> None:
    """Answers are told apart from words about them; a server's silence, and its end, have names."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        if b"silence" not in asked:
            writer.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 16\r\n\r\nnot HTTP/1.1 req")
        writer.close()

    async def ask(request: bytes) -> End:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server, connected(server.sockets[0].getsockname()) as client:
            await client.send_slowly(repeat(request, 1), every_s=0.01)
            return await client.end()

    end = asyncio.run(ask(PING))
    assert (end.how, end.answers) == ("408", 1)
    assert asyncio.run(ask(b"silence\r\n\r\n")).how == SILENT
    with pytest.raises(ValueError, match="not a loopback address"):
        asyncio.run(silent(("192.0.2.1", 80), 1))


@pytest.mark.parametrize(
    ("received", "is_whole"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nO", False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK", True),
        (b"HTTP/1.1 100 Continue\r\n\r\n", False),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\n", False),
    ],
)
def test_a_whole_answer_is_known(received: bytes, is_whole: bool) -> None:
    """By the length it says; an interim one is none."""
    assert whole(received) is is_whole


@pytest.mark.parametrize(("seconds", "count"), [(9.4, 1), (9.6, 0), (13.9, 0), (14.1, 1)])
def test_a_crowd_must_end_in_time(seconds: float, count: int) -> None:
    """Not before the limit, and not long after it."""
    crowd = Crowd("silent", silent, 1, (SILENT,), 10.0, 11.0)
    assert crowd.wrong([End(SILENT, seconds)]) == count
    assert crowd.wrong([End("200", 10.5)]) == 1


def test_what_does_not_hold_is_told() -> None:
    """A bound, an end, a client that was not served, memory that stays, and a refusal that comes late or unclear."""
    case = Case("a bound", b"", ("431",))
    crowd = Crowd("silent", silent, 2, (SILENT,), 10.0, 10.0)
    good = Crowded(crowd, [End(SILENT, 10.0)], 100.0, 110.0, 101.0, SEEN)
    bad = Crowded(crowd, [End("still open", 100.0)], 100.0, 300.0, 200.0, SEEN._replace(shed=1, p99_ms=900.0))
    held = Refusals("held", [End("503", 1.5, 1, REFUSED)], 0.1, SEEN, 8.0)
    late = held._replace(ends=[End("503", 2.1, 1, REFUSED)], recovered_s=6.0)
    silent_one = held._replace(
        ends=[End("503", 1.5, 1, b"HTTP/1.1 503 \r\n\r\n")], beside=SEEN._replace(failures={"x": 1})
    )

    def missed(outcome: Outcome, crowded: Crowded, refusals: Refusals, *others: Crowded) -> int:
        found = finding([outcome], [crowded, *others], [refusals], missing="", requests=768, connections=896)
        return sum(not check.met for check in found.checks)

    right, wrong_one = Outcome(case, "431", 0.1, 1), Outcome(case, "200", AT_ONCE_S, 1)
    assert missed(right, good, held) == 0
    assert missed(wrong_one, good, held) == 1
    assert missed(right, bad, held) == 5
    assert missed(right, good, late) == 3
    assert missed(right, good, silent_one) == 2
    full = bad._replace(crowd=Crowd("full", silent, 2, ("still open",), 100.0, 100.0, full=True, busy=True))
    assert missed(right, full, held) == 2  # memory alone
    keeps = good._replace(after_mib=124.0)
    assert missed(right, keeps, held, good, good) == 0
    assert missed(right, keeps._replace(after_mib=124.1), held, good, good) == 1


def test_a_hash_queue_that_keeps_somebody_out_is_told() -> None:
    """One 503, one other failure, or a p95 over 1.5 s of the other client's sign-ins is a check that is not met."""

    def missed(*seen: tuple[int, float]) -> int:
        scene = Scene("direct", 1, {200: 5, 503: 90}, seen)
        found = finding([], [], [], [scene], missing="none", requests=768, connections=896)
        assert found.tables[-1].rows[0][:4] == ["direct", "1", "200: 5, 503: 90", str(len(seen))]
        return sum(not check.met for check in found.checks)

    good = [(200, 1.5)] * 40
    assert missed(*good) == 0
    assert missed(*good, (503, 0.1)) == 1
    assert missed(*good, (429, 0.1)) == 1
    assert missed(*good[:38], (200, 1.6), (200, 1.6)) == 1
    assert missed(*good[:39], (200, 1.6)) == 0
    assert missed() == 1  # who saw nothing proves nothing


@pytest.mark.live
def test_other_networks_sign_in_beside_a_flood(serve_process: ServeProcess, signing_key: str) -> None:
    """The client at another address is answered at the rate it asks; what is refused is what it is told."""
    way = Way("direct", int(serve_process().rsplit(":", 1)[1]))
    seen = sign_in_at_a_rate(way, time.monotonic(), 1.0)
    assert [status for status, _ in seen] == [401, 401]  # nobody is seeded here
    assert all(0 < seconds < 10 for _, seconds in seen)
