"""Clients that keep a connection waiting, and its timer: they do not take what was written, or send no request."""

import asyncio
import fcntl
import math
import socket
import struct
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from heapq import nsmallest
from typing import Any, Protocol

#: For a client that does not take its answer; as nginx' send_timeout. It is waited for anew while it takes this much
#: in that time: 0.5 KiB a second, less than the slowest network of telephones carries.
WRITE_TIMEOUT_S = 60.0
TAKEN_BYTES = 32 * 1024
#: Clients of one process that are waited for in this way; each may hold the largest answer there is, 0.3 MB, in memory.
MOST_STALLED = 128

#: Connections closed at once when they run out: finding the longest waiting looks at all of them, which is too dear for
#: each newcomer.
CLOSED_AT_ONCE = 32

_RESET = struct.pack("ii", 1, 0)  # struct linger: on, 0 s (socket(7))


class Deadline:
    """Calls ``expire`` when the deadline has passed.

    One timer for each connection, which looks at the deadline when it fires; Uvicorn makes and cancels one a request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[], None]) -> None:
        """Prepare a deadline that is not set yet.

        Args:
            loop: where the timer runs.
            expire: called when the deadline has passed.
        """
        self.at = math.inf  # loop time; infinite while a request is answered
        self._loop = loop
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def set(self, seconds: float) -> None:
        """Expire in ``seconds``; a timer that fires earlier is kept, as it looks at the deadline."""
        self.at = deadline = self._loop.time() + seconds
        if self._timer_at > deadline:
            self.cancel()
            self._start_timer()

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = math.inf

    def _start_timer(self) -> None:
        self._timer_at = self.at
        self._timer = self._loop.call_at(self.at, self._look)

    def _look(self) -> None:
        """Expire, or look again; while a request is answered there is no timer, and its end sets one."""
        self._timer = None
        self._timer_at = math.inf
        if self.at <= self._loop.time():
            self._expire()
        elif self.at < math.inf:
            self._start_timer()


class Connection(Protocol):
    """What is needed of a connection here."""

    transport: Any
    loop: asyncio.AbstractEventLoop
    write_timeout_s: float
    most_stalled: int
    closed_at_once: int

    @property
    def waiting_since(self) -> float:
        """Loop time since when no request has been complete here; infinite while one is answered."""

    def close_now(self) -> None:
        """Close, without waiting for a client that does not read what it was sent."""


#: Clients that do not take what was written, since when, and what ends it; one for a process, whatever its servers.
_stalled: dict[Connection, asyncio.TimerHandle] = {}


def is_stalled(connection: Connection) -> bool:
    """Return whether the client is being waited for."""
    return connection in _stalled


def wait_for(connection: Connection) -> None:
    """Give the client a while to take its answer; when there are many, the longest at it makes room."""
    _wait(connection)
    if len(_stalled) > connection.most_stalled:
        cut_off(next(iter(_stalled)))


def forget(connection: Connection) -> None:
    """Wait no more: the client has taken nearly everything, or the connection is lost."""
    if (timer := _stalled.pop(connection, None)) is not None:
        timer.cancel()


def cut_off(connection: Connection) -> None:
    """Close with a reset: for a client that never reads, the kernel would keep megabytes otherwise.

    It is no longer counted from here on: ``connection_lost`` comes a turn of the loop later, and a crowd that stalls
    within one turn would find the same client to make room each time.
    """
    forget(connection)
    connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.transport.abort()


def unsent_bytes(transport: Any) -> int:
    """Return how many bytes the kernel holds that the client has not taken; 0 where the system does not say."""
    left = 0
    with suppress(OSError):  # closed already; no such question here
        descriptor = transport.get_extra_info("socket").fileno()
        left = int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    return left


def _wait(connection: Connection) -> None:
    left = connection.transport.get_write_buffer_size()
    _stalled[connection] = connection.loop.call_later(connection.write_timeout_s, _look, connection, left)


def _look(connection: Connection, left: int) -> None:
    """Cut the client off, unless it has taken its share of the ``left`` bytes."""
    if left - connection.transport.get_write_buffer_size() < TAKEN_BYTES:
        cut_off(connection)
    else:
        _wait(connection)


def make_room(connections: set[Any], newcomer: Connection) -> None:
    """Close the connections that have waited longest for their (next) request.

    Args:
        connections: those of this worker; what is closed is taken out.
        newcomer: closed if no other waits.
    """
    others = [one for one in connections if one.waiting_since < math.inf]
    for one in nsmallest(newcomer.closed_at_once, others, key=lambda one: one.waiting_since) or [newcomer]:
        connections.discard(one)
        one.close_now()
