"""Leaves a failing server alone for a moment, so that an outage costs one caller a time-out and all others nothing."""

import threading
import time

from ironauth.infrastructure.telemetry.logs import get_logger

#: How long nobody asks after a failure, and how often one caller tries again during an outage; seconds.
PAUSE_S = 1.0
#: At most one warning about unreadable values in this time; seconds.
UNUSABLE_WARNING_S = 60.0


class Breaker:
    """Thread-safe; counts what went wrong, and logs the start and the end of each outage once."""

    def __init__(self, what: str) -> None:
        self.failures = 0
        self.unusable_answers = 0
        self._what = what
        self._lock = threading.Lock()
        self._broken = False
        self._again_at = 0.0
        self._warn_again_at = 0.0

    @property
    def is_open(self) -> bool:
        """Return whether an outage is on."""
        return self._broken

    def allows(self) -> bool:
        """Return whether the caller may try; during an outage, True for one caller per ``PAUSE_S``."""
        if not self._broken:
            return True
        with self._lock:
            now = time.monotonic()
            if now < self._again_at:
                return False
            self._again_at = now + PAUSE_S
            return True

    def failed(self, error: Exception) -> None:
        """Begin or prolong the outage, for which ``error`` is logged once."""
        with self._lock:
            self.failures += 1
            first, self._broken = not self._broken, True
            self._again_at = time.monotonic() + PAUSE_S
        if first:
            get_logger().warning(f"{self._what}_lost", error=type(error).__name__, detail=str(error)[:200])

    def succeeded(self) -> None:
        """End the outage, if there is one."""
        if self._broken:
            with self._lock:
                ended, self._broken = self._broken, False
            if ended:
                get_logger().info(f"{self._what}_recovered", failures=self.failures)

    def unusable(self, error: Exception) -> None:
        """Count an answer that was refused or could not be read; the server itself works."""
        with self._lock:
            self.unusable_answers += 1
            warn = time.monotonic() >= self._warn_again_at
            if warn:
                self._warn_again_at = time.monotonic() + UNUSABLE_WARNING_S
        if warn:
            get_logger().warning(f"{self._what}_unusable", error=type(error).__name__, count=self.unusable_answers)
