"""Servers that say nothing any more: connections to them are cut, and the threads that wait there come back.

A machine that stands still (its host moves it, its disk hangs) keeps its connections. Its kernel confirms what arrives,
so that no time limit of TCP ends, and libpq waits for as long as that lasts. Each unit of work would keep its thread,
until none was left to use the server that took over.
"""

import math
import os
import socket
import threading
import time
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ironauth.infrastructure.telemetry.logs import get_logger

#: How long a unit of work may go on when its caller has been told 503; seconds. A slow server answers by then.
SILENT_S: Final = 10.0


class Waits:
    """The units of work that run in this process, each with its connection; and every connection there is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._units: dict[int, tuple[float, BaseDatabaseWrapper]] = {}
        self._opened: WeakSet[BaseDatabaseWrapper] = WeakSet()

    def note_opened(self, connection: BaseDatabaseWrapper, **_: Any) -> None:
        """Remember a connection that was opened just now; a receiver of Django's signal."""
        if connection.vendor == "postgresql":
            with self._lock:
                self._opened.add(connection)

    def begin(self, deadline: float) -> None:
        """Let the connections to this thread's server be cut from ``SILENT_S`` after the deadline on, until ``end``.

        Args:
            deadline: When the caller of the unit that begins gives up, by ``time.monotonic()``.
        """
        self._units[threading.get_ident()] = deadline + SILENT_S, connections[DEFAULT_DB_ALIAS]

    def end(self) -> None:
        """Say that this thread's unit has ended."""
        with self._lock:  # not while its connection is being cut: the next unit would find it so
            self._units.pop(threading.get_ident(), None)

    def cut(self) -> None:
        """Cut every connection to the servers that units have waited for too long; cheap where none has."""
        now = time.monotonic()
        if all(until > now for until, _ in tuple(self._units.values())):
            return
        with self._lock:
            late = {thread: unit for thread, (until, unit) in self._units.items() if until <= now}
            self._units |= {thread: (math.inf, unit) for thread, unit in late.items()}
            silent = {peer for unit in late.values() if (peer := _peer(unit)) is not None}
            gone = [connection for connection in self._opened if _peer(connection) in silent]
            for connection in gone:
                _shut(connection)
        if gone:
            get_logger().warning("database_silent", servers=sorted(map(str, silent)), connections=len(gone))


def _handle(connection: BaseDatabaseWrapper) -> socket.socket | None:
    """Return another handle of the connection's socket; None where it is not open."""
    try:
        return socket.socket(fileno=os.dup(connection.connection.fileno()))
    except Exception:  # noqa: BLE001 - closed, also just now: an error of psycopg, which SQLite need not load
        return None


def _peer(connection: BaseDatabaseWrapper) -> object | None:
    """Return the address of the server; None for a connection that is not open."""
    handle = _handle(connection)
    if handle is None:
        return None
    with handle, suppress(OSError):
        return handle.getpeername() or "local"
    return None


def _shut(connection: BaseDatabaseWrapper) -> None:
    """End both directions: a thread that waits for the server hears that it is gone."""
    handle = _handle(connection)
    if handle is not None:
        with handle, suppress(OSError):
            handle.shutdown(socket.SHUT_RDWR)


#: The process's own.
waits = Waits()
connection_created.connect(waits.note_opened, dispatch_uid="ironauth.silence")
