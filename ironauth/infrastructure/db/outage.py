"""Says in the log that the database is not to be had, and what to do where somebody has to do something."""

import threading
import time
from typing import Final

from ironauth.infrastructure.db.faults import Fault
from ironauth.infrastructure.telemetry.logs import get_logger

REMEDY: Final = (
    "check that the folder in DATABASE_URL exists, that this process's user may write to it and to the file, and that "
    "the process may open more files (ulimit -n)"
)
#: At most one line in this time about a file that cannot be opened; seconds. It stays so until somebody acts, and a
#: server without a single request asks for it several times a second.
QUIET_S: Final = 60.0


class Outages:
    """Thread-safe; one per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._again_at = 0.0
        self._repeated = 0

    def report(self, fault: Fault, *, cause: str, lane: str | None = None) -> None:
        """Log one failed unit of work.

        ``cause``: a line without data. ``lane``: stands for the name of a fault that passes by itself. The line about a
        file that cannot be opened counts those ``repeated`` since the last one.
        """
        if fault is not Fault.UNREACHABLE:
            get_logger().warning("database_unavailable", fault=lane or fault.name.lower(), cause=cause)
            return
        with self._lock:
            now = time.monotonic()
            if now < self._again_at:
                self._repeated += 1
                return
            self._again_at = now + QUIET_S
            repeated, self._repeated = self._repeated, 0
        get_logger().error("database_unreachable", cause=cause, repeated=repeated, remedy=REMEDY)


outages: Final = Outages()
