"""The faults suite: its proxy does what it says, its judge finds each broken promise, and what it reports."""

import asyncio
import base64
import json
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perf.faults import __main__ as run
from perf.faults import cases
from perf.faults.cases import CASES, fill_volume
from perf.faults.checker import Allowed, Checker
from perf.faults.clocked import shift
from perf.faults.proxy import Mode, TcpProxy
from perf.faults.report import finding
from perf.faults.site import to_its_end
from perf.faults.stage import Outcome
from perf.faults.wire import holder
from perf.findings import Check, Record, save
from perf.rig.machine import describe

BOUND_S, GRACE_S = 5.0, 10.0


def refresh_token(generation: int, mac: bytes = b"m") -> str:
    """Return a text of the form of a refresh token of that generation."""
    raw = bytes(16) + generation.to_bytes(4, "big") + mac * 32
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def access_token(kid: str) -> str:
    """Return a text of the form of an access token signed with that key."""
    head, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in ({"kid": kid}, {"sid": "s"}))
    return f"{head}.{body}.signature"


@pytest.fixture
def checker() -> Checker:
    """A judge who allows nothing."""
    return Checker(bound_s=BOUND_S, grace_s=GRACE_S)


TOKEN = access_token("k1")
type Step = Callable[[Checker], None]


def losing(checker: Checker) -> None:
    """Allow connections to break."""
    checker.begin(Allowed(losing=True))


def spotless(checker: Checker) -> None:
    """Allow no refusal."""
    checker.begin(Allowed(spotless=True))


def clocks_apart(checker: Checker) -> None:
    """Allow sessions to end."""
    checker.begin(Allowed(ending="the clocks differ"))


# How each promise is broken, and the same thing as it is allowed.
VIOLATIONS: dict[str, tuple[list[Step], list[Step]]] = {
    "a 500": ([lambda c: c.answered("me", 500, 0.1)], [lambda c: c.answered("me", 503, 0.1)]),
    "no Retry-After": ([lambda c: c.answered("me", 503, 0.1, retry=False)], [lambda c: c.answered("me", 503, 0.1)]),
    "lost": ([lambda c: c.lost("me", "reset")], [losing, lambda c: c.lost("me", "reset")]),
    "no answer": ([losing, lambda c: c.lost("me", "timeout")], [losing, lambda c: c.lost("me", "refused")]),
    "not spotless": (
        [spotless, lambda c: c.answered("me", 503, 0.1)],
        [spotless, lambda c: c.answered("me", 200, 0.1)],
    ),
    "revoked": (
        [lambda c: c.revoked(TOKEN, 100.0), lambda c: c.accepted(TOKEN, 105.01)],
        [lambda c: c.revoked(TOKEN, 100.0), lambda c: c.accepted(TOKEN, 104.99)],
    ),
    "key dropped": (
        [lambda c: c.dropped("k1", 100.0), lambda c: c.accepted(TOKEN, 105.01)],
        [lambda c: c.dropped("k2", 100.0), lambda c: c.accepted(TOKEN, 105.01)],
    ),
    "refused though it lives": (
        [lambda c: c.refused("me", TOKEN)],
        [lambda c: c.dropping("k1"), lambda c: c.refused("me", TOKEN)],
    ),
    "two successors": (
        [
            lambda c: c.succeeded(refresh_token(3), refresh_token(4, b"a")),
            lambda c: c.succeeded(refresh_token(3), refresh_token(4, b"b")),
        ],
        [lambda c: c.succeeded(refresh_token(3), refresh_token(4, b"a"))] * 2,
    ),
    "a generation left out": (
        [lambda c: c.succeeded(refresh_token(3), refresh_token(5))],
        [lambda c: c.succeeded(refresh_token(3), refresh_token(4))],
    ),
    "ended within the grace": (
        [lambda c: c.not_refreshed(first_tried=100.0, began=109.0)],
        [lambda c: c.not_refreshed(first_tried=100.0, began=110.0)],
    ),
    "ended": (
        [lambda c: c.not_refreshed(first_tried=None, began=100.0)],
        [clocks_apart, lambda c: c.not_refreshed(first_tried=None, began=100.0)],
    ),
    "an old token accepted": ([lambda c: c.reuse(200)], [lambda c: c.reuse(401)]),
    "a commit gone": ([lambda c: c.stored(held=4, found=3)], [lambda c: c.stored(held=4, found=4)]),
    "a generation unknown": ([lambda c: c.stored(held=4, found=5)], [lambda c: c.stored(held=0, found=0)]),
    "a session gone": ([lambda c: c.stored(held=4, found=None)], [lambda c: c.stored(held=4, found=4)]),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_the_judge_finds_each_broken_promise_and_nothing_else(checker: Checker, name: str) -> None:
    """Just past each bound is a broken promise, just before it none."""
    broken, kept = VIOLATIONS[name]
    for step in kept:
        step(checker)
    assert not checker.figures.broken
    checker = Checker(bound_s=BOUND_S, grace_s=GRACE_S)
    for step in broken:
        step(checker)
    assert checker.figures.broken.total() == 1
    assert len(checker.figures.details) == 1


def test_what_is_revoked_stays_revoked_in_the_next_fault(checker: Checker) -> None:
    """Figures begin anew with each fault; knowledge does not."""
    checker.revoked(TOKEN, 100.0)
    checker.begin(Allowed())
    checker.accepted(TOKEN, 103.0)
    assert (checker.figures.latest_acceptance_s, checker.figures.revocations) == (3.0, 0)
    checker.accepted(TOKEN, 106.0)
    assert checker.figures.broken.total() == 1


@pytest.mark.parametrize(("took_s", "broken"), [(0.3, 0), (0.31, 1)])
def test_what_a_fault_adds_to_the_longest_answer(checker: Checker, took_s: float, broken: int) -> None:
    """Beside what answers took before it, and whatever sign-ins take, which hash."""
    checker.begin(Allowed(adding_s=0.25))
    checker.answered("me", 200, 0.05)
    checker.breaks()
    checker.answered("sign-in", 200, 2.0)
    checker.answered("refresh", 200, took_s)
    checker.over()
    assert checker.figures.broken.total() == broken


def test_a_report_says_what_was_broken_and_what_was_not_run(checker: Checker) -> None:
    """A broken promise counts as failed, so that the command's exit status is 1; a fault not run is named with why."""
    kept = finding([Outcome("redis_killed", Checker(bound_s=5, grace_s=10).figures, 0.4)], {}, bound_s=BOUND_S)
    assert kept.failed == 0
    assert all(check.met for check in kept.checks)
    checker.answered("me", 500, 0.1)
    checker.revoked(TOKEN, 100.0)
    checker.accepted(TOKEN, 107.0)
    found = finding([Outcome("redis_killed", checker.figures, None)], {"disk_full_sqlite": "no mount"}, bound_s=BOUND_S)
    assert found.failed == 2
    missed = {check.what for check in found.checks if isinstance(check, Check) and not check.met}
    assert missed == {"answers with a 5xx but 503", "latest acceptance of a revoked token", "longest recovery"}
    assert "disk full, SQLite: no mount" in " ".join(found.notes)
    assert found.tables[0].rows[0][-1] == "none"


def test_a_report_with_losses_can_be_saved(checker: Checker, tmp_path: Path) -> None:
    """What was lost and broken is in the record's JSON by its words, each with how often."""
    losing(checker)
    for _ in range(2):
        checker.lost("me", "connection broken")
    checker.answered("me", 500, 0.1)
    found = finding([Outcome("redis_killed", checker.figures, 0.4)], {}, bound_s=BOUND_S)
    data, _ = save(Record("faults", "none", "2026-11-28T12:00:00Z", 1.0, True, describe(Path()), found), tmp_path)
    figures = json.loads(data.read_bytes())["finding"]["data"]["faults"][0]["figures"]
    assert figures["lost"] == {"connection broken": 2}
    assert list(figures["broken"].values()) == [1]


@pytest.fixture
async def echo() -> AsyncIterator[TcpProxy]:
    """A proxy in front of a server that answers each line with itself."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionResetError):
            while line := await reader.readline():
                writer.write(line)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    proxy = TcpProxy(server.sockets[0].getsockname()[1])
    await proxy.start()
    yield proxy
    await proxy.close()
    server.close()
    await server.wait_closed()


async def says(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], limit_s: float = 2.0) -> bytes:
    """Send a line and return what comes back."""
    streams[1].write(b"hello\n")
    async with asyncio.timeout(limit_s):
        return await streams[0].read(100)


async def test_the_proxy_does_what_it_is_told_to_open_connections(echo: TcpProxy) -> None:
    """Passing, slow, frozen, speaking nonsense, cut after the answer, refused, and passing again on the same port."""
    streams = await asyncio.open_connection("127.0.0.1", echo.port)
    assert await says(streams) == b"hello\n"
    await echo.become(Mode.DELAY, delay_s=0.15)
    began = time.monotonic()
    assert await says(streams) == b"hello\n"
    assert time.monotonic() - began >= 0.15
    await echo.become(Mode.FREEZE)
    with pytest.raises(TimeoutError):
        await says(streams, 0.1)
    await echo.become(Mode.PASS)
    assert await streams[0].read(100) == b"hello\n"  # what was held back
    await echo.become(Mode.GARBAGE)
    assert len(await streams[0].readexactly(64)) == 64  # unasked
    assert (await says(streams)) != b"hello\n"
    await echo.become(Mode.CUT, every=2)
    assert await says(streams) == b"hello\n"
    with pytest.raises(ConnectionResetError):
        await says(streams)
    streams[1].close()
    port = echo.port
    await echo.become(Mode.REFUSE)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    await echo.become(Mode.PASS)
    streams = await asyncio.open_connection("127.0.0.1", port)
    assert await says(streams) == b"hello\n"
    streams[1].close()
    await streams[1].wait_closed()


def test_a_connection_is_traced_to_the_process_that_holds_it() -> None:
    """By the kernel's tables; another process does not hold it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0]:
            local = client.getsockname()[1]
            assert holder(port, local, [os.getppid(), os.getpid()]) == os.getpid()
            assert holder(port, local, [os.getppid()]) == 0


def test_a_shifted_clock_follows_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the file says is added to the machine's time, and taken back."""
    true = time.time
    monkeypatch.setattr(time, "time", true)  # put back afterwards
    file = tmp_path / "clock"
    file.write_text("30")
    over = threading.Event()
    shift(file, over)
    deadline = time.monotonic() + 5
    while abs(time.time() - true() - 30) > 1:
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)
    file.write_text("0")
    while abs(time.time() - true()) > 1:
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)
    over.set()


def test_an_unknown_fault_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names what there is; a table for the README takes all of them."""
    for arguments, said in ((["redis"], "unknown fault redis"), (["--quick", "--update-readme"], "for all faults")):
        monkeypatch.setattr("sys.argv", ["faults", *arguments])
        monkeypatch.setattr(run, "leave_by_interrupt", lambda: None)
        with pytest.raises(SystemExit) as left:
            run.main()
        assert left.value.code == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1


def test_every_fault_of_the_list_is_there() -> None:
    """What the promise is made for."""
    wanted = "redis_killed redis_frozen redis_emptied redis_garbage postgres_killed postgres_restarted postgres_slow "
    wanted += "postgres_crowded refresh_cut worker_killed rolling_restart key_rotated key_dropped clock_ahead "
    wanted += "clock_behind disk_full_sqlite disk_full_postgres"
    assert set(wanted.split()) <= set(CASES)


async def test_who_is_cancelled_waits_for_what_is_being_started() -> None:
    """Ctrl-C while a server starts: anybody who ends servers afterwards knows of it by then."""
    begun, known = threading.Event(), list[str]()

    def start() -> None:
        begun.set()
        time.sleep(0.2)
        known.append("a server")

    starting = asyncio.create_task(to_its_end(start))
    await asyncio.to_thread(begun.wait)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert known == ["a server"]


async def test_a_fault_that_is_broken_off_ends_its_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter waits for every thread: one that goes on filling the disk would never let it end."""
    (tmp_path / "filler").symlink_to("/dev/full")
    stage: Any = SimpleNamespace(site=SimpleNamespace(volume=tmp_path))
    ended = threading.Event()

    def fill(file: Path, over: threading.Event) -> None:
        fill_volume(file, over)
        ended.set()

    monkeypatch.setattr(cases, "fill_volume", fill)
    with pytest.raises(asyncio.CancelledError):
        async with CASES["disk_full_sqlite"].fault(stage):
            raise asyncio.CancelledError
    assert await asyncio.to_thread(os.listdir, tmp_path) == []
    assert await asyncio.to_thread(ended.wait, 5)
