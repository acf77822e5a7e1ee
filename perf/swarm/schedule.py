"""When the users of a constant rate send: times fixed in advance, and a count of what started late."""

import math
from typing import Final

LATE_S: Final = 0.1  # started later than this after its time: the load was not the one asked for


class Schedule:
    """Every ``period_s`` seconds from ``start_s``.

    Locust's ``constant_pacing`` starts its clock anew after a task that took too long, so a slow server lowers the rate
    unseen. Here the times stay where they are: what is overdue follows at once, and is counted.
    """

    def __init__(self, period_s: float, start_s: float) -> None:
        self.started = 0
        self.late = 0
        self.latest_s = 0.0
        self._period_s = period_s
        self._due_s = start_s

    def begin(self, now_s: float) -> None:
        """Take note that the next run starts now."""
        behind = now_s - self._due_s
        self.started += 1
        self.late += behind > LATE_S
        self.latest_s = max(self.latest_s, behind)
        self._due_s += self._period_s

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until the next run is due, 0 when it is overdue."""
        return max(0.0, self._due_s - now_s)

    def skip(self, now_s: float) -> None:
        """Give up the runs that are overdue: for a pause that was asked for, e.g. by ``Retry-After``."""
        if self._due_s < now_s:
            self._due_s += math.ceil((now_s - self._due_s) / self._period_s) * self._period_s
