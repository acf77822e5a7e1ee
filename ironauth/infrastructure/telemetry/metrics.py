"""Where figures about this process go: nowhere, unless ``IRONAUTH_METRICS`` is on.

What is counted asks for ``recorder`` first, which costs about 20 ns; so do hot paths, for what they were given of it
(`ironauth.asgi`). This module is all that is imported while they are off.
"""

import atexit
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ironauth.infrastructure.telemetry.metrics_recorder import Recorder

#: Upper ends in seconds: from the hot lane's 0.1 ms to the longest answer there is, 10 s, three for each power of ten.
BUCKETS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
_BUCKETS_NS: Final = tuple(round(end * 1_000_000_000) for end in BUCKETS_S)
SHORTEST_NS: Final = _BUCKETS_NS[0]
#: Set by `start`; None while metrics are off.
recorder: "Recorder | None" = None
#: Where the workers of one server keep their figures together; None: this process has only its own.
folder: Path | None = None


def bucket(took_ns: float) -> int:
    """Return the number of the bucket in which such a time is counted; 0 up to `SHORTEST_NS`."""
    return bisect_left(_BUCKETS_NS, took_ns)


def start() -> "Recorder":
    """Count from now on, in a file of `folder` that no other living worker has, or in memory; again changes nothing."""
    global recorder  # noqa: PLW0603 - one per process is the point
    if recorder is None:
        from ironauth.infrastructure.telemetry.metrics_recorder import (  # noqa: PLC0415 - only when metrics are on
            Recorder,
        )
        from ironauth.infrastructure.telemetry.metrics_slots import (  # noqa: PLC0415 - only when metrics are on
            claim,
            private,
        )
        from ironauth.infrastructure.threads.pool import Pool  # noqa: PLC0415 - as the following

        recorder = Recorder(private() if folder is None else claim(folder))
        atexit.register(recorder.settle)  # what ends after the sampling has: requests that were cancelled
        Pool.watch = recorder.job_done
    return recorder
