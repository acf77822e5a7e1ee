"""The fixed-rate load generator against a tiny real server with scripted answers."""

import itertools
import os
import time

import pytest

from perf.load.__main__ import describe
from perf.load.fixed_rate import FixedRateResult, drive_fixed, has_retry_after, run_fixed, urgent
from perf.load.sources import Constant, get
from perf.tests.test_load import Answer, answer, serving

BUSY = b"HTTP/1.1 503 X\r\nRetry-After: 4\r\nContent-Length: 0\r\n\r\n"
MS = 1_000_000


async def load(
    respond: Answer, *, rate: float = 50, seconds: float = 0.4, connections: int = 2, drain_s: float = 5.0
) -> FixedRateResult:
    """Load a scripted server at a fixed rate."""
    async with serving(respond) as address:
        sources = [Constant(get("/", "x")) for _ in range(connections)]
        return await drive_fixed(address, sources, rate=rate, seconds=seconds, drain_s=drain_s)


async def test_what_is_due_is_sent_whatever_the_answers() -> None:
    """As many requests as are due have an outcome, each with its latency, its service time and the generator's lag."""
    result = await load(lambda number: [answer(200)])
    assert len(result.latencies) == len(result.services) == len(result.lags) == len(result.dues) == 20
    assert {later - due for due, later in itertools.pairwise(sorted(result.dues))} == {20 * MS}
    assert all(0 < service <= latency for service, latency in zip(result.services, result.latencies, strict=True))
    assert (result.failures, result.shed, result.reconnects) == ({}, [], 0)
    assert result.scheduling


async def test_waiting_for_a_stalled_server_counts() -> None:
    """While one answer takes 0.3 s, the requests that became due wait, and their latencies say so."""

    def stall(number: int) -> list[bytes]:
        if number == 3:
            time.sleep(0.3)
        return [answer(200)]

    result = await load(stall, rate=100, connections=1)
    slow = [latency for latency in result.latencies if latency > 100 * MS]
    assert len(result.latencies) == 40
    assert len(slow) > 15  # a closed loop would have reported one
    assert sum(service > 100 * MS for service in result.services) == 1
    assert result.waited + sum(lag > 100 * MS for lag in result.lags) > 15  # the server shares this thread


async def test_refusals_are_timed_apart() -> None:
    """503 is neither accepted nor a failure; one without Retry-After is counted."""
    result = await load(lambda number: [BUSY if number % 2 else answer(503)])
    assert not result.latencies
    assert len(result.shed) == 20
    assert result.no_retry_after == 10
    assert not result.failures


@pytest.mark.parametrize(
    ("head", "there"),
    [
        (b"Retry-After: 4", True),
        (b"retry-after:12", True),
        (b"Retry-After: 0", False),
        (b"Retry-After: soon", False),
        (b"X-Retry-After: 4", False),
        (b"Content-Length: 4\r\n\r\nRetry-After: 4", False),
    ],
)
def test_only_seconds_in_the_head_are_a_retry_after(head: bytes, there: bool) -> None:
    """The field must be in the head, by its own name, with at least a second."""
    assert has_retry_after(b"HTTP/1.1 503 X\r\n" + head + b"\r\n\r\n") is there


async def test_wrong_answers_and_lost_connections_are_failures() -> None:
    """A wrong status, another body and a closed connection are failures; the connection is replaced."""
    script = {1: [answer(500)], 2: [answer(200, b"no")], 4: []}
    result = await load(lambda number: script.get(number, [answer(200)]), connections=1)
    assert result.failures["unexpected answer, status 500"] >= 1
    assert result.failures["unexpected answer, status 200"] >= 1
    assert result.failures["connection lost before the answer"] >= 1
    assert result.reconnects >= 1
    assert len(result.latencies) + result.failures.total() == 20


async def test_a_broken_answer_is_a_failure_and_its_connection_is_replaced() -> None:
    """What cannot be parsed is a failure with its reason; the next request gets a new connection."""
    result = await load(lambda number: [b"nonsense\r\n\r\n"])
    assert result.failures == {"malformed: not an HTTP/1.1 status line": 20}
    assert result.reconnects >= 18  # the last ones end with the run


async def test_a_connection_closed_after_its_answer_is_replaced() -> None:
    """Connection: close is the server's right."""
    result = await load(lambda number: [answer(200, close=True)])
    assert len(result.latencies) == 20
    assert not result.failures


async def test_silence_is_a_failure_for_every_request_and_the_run_ends() -> None:
    """All that is due is missing after the drain time, also what was never sent."""
    result = await load(lambda number: [b"HTTP/1.1 200 OK\r\n"], drain_s=0.1)
    assert result.failures == {"no answer within 0 s of the end": 20}


async def test_without_a_server_nothing_is_sent() -> None:
    """Refused connections are failures, and the run ends at once."""
    async with serving(lambda number: []) as address:
        pass
    result = await drive_fixed(address, [Constant(get("/", "x"))], rate=1, seconds=600)
    assert list(result.failures.values()) == [1]
    assert describe(result)[-1] == "Nothing was sent."


async def test_exhausted_sources_leave_failures() -> None:
    """What is due when every source has ended is a failure, not forgotten."""

    class Twice(Constant):
        left = 2

        def next_request(self) -> bytes:
            self.left -= 1
            return super().next_request() if self.left >= 0 else None  # type: ignore[return-value]  # ends the source

    async with serving(lambda number: [answer(200)]) as address:
        result = await drive_fixed(address, [Twice(get("/", "x")) for _ in range(2)], rate=100, seconds=0.1)
    assert len(result.latencies) == 4
    assert result.failures == {"no connection left": 6}


async def test_the_ramp_is_not_measured() -> None:
    """Requests due before the window count for nothing but their failures."""
    async with serving(lambda number: [answer(200 if number else 500)]) as address:
        result = await drive_fixed(address, [Constant(get("/", "x"))], rate=50, seconds=0.2, ramp_s=0.2)
    assert result.failures == {"unexpected answer, status 500": 1}
    assert len(result.latencies) == len(result.lags) == 10


@pytest.mark.parametrize(
    ("host", "rate", "seconds"),
    [("192.0.2.1", 1, 1), ("127.0.0.1", 0, 1), ("127.0.0.1", 1, 601), ("127.0.0.1", 30_000, 1), ("127.0.0.1", 1, 0.1)],
)
def test_other_machines_and_endless_runs_are_refused(host: str, rate: float, seconds: float) -> None:
    """The load generator only ever loads its own machine, for a bounded time, with at least one request."""
    with pytest.raises(ValueError, match=r"loopback|at most|not one"):
        run_fixed((host, 9), [Constant(get("/", "x"))], rate=rate, seconds=seconds)


def test_its_own_priority_ends_with_it() -> None:
    """Whatever is permitted, the scheduling afterwards is the one before, and one is told what it was."""
    before = os.sched_getscheduler(0)
    with urgent() as scheduling:
        assert "priority" in scheduling
    assert os.sched_getscheduler(0) == before


def test_a_generator_that_is_late_says_so() -> None:
    """Latencies that are the generator's own are reported as such."""
    result = FixedRateResult(1, 2, "normal priority", latencies=[3 * MS, 4 * MS], services=[MS, MS], lags=[2 * MS, MS])
    assert "THE GENERATOR IS LATE (p99 2.0 ms)" in "\n".join(describe(result))
    result.lags = [MS // 10]
    assert "LATE" not in "\n".join(describe(result))
