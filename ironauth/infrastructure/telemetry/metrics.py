"""What a process counts, by the names of `metrics_catalogue`; nothing, unless ``IRONAUTH_METRICS`` is on.

Code that counts asks for ``recorder`` first, which costs about 20 ns. Hot paths ask for what they were given of it
(`ironauth.asgi`).
"""

import atexit
import threading
import time
from pathlib import Path
from typing import Final

from ironauth.infrastructure.telemetry.metrics_catalogue import BUCKETS_S, CATALOGUE, DURATIONS, SECONDS, bucket
from ironauth.infrastructure.telemetry.metrics_files import FiguresFile, Series, claim

SUM: Final = len(BUCKETS_S) + 1  # after the buckets, and what is beyond them
#: 100 routes with two methods and three statuses each are 600; refused methods on each as many again.
MAX_SERIES: Final = 4_096

#: Where the workers of one server keep their figures together; None: this process has only its own.
folder: Path | None = None


class Recorder:
    """Counts on any thread; what was counted in ``file`` before, by a worker that ended, stays.

    Counts are lists that are added to by one statement without a call, like ``counts[0] += 1``, within which the
    interpreter does not change threads: no increment is lost, and no lock is needed but for a name's first time.
    """

    def __init__(self, file: FiguresFile | None = None) -> None:
        """Count in memory, and keep it in ``file`` beyond the end of this process."""
        self.running = 0  # requests being answered
        self.file = file
        self.series: Series = {}
        self._lock = threading.Lock()
        for series, counts in ({} if file is None else file.read()).items():
            metric = CATALOGUE.get(series[0])  # another release may have other ones
            if metric is not None and metric.kind != "gauge" and metric.width == len(counts):
                self.series[series] = counts
        #: Looks into the memory of this process; count by ``hits[0] += 1``.
        self.hits = self.counts("ironauth_cache_lookups", "l1", "hit")
        self.misses = self.counts("ironauth_cache_lookups", "l1", "miss")
        for name, metric in CATALOGUE.items():
            if metric.kind != "gauge" and not metric.labels:
                self.counts(name)
        for pool in ("hash", "database"):  # shown as 0 before the first: a rise from nothing is no rise
            self.counts("ironauth_pool_refusals", pool)
        self.count("ironauth_worker_starts")

    def counts(self, *series: str) -> list[int]:
        """Return the counts of a metric with these labels: one, or one for each `bucket` and at `SUM` nanoseconds."""
        found = self.series.get(series)
        if found is not None:
            return found
        with self._lock:
            if len(self.series) < MAX_SERIES:
                return self.series.setdefault(series, [0] * CATALOGUE[series[0]].width)
        self.series["ironauth_uncounted",][0] += 1
        return [0] * CATALOGUE[series[0]].width

    def count(self, *series: str, by: int = 1) -> None:
        """Add ``by`` to a counter with these labels; in its scale."""
        counts = self.counts(*series)
        counts[0] += by

    def set(self, value: float, *series: str) -> None:
        """Set a gauge with these labels."""
        self.counts(*series)[0] = int(value * CATALOGUE[series[0]].scale)

    def observe(self, seconds: float, *series: str) -> None:
        """Add one time to a histogram with these labels."""
        counts, at, took_ns = self.counts(*series), bucket(seconds * SECONDS), int(seconds * SECONDS)
        counts[at] += 1
        counts[SUM] += took_ns

    def request_tally(self, method: str, route: str, lane: str, status: int) -> list[int]:
        """Return the `counts` of requests like this one."""
        return self.counts(DURATIONS, method, route, lane, str(status))

    def flush(self) -> None:
        """Write what was counted so far, for other workers to read, and for the worker that takes over."""
        if self.file is not None:
            self.file.write(self.series)

    def job_done(self, pool: str, asked_at: float, started_at: float) -> None:
        """Count a job that ended now; both times are monotonic seconds."""
        self.observe(started_at - asked_at, "ironauth_pool_wait_seconds", pool)
        self.observe(time.monotonic() - started_at, "ironauth_pool_run_seconds", pool)


#: Set by `start`; None while metrics are off.
recorder: Recorder | None = None


def start() -> Recorder:
    """Count from now on, in a file of `folder` that no other living worker has, or in memory; again changes nothing."""
    global recorder  # noqa: PLW0603 - one per process is the point
    if recorder is None:
        recorder = Recorder(None if folder is None else claim(folder))
        atexit.register(recorder.flush)  # what ends after the sampling has: requests that were cancelled
    return recorder
