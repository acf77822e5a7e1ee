"""What a process counts, by the names of `metrics_catalogue`: nothing, unless ``IRONAUTH_METRICS`` is on.

What is counted asks for ``recorder`` first, which costs about 20 ns; so do hot paths, for what they were given of it
(`ironauth.asgi`).
"""

import atexit
import json
import threading
import time
from pathlib import Path
from typing import Final

from ironauth.infrastructure.telemetry.metrics_catalogue import BUCKETS_S, CATALOGUE, DURATIONS, SECONDS, bucket
from ironauth.infrastructure.telemetry.metrics_slots import Slots, claim, private

SUM: Final = len(BUCKETS_S) + 1  # after the buckets, and what is beyond them

#: Where the workers of one server keep their figures together; None: this process has only its own.
folder: Path | None = None


class Recorder:
    """Counts on any thread into ``slots``; what was counted there before, by a worker that ended, stays.

    A method adds to a slot by one statement without a call, within which the interpreter does not change threads: no
    increment is lost, and no lock is needed but for a name's first time.
    """

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.running = 0  # requests being answered
        self._values = slots.values
        self._tallies: dict[tuple[int, int], list[int]] = {}
        self._lock = threading.Lock()
        self._bases: dict[tuple[str, ...], int] = {}
        #: Looks into the memory of this process; count by ``hits[0] += 1``.
        self.hits = self._tally("ironauth_cache_lookups", "l1", "hit")
        self.misses = self._tally("ironauth_cache_lookups", "l1", "miss")
        for name, metric in CATALOGUE.items():
            if metric.kind != "gauge" and not metric.labels:
                self.base(name)
        for pool in ("hash", "database"):  # shown as 0 before the first: a rise from nothing is no rise
            self.base("ironauth_pool_refusals", pool)
        self._forget_gauges()
        self.count("ironauth_worker_starts")

    def base(self, *series: str) -> int:
        """Return the first slot of a metric with these labels."""
        found = self._bases.get(series)
        if found is None:
            with self._lock:
                name = json.dumps(series, separators=(",", ":"))
                found = self._bases[series] = self.slots.base(name, CATALOGUE[series[0]].width)
        return found

    def count(self, *series: str, by: int = 1) -> None:
        """Add ``by`` to a counter with these labels; in its scale."""
        at = self.base(*series)
        self._values[at] += by

    def set(self, value: float, *series: str) -> None:
        """Set a gauge with these labels."""
        self._values[self.base(*series)] = int(value * CATALOGUE[series[0]].scale)

    def observe(self, seconds: float, *series: str) -> None:
        """Add one time to a histogram with these labels."""
        self.observe_at(self.base(*series), seconds)

    def observe_at(self, base: int, seconds: float) -> None:
        """Add one time to the histogram whose first slot is ``base``."""
        at, took_ns = base + bucket(seconds * SECONDS), int(seconds * SECONDS)
        self._values[at] += 1
        at = base + SUM
        self._values[at] += took_ns

    def request_tally(self, method: str, route: str, lane: str, status: int) -> list[int]:
        """Return the counts of requests like this one: one for each `bucket`, and at `SUM` their nanoseconds.

        Count by statements like ``counts[0] += 1``. What is counted is shown, and kept beyond the end of this process,
        from the next `settle` on. Adding to a list takes half the time of adding to the slots.
        """
        return self._tally(DURATIONS, method, route, lane, str(status))

    def _tally(self, *series: str) -> list[int]:
        width = CATALOGUE[series[0]].width  # not the base alone: what finds no room has one base
        return self._tallies.setdefault((self.base(*series), width), [0] * width)

    def settle(self) -> None:
        """Add the tallies to the slots."""
        for (base, _), counts in list(self._tallies.items()):
            if counts[-1]:  # a sum, or the only one
                for at, counted in enumerate(counts):
                    self._values[base + at] += counted
                    counts[at] -= counted  # what came meanwhile stays

    def job_done(self, pool: str, asked_at: float, started_at: float) -> None:
        """Count a job that ended now; both times are monotonic seconds."""
        self.observe(started_at - asked_at, "ironauth_pool_wait_seconds", pool)
        self.observe(time.monotonic() - started_at, "ironauth_pool_run_seconds", pool)

    def _forget_gauges(self) -> None:
        """Set to 0 what a worker before us was doing."""
        for (name, _), base in self.slots.bases.items():
            if CATALOGUE.get(json.loads(name)[0], _NOTHING).kind == "gauge":
                self._values[base] = 0


_NOTHING: Final = CATALOGUE["ironauth_uncounted"]  # for names of another release


#: Set by `start`; None while metrics are off.
recorder: Recorder | None = None


def start() -> Recorder:
    """Count from now on, in a file of `folder` that no other living worker has, or in memory; again changes nothing."""
    global recorder  # noqa: PLW0603 - one per process is the point
    if recorder is None:
        recorder = Recorder(private() if folder is None else claim(folder))
        atexit.register(recorder.settle)  # what ends after the sampling has: requests that were cancelled
    return recorder
