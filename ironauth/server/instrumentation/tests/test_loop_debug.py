"""``serve --loop-debug``: slow callbacks and the loop's lag, on uvloop as served."""

import asyncio
import functools
import json
import logging
import threading
import time
from collections.abc import Callable

import pytest
import uvloop

from ironauth.infrastructure.core import lifecycle
from ironauth.infrastructure.telemetry import logs
from ironauth.server.instrumentation import loop_debug
from ironauth.server.instrumentation.loop_debug import LoopWatch, name_of

SECRET = "do-not-log-this-token"


class Events:
    """What was logged, as it was given to the log."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    def named(self, name: str) -> list[dict[str, object]]:
        """Return the events of one name."""
        return [line for line in self.lines if line["event"] == name]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Events:
    """Record events instead of writing them."""
    found = Events()

    class Recorder:
        def info(self, event: str, **fields: object) -> None:
            found.lines.append({"event": event, "level": "info", **fields})

        def warning(self, event: str, **fields: object) -> None:
            found.lines.append({"event": event, "level": "warning", **fields})

    monkeypatch.setattr(loop_debug, "get_logger", Recorder)
    return found


@pytest.fixture
def quiet_asyncio(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What asyncio's own logger still says."""
    caplog.set_level(logging.WARNING, "asyncio")
    return caplog


def _watched(work: Callable[[], object], *, slow_ms: float = 20.0) -> None:
    """Run ``work`` as a task's step on a watched uvloop."""

    async def step() -> str:
        work()
        return SECRET  # a task's result is in asyncio's own line about it

    async def main() -> None:
        watch = LoopWatch(slow_ms)
        watch.start()
        await asyncio.sleep(0.03)
        await asyncio.create_task(step())
        await asyncio.sleep(0.03)
        watch.stop()
        assert not asyncio.get_running_loop().get_debug()

    asyncio.run(main(), loop_factory=uvloop.new_event_loop)


def held_up() -> None:
    """Keep the loop's thread for 150 ms."""
    time.sleep(0.15)


def _of_the_step(events: Events) -> dict[str, object]:
    """Return the event about the watched step: on a busy machine others may be slow as well."""
    (slow,) = [each for each in events.named("slow_callback") if each["what"] == "_watched.<locals>.step"]
    return slow


def test_a_slow_callback_is_reported_with_where_it_stood(
    events: Events, quiet_asyncio: pytest.LogCaptureFixture
) -> None:
    """One event names the task, how long it took and the function that did; asyncio's own line is gone."""
    _watched(held_up)
    slow = _of_the_step(events)
    assert slow["level"] == "warning"
    assert isinstance(slow["ms"], float)
    assert slow["ms"] >= 150
    assert isinstance(slow["at"], list)
    assert any(call.startswith(f"{__name__}.held_up:") for call in slow["at"])
    assert "Executing" not in quiet_asyncio.text


def test_what_a_task_returned_is_in_no_log(events: Events, quiet_asyncio: pytest.LogCaptureFixture) -> None:
    """By itself asyncio would show the result of the slow task, which may be a token; here nothing does."""
    _watched(held_up)
    assert _of_the_step(events)
    assert SECRET not in repr(events.lines) + quiet_asyncio.text


def test_a_quick_callback_is_not_reported(events: Events) -> None:
    """What takes less than the threshold is no event."""
    _watched(lambda: None, slow_ms=5_000)
    assert not events.named("slow_callback")
    assert events.named("loop_lag")[-1]["slow_callbacks"] == 0


def test_lag_counts_every_time_that_was_missed(events: Events) -> None:
    """150 ms of standstill are fifteen times due, from the longest wait to the shortest, and one slow callback."""
    _watched(held_up)
    (lag,) = events.named("loop_lag")
    assert isinstance(lag["count"], int)
    assert lag["count"] >= 17
    assert isinstance(lag["max_ms"], float)
    assert lag["max_ms"] >= 135
    assert isinstance(lag["buckets"], dict)
    assert sum(lag["buckets"].values()) == lag["count"]
    assert sum(count for upper, count in lag["buckets"].items() if float(upper) > 20) >= 10
    assert lag["slow_callbacks"] == len(events.named("slow_callback")) >= 1


def test_other_lines_of_asyncio_stay(events: Events, quiet_asyncio: pytest.LogCaptureFixture) -> None:
    """Only lines about slow callbacks are replaced."""
    _watched(lambda: logging.getLogger("asyncio").warning("something else took %.3f seconds", 0.5), slow_ms=5_000)
    assert "something else took 0.500 seconds" in quiet_asyncio.text
    assert not events.named("slow_callback")


def test_a_stopped_watch_leaves_nothing_behind(events: Events) -> None:
    """After it, asyncio's lines pass again, and its thread has ended."""
    _watched(lambda: None)
    assert not [thread for thread in threading.enumerate() if thread.name == "loop-watch"]
    assert not logging.getLogger("asyncio").filters


async def test_a_watch_stopped_before_it_began_never_begins(events: Events) -> None:
    """A start-up that fails is stopped without having started."""
    watch = LoopWatch(20.0)
    watch.stop()
    watch.start()
    assert not events.lines
    assert not asyncio.get_running_loop().get_debug()


@pytest.mark.parametrize(
    ("described", "name"),
    [
        ("<Task finished name='Task-2' coro=<outer() done, defined at x.py:7> result='secret' created at y>", "outer"),
        ("<Task pending name='T' coro=<View.get() running at x.py:1> wait_for=<Future pending>>", "View.get"),
        ("<Handle Pool._resolve created at x.py:1>", "Pool._resolve"),
        ("<TimerHandle cancelled sleep created at x.py:1>", "sleep"),
        (f"<Handle {functools.partial(print, 'secret')!r} created at x.py:1>", "functools.partial"),
        ("<Something else>", "unnamed"),
    ],
)
def test_only_the_name_is_taken(described: str, name: str) -> None:
    """Arguments and results do not pass: they may be secrets."""
    assert name_of(described) == name


@pytest.fixture
def own_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks of this test only."""
    monkeypatch.setattr(lifecycle, "startup_hooks", [])
    monkeypatch.setattr(lifecycle, "shutdown_hooks", [])


def test_it_watches_from_start_up_to_shutdown(events: Events, own_hooks: None) -> None:
    """The watch begins once the start-up step is over, and reports at the end what it has seen."""

    async def life() -> None:
        loop_debug.watch(50.0)
        for hook in lifecycle.startup_hooks:
            await hook()
        assert not asyncio.get_running_loop().get_debug()
        await asyncio.sleep(0.05)
        assert asyncio.get_running_loop().get_debug()
        for hook in lifecycle.shutdown_hooks:
            await hook()

    asyncio.run(life(), loop_factory=uvloop.new_event_loop)
    assert [line["event"] for line in events.lines] == ["loop_debug_on", "loop_lag"]
    assert events.lines[0]["slow_callback_ms"] == 50.0


def test_the_events_fit_into_a_line(events: Events) -> None:
    """Both events can be written as JSON."""
    _watched(held_up)
    for event in events.lines:
        assert json.loads(logs.json_line(event))["event"] == event["event"]
