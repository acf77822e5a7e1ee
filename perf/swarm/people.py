"""What the users of one load generator process go by: who they may be, when they begin, which accounts they made."""

import math
from collections import deque
from pathlib import Path
from typing import Final


class Exhausted(Exception):
    """More users than prepared people; the message says what to change."""


class People:
    """The people ``index``, ``index + processes``, … of ``count``; ``address`` is a pattern with ``{serial}``.

    Anybody who is taken is nobody else's until given back, so that a session list shows one session, one's own.

    Raises:
        ValueError: ``index`` is none of ``processes`` processes.
    """

    def __init__(self, address: str, count: int, *, index: int, processes: int) -> None:
        if not 0 <= index < processes:
            raise ValueError(f"process {index} is none of {processes}")
        self._free = deque(address.format(serial=serial) for serial in range(index, count, processes))
        self._all = len(self._free)

    def take(self) -> str:
        """Return the address of somebody who is not in use, longest unused first.

        Raises:
            Exhausted: everybody is in use.
        """
        if not self._free:
            raise Exhausted(f"all {self._all} people of this process are in use: prepare more, with --people")
        return self._free.popleft()

    def give_back(self, address: str) -> None:
        """Make somebody available again."""
        self._free.append(address)


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


_MADE, _CLOSED = "+", "-"


class Ledger:
    """One process' file in the ledger's folder; every line is on disk before the request it tells of is sent."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._path = folder / f"{owner}.ledger"

    def made(self, email: str) -> None:
        """Note an account that is about to be made."""
        self._write(_MADE, email)

    def closed(self, email: str) -> None:
        """Note that an account exists no more, or never did."""
        self._write(_CLOSED, email)

    def _write(self, sign: str, email: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{sign}{email}\n")


def still_open(folder: Path) -> list[str]:
    """Return the addresses that were made and not closed, of all processes, in the order they were made."""
    lines = [line for path in sorted(folder.glob("*.ledger")) for line in path.read_text("utf-8").splitlines()]
    closed = {line[1:] for line in lines if line.startswith(_CLOSED)}
    return [line[1:] for line in lines if line.startswith(_MADE) and line[1:] not in closed]
