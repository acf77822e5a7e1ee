"""Connections to other servers that wait for the next request to the same host: few of them, and for a short time.

A new one costs three round trips with TLS and a millisecond of CPU time. Where it leads was judged when it was opened,
and is judged again with the next one: after the bound here at the latest.
"""

import select
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from typing import NamedTuple

#: What a connection may be used for: scheme, host, port, and the networks by which its address was judged.
type Place = tuple[str, str, int | None, tuple[str, ...] | None]


class Line(NamedTuple):
    """A connection: where it leads, and when it was opened (monotonic seconds)."""

    place: Place
    connection: HTTPConnection
    opened_at: float


class KeptConnections:
    """At most ``most`` connections with nothing under way, each for ``idle_s`` seconds. Thread-safe.

    None is used again ``life_s`` seconds after it was opened. ``now``: the clock, monotonic seconds.
    """

    def __init__(self, *, most: int, idle_s: float, life_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self.idle_s = idle_s
        self.now = now
        self._most = most
        self._life_s = life_s
        self._lock = threading.Lock()
        self._waiting: list[tuple[Line, float]] = []  # each with the time of its last answer, the oldest first

    def take(self, place: Place) -> Line | None:
        """Return an open connection to exactly this place, for one request; the one that was used last."""
        self.prune()
        while (line := self._found(place)) is not None:
            if _is_quiet(line):
                return line
            line.connection.close()
        return None

    def give(self, line: Line) -> None:
        """Keep a connection whose answer was read to its end; without room the one unused for longest is closed."""
        with self._lock:
            self._waiting.append((line, self.now()))
        self.prune()

    def prune(self) -> bool:
        """Close what has waited for too long, is too old or too many; tell whether any is left."""
        now, over = self.now(), []
        with self._lock:
            for line, since in self._waiting[:]:
                is_spare = len(self._waiting) > self._most
                if is_spare or now - since >= self.idle_s or now - line.opened_at >= self._life_s:
                    self._waiting.remove((line, since))
                    over.append(line)
            is_any_left = bool(self._waiting)
        for line in over:
            line.connection.close()
        return is_any_left

    def clear(self) -> None:
        """Close all."""
        with self._lock:
            found, self._waiting = self._waiting, []
        for line, _ in found:
            line.connection.close()

    def _found(self, place: Place) -> Line | None:
        with self._lock:
            for index in reversed(range(len(self._waiting))):
                if self._waiting[index][0].place == place:
                    return self._waiting.pop(index)[0]
        return None


def _is_quiet(line: Line) -> bool:
    """Tell whether the other side has neither ended the connection nor said anything that nobody has asked for."""
    poll = select.poll()
    poll.register(line.connection.sock, select.POLLIN)
    return not poll.poll(0)
