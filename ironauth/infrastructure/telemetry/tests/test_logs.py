"""Logs: one safe line per event, never late by more than 100 ms, never at a request's expense."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ironauth.infrastructure.core import ids
from ironauth.infrastructure.telemetry import log_pipe, logs
from ironauth.infrastructure.telemetry.log_pipe import AccessLine, LogPipe

log = logs.get_logger()


@pytest.fixture(autouse=True)
def _as_json(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Start from an empty pipe in JSON, and leave it so."""
    before = logs.pipe.encode
    logs.pipe.encode = logs.json_line
    logs.flush()
    capsys.readouterr()
    yield
    logs.pipe.encode = before


def written(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return what was logged since the last call."""
    logs.flush()
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_an_event_is_one_json_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, level, time and fields; inside a request its id."""
    token = ids.enter_request("rid-1")
    log.info("something_happened", count=3, name="Zo\u00eb")
    ids.leave_request(token)
    (event,) = written(capsys)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "level": "info", "event": "something_happened", "count": 3, "name": "Zo\u00eb", "request_id": "rid-1",
    }  # fmt: skip


@pytest.mark.parametrize(
    "evil", ["a\r\nb", "a\u2028b\u2029\u0085", "\x1b[31mred", "\x9b31m", "\x7f", "\ud800", '"}\n{']
)
@pytest.mark.parametrize("line_of", [logs.json_line, logs.console_line])
def test_no_value_can_forge_a_line(evil: str, line_of: Any) -> None:
    """Keys and values with control characters stay printable ASCII on one line, in both formats."""
    line = line_of({"event": evil, "level": "info", "field": evil, "nested": {"deep": [evil]}, "object": object()})
    assert line.endswith("\n")
    assert line[:-1].isascii()
    assert line[:-1].isprintable()


def test_values_of_secret_fields_are_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    """A password, token or e-mail address passed by mistake does not reach the log."""
    log.warning("mistake", password="hunter2", refresh_token="abc", email="a@b.example", other="kept")
    (event,) = written(capsys)
    assert event["password"] == event["refresh_token"] == event["email"] == "[redacted]"
    assert event["other"] == "kept"


def test_tracebacks_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """log.exception, exc_info=error and the standard library's exc_info all end as text in one line."""
    try:
        raise RuntimeError("the cause")
    except RuntimeError as error:
        log.exception("one")
        log.error("two", exc_info=error)  # noqa: TRY400 - the other spelling is what is tested
        logging.getLogger("some.package").exception("three")
    events = written(capsys)
    assert [event["event"] for event in events] == ["one", "two", "three"]
    assert {event["level"] for event in events} == {"error"}
    assert all("RuntimeError: the cause" in event["exception"] for event in events)


def test_standard_library_loggers_share_the_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Django's and Uvicorn's records come once each; Uvicorn's access logger is off."""
    for name in ("django.request", "django.server", "uvicorn.error", "some.package"):
        logging.getLogger(name).warning("from %s", name)
    assert [(event["event"], event["logger"]) for event in written(capsys)] == [
        (f"from {name}", name) for name in ("django.request", "django.server", "uvicorn.error", "some.package")
    ]
    logging.getLogger("uvicorn.access").info("GET /?token=secret")
    assert written(capsys) == []


def test_only_our_own_records_bring_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """What the server says of its workers has their ids; what another package adds may be anything, a request too."""
    for name in ("ironauth.server.supervisor", "django.request", "ironauthors"):
        logging.getLogger(name).warning("said", extra={"pid": 7})
    assert [event.get("pid") for event in written(capsys)] == [7, None, None]


def test_a_record_that_cannot_be_formatted_raises_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong number of arguments is reported, not raised into the caller."""
    record = logging.LogRecord("some.package", logging.WARNING, __file__, 1, "%s %s", ("one",), None)
    logs.PipeHandler().emit(record)
    assert "Logging error" in capsys.readouterr().err


def test_the_thread_writes_within_a_moment(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody flushes: the line is there soon after."""
    logs.pipe.start()
    log.info("soon")
    deadline = time.monotonic() + 2
    text = ""
    while "soon" not in text and time.monotonic() < deadline:
        time.sleep(0.01)
        text += capsys.readouterr().err
    assert "soon" in text


@pytest.mark.parametrize(("lines", "since_s", "next_s"), [
    (0, 0.1, 0.1), (99, 0.1, 0.1), (100, 0.1, 0.01), (9, 0.01, 0.1), (10, 0.01, 0.01), (250, 0.01, 0.01),
])  # fmt: skip
def test_much_is_written_more_often(lines: int, since_s: float, next_s: float) -> None:
    """From 1,000 lines a second on they are written in small pieces; below that nobody is woken for a few."""
    assert log_pipe.next_look_s(lines, since_s) == next_s


def test_a_full_queue_drops_access_lines_and_counts_them() -> None:
    """Beyond 10,000 waiting lines information is dropped, errors never; the count is reported."""
    lines: list[str] = []

    def encode(event: log_pipe.Event) -> str:
        assert isinstance(event, dict)
        lines.append(str(event["event"]))
        return ""

    pipe = LogPipe(encode)
    for _ in range(log_pipe.MAX_WAITING + 5):
        pipe.put({"event": "request"})
    pipe.put_always({"event": "error"})
    pipe.flush()
    assert lines.count("request") == log_pipe.MAX_WAITING
    assert lines[-2:] == ["error", "log_lines_dropped"]
    assert pipe.dropped == 0


def test_a_closed_stderr_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nowhere left to complain; the process goes on."""
    with open(os.devnull, "w") as closed:  # noqa: PTH123 - a stream to close
        pass
    monkeypatch.setattr(sys, "stderr", closed)
    monkeypatch.setattr(sys, "__stderr__", closed)
    log.error("unheard")
    logs.flush()


def test_many_threads_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines from eight threads, flushed from two, arrive once each."""

    def work(name: int) -> None:
        for number in range(200):
            log.info("line", key=f"{name}-{number}")
            if number % 50 == 0:
                logs.flush()

    workers = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    keys = [event["key"] for event in written(capsys)]
    assert len(keys) == len(set(keys)) == 1_600


def test_an_access_line_is_the_event_it_stands_for() -> None:
    """Written on a path of its own, its JSON has the same fields in the same order, and forges nothing."""
    for path in ("/api/v1/access/me", '/é\x7f\n"', "/\ud800", "/" + "x" * 600):
        line = AccessLine(1_790_000_000.9876, "GET", path, 200, 1.23456, "2001:db8::1", "a.b-C_1")
        quick = logs.json_line(line)
        assert quick.isascii()
        assert quick.isprintable() or quick[:-1].isprintable()
        assert quick.endswith("\n")
        assert json.loads(quick) == json.loads(logs.json_line({**line.event(), "duration_ms": 1.235}))
        assert list(json.loads(quick)) == list(json.loads(logs.json_line(line.event())))
        assert logs.console_line(line) == logs.console_line({**line.event(), "duration_ms": 1.235})


def test_the_console_format_reads_well() -> None:
    """Time, level, event, fields; a traceback on indented lines of its own."""
    event = {
        "timestamp": 0.5, "level": "error", "event": "unhandled_error", "path": "/x y", "n": 1, "exception": "T:\n  E",
    }  # fmt: skip
    assert logs.console_line(event) == (
        '1970-01-01T00:00:00.500Z error   unhandled_error path="/x y" n=1\n    | T:\n    |   E\n'
    )


PROGRAM = """
import os, signal, sys, time
from ironauth.infrastructure.telemetry import logs
logs.configure({"level": "INFO", "format": "json"})
logs.get_logger().info("last_words", how=sys.argv[1])
if sys.argv[1] == "sigterm":
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)
if sys.argv[1] == "fork":
    child = os.fork()
    logs.get_logger().info("after_fork", child=child == 0)
    if child:
        os.waitpid(child, 0)
    else:
        logs.flush()
        os._exit(0)
"""


@pytest.mark.parametrize(("how", "code"), [("exit", 0), ("sigterm", -signal.SIGTERM), ("fork", 0)])
def test_the_last_lines_are_written(how: str, code: int) -> None:
    """At a normal end, at SIGTERM (which still ends the process by that signal), and once each across a fork."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == code
    events = [json.loads(line)["event"] for line in done.stderr.splitlines() if line.startswith("{")]
    assert events.count("last_words") == 1
    assert events.count("after_fork") == (2 if how == "fork" else 0)


@pytest.mark.parametrize(
    ("path", "status", "kept"), [("/api/v1/access/me", 200, 1), ("/x", 404, 0), ("/" * 200, 200, 0)]
)
def test_only_usual_paths_are_remembered(path: str, status: int, kept: int) -> None:
    """What anybody can invent, refused and long paths, takes no place of ours in memory; its line is complete."""
    logs._remembered.cache_clear()
    line = json.loads(logs.json_line(AccessLine(0.0, "GET", path, status, 1.0, "127.0.0.1", "r")))
    assert (line["path"], line["status"], line["client"]) == (path, status, "127.0.0.1")
    assert logs._remembered.cache_info().currsize == kept
