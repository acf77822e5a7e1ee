"""How long Python's garbage collector holds the process: its own thread and, by the interpreter's lock, all others."""

import gc
import time
from typing import Final

from ironauth.infrastructure.telemetry.metrics import Recorder
from ironauth.infrastructure.telemetry.metrics_catalogue import bucket

PAUSES: Final = "ironauth_gc_pause_seconds"
GENERATIONS: Final = 3


class CollectorPauses:
    """Counts every collection from ``start`` until ``stop``; 1 µs for each."""

    def __init__(self, recorder: Recorder) -> None:
        self._counts = [recorder.counts(PAUSES, str(generation)) for generation in range(GENERATIONS)]
        self._started_ns = 0

    def start(self) -> None:
        """Count from now on."""
        if self not in gc.callbacks:
            gc.callbacks.append(self)

    def stop(self) -> None:
        """Count no more."""
        if self in gc.callbacks:
            gc.callbacks.remove(self)

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Be told by the collector that it begins or has ended; only one collection runs at a time."""
        if phase == "start":
            self._started_ns = time.perf_counter_ns()
            return
        took_ns = time.perf_counter_ns() - self._started_ns
        counts, at = self._counts[info["generation"]], bucket(took_ns)
        counts[at] += 1
        counts[-1] += took_ns
