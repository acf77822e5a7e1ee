"""``manage.py serve --loop-debug``: what held up the event loop, and how late it was.

Two events, in the log of each worker:

* ``slow_callback``: something kept the loop's thread longer than the threshold. ``what`` is the task or callback,
  ``at`` where the thread stood meanwhile, innermost call first. asyncio's debug mode notices it; its own line is
  replaced, because it shows what a task returned: with a password or a token, it would be in the log.
* ``loop_lag``: every 5 s, how late the loop was for something due every 10 ms. While it is held up, every missed time
  counts with its own lag, so the figures are those of a request that came at any moment. uvloop's timers are exact to
  1 ms, so lags below that say nothing. What debug mode does not time, such as a protocol parsing bytes, shows here.

Debug mode records where each callback was scheduled, which makes every request dearer: not for production, and
no way to measure requests per second. Without the option this module is not even imported.
"""

import asyncio
import logging
import os
import re
import sys
import threading
import time
from bisect import bisect_left
from math import ceil
from types import FrameType

from ironauth.infrastructure.core.lifecycle import on_shutdown, on_startup
from ironauth.infrastructure.telemetry.logs import get_logger

TICK_S = 0.01
REPORT_S = 5.0
MAX_FRAMES = 12  # of the calls under way, the innermost
JOIN_S = 1.0  # longest wait for the thread's end, which looks every half threshold at the latest

#: ``<Task … coro=<View.get() running at …``, ``<Handle Pool._resolve created at …``: the name and nothing after it.
_TASK = re.compile(r"\bcoro=<([\w.<>]+)\(\)")
_HANDLE = re.compile(r"<(?:Timer)?Handle (?:cancelled )?([\w.<>]+)")

#: Upper ends of the buckets in ms, 0.1 to 10,000, ten for each power of ten (preferred numbers, ISO 3, R10).
EDGES_MS = (
    *(
        round(step * power, 4)
        for power in (0.1, 1, 10, 100, 1000)
        for step in (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8)
    ),
    10_000.0,
)
BEYOND = "inf"  # the bucket of what was later still


class LagHistogram:
    """Lags of one interval, in milliseconds; percentiles are exact (nearest rank), buckets are for adding up."""

    def __init__(self) -> None:
        self._values: list[float] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(self, lag_ms: float) -> None:
        """Count one lag."""
        self._values.append(lag_ms)

    def report(self) -> dict[str, object]:
        """Return ``count``, ``p50_ms``, ``p99_ms``, ``max_ms`` and ``buckets``: counts by upper end, no empty ones."""
        if not self._values:
            return {"count": 0}
        ordered = sorted(self._values)
        buckets: dict[str, int] = {}
        for lag_ms in ordered:
            at = bisect_left(EDGES_MS, lag_ms)
            name = f"{EDGES_MS[at]:g}" if at < len(EDGES_MS) else BEYOND
            buckets[name] = buckets.get(name, 0) + 1
        return {
            "count": len(ordered),
            "p50_ms": round(_percentile(ordered, 50), 3),
            "p99_ms": round(_percentile(ordered, 99), 3),
            "max_ms": round(ordered[-1], 3),
            "buckets": buckets,
        }


class LoopWatch:
    """Watches the running event loop from ``start`` until ``stop``; callbacks longer than ``slow_ms`` are reported."""

    def __init__(self, slow_ms: float) -> None:
        self._slow_s = slow_ms / 1000
        self._lags = LagHistogram()
        self._slow_callbacks = 0
        self._began = self._beat = self._due = 0.0  # time.monotonic()
        self._seen: tuple[float, list[str]] | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Turn asyncio's debug mode on, unless stopped already; call it on the loop's own thread."""
        if self._over.is_set():
            return
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._loop.slow_callback_duration = self._slow_s
        self._loop.set_debug(True)
        logging.getLogger("asyncio").addFilter(self._replace)
        self._began = self._beat = time.monotonic()
        self._due = self._beat + TICK_S
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self._thread = threading.Thread(target=self._look, name="loop-watch", daemon=True)
        self._thread.start()
        get_logger().info("loop_debug_on", slow_callback_ms=1000 * self._slow_s, pid=os.getpid())

    def stop(self) -> None:
        """Report what is not reported yet, and leave the loop as it was; a watch that has not begun never will."""
        self._over.set()
        if self._thread is None or self._timer is None:
            return
        self._timer.cancel()
        self._thread.join(JOIN_S)
        self._thread = None
        self._report(time.monotonic())
        logging.getLogger("asyncio").removeFilter(self._replace)
        self._loop.set_debug(False)

    def _tick(self) -> None:
        """Count how late this call is, and so every time that was missed before it."""
        now = self._beat = time.monotonic()
        self._lags.add(max(now - self._due, 0.0) * 1000)  # a timer may be half a millisecond early
        self._due += TICK_S
        while self._due <= now:
            self._lags.add((now - self._due) * 1000)
            self._due += TICK_S
        if now - self._began >= REPORT_S:
            self._report(now)
        self._timer = self._loop.call_later(max(self._due - time.monotonic(), 0), self._tick)

    def _report(self, now: float) -> None:
        get_logger().info(
            "loop_lag",
            seconds=round(now - self._began, 3),
            **self._lags.report(),
            slow_callbacks=self._slow_callbacks,
            pid=os.getpid(),
        )
        self._lags = LagHistogram()
        self._slow_callbacks = 0
        self._began = now

    def _replace(self, record: logging.LogRecord) -> bool:
        """Write ``slow_callback`` in place of asyncio's line about one; let everything else pass."""
        args = record.args
        if (
            record.thread != self._loop_thread
            or not isinstance(args, tuple)
            or not _is_about_slowness(record.msg, args)
        ):
            return True
        what, took_s = args
        seen, now = self._seen, time.monotonic()
        at = seen[1] if seen is not None and seen[0] >= now - float(str(took_s)) else None
        self._slow_callbacks += 1
        get_logger().warning(
            "slow_callback", ms=round(float(str(took_s)) * 1000, 1), what=name_of(str(what)), at=at, pid=os.getpid()
        )
        return False

    def _look(self) -> None:
        """Note where the loop's thread stands while it is held up (runs on a thread of its own)."""
        while not self._over.wait(self._slow_s / 2):
            if time.monotonic() - self._beat > self._slow_s / 2:
                frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the only way, and documented
                self._seen = time.monotonic(), _calls(frame)


def watch(slow_ms: float) -> None:
    """Watch the loop from the end of every start-up of this process's application to its shutdown."""
    watches: list[LoopWatch] = []

    @on_startup
    async def _begin() -> None:
        """Begin when the start-up is over: the imports, and the great garbage collection at its end, delay nobody."""
        watches.append(LoopWatch(slow_ms))
        asyncio.get_running_loop().call_soon(watches[-1].start)

    @on_shutdown
    async def _end() -> None:
        """Stop before what is watched stops."""
        while watches:
            watches.pop().stop()


def name_of(described: str) -> str:
    """Return the function in asyncio's description of a task or handle, without arguments, results and addresses."""
    match = _TASK.search(described) or _HANDLE.match(described)
    return match[1] if match else "unnamed"


def _is_about_slowness(message: object, args: tuple[object, ...]) -> bool:
    """Return whether a record is asyncio's or uvloop's line about a slow callback."""
    return str(message).startswith("Executing ") and len(args) == 2 and isinstance(args[1], float)  # noqa: PLR2004 - what and how long


def _calls(frame: FrameType | None) -> list[str]:
    """Return the innermost calls, as ``module.function:line``."""
    calls: list[str] = []
    while frame is not None and len(calls) < MAX_FRAMES:
        calls.append(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return calls


def _percentile(ordered: list[float], percent: int) -> float:
    return ordered[ceil(len(ordered) * percent / 100) - 1]
