"""Where figures about this process go: nowhere, unless ``IRONAUTH_METRICS`` is on.

What is counted asks for ``recorder`` first, which costs about 20 ns; hot paths are not even asked: with metrics on
they are other objects (`ironauth.asgi`). This module is all that is imported while they are off.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ironauth.infrastructure.metrics_recorder import Recorder

#: Set by `start`; None while metrics are off.
recorder: "Recorder | None" = None
#: Where the workers of one server keep their figures together; None: this process has only its own.
folder: Path | None = None


def start() -> "Recorder":
    """Count from now on, in a file of `folder` that no other living worker has, or in memory; again changes nothing."""
    global recorder  # noqa: PLW0603 - one per process is the point
    if recorder is None:
        from ironauth.infrastructure.metrics_recorder import Recorder  # noqa: PLC0415 - only when metrics are on
        from ironauth.infrastructure.metrics_slots import claim, private  # noqa: PLC0415 - only when metrics are on
        from ironauth.infrastructure.pools import Pool  # noqa: PLC0415 - as the following

        recorder = Recorder(private() if folder is None else claim(folder))
        Pool.watch = recorder.job_done
    return recorder
