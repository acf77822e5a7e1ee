"""Which database errors mean "try again" or "not now", and what the log tells of a database that is away."""

import sqlite3
import threading
import time
from enum import Enum, auto
from typing import Final

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, ProgrammingError

from ironauth.infrastructure.telemetry.logs import get_logger


class Fault(Enum):
    """What a failed unit of work is worth."""

    #: The connection is gone or unusable, and with it everything not committed: a fresh one may work.
    BROKEN = auto()
    #: The server rolled the transaction back to let another pass (deadlock, serialization): it may work now.
    CONFLICT = auto()
    #: The database is reachable but cannot do it now: locked, full, cancelled.
    BUSY = auto()
    #: There is no file to be opened where the database should be: nothing changes before somebody acts.
    UNREACHABLE = auto()
    #: A unit declared as read tried to write.
    READ_WROTE = auto()
    #: Anything else: constraint, data, programming.
    OTHER = auto()


#: PostgreSQL appendix A; whole classes first. 08: connection exception; 53: insufficient resources (disk full,
#: out of memory); 58: system error (I/O).
_CLASSES = {"08": Fault.BROKEN, "53": Fault.BUSY, "58": Fault.BUSY}
_STATES = {
    "53300": Fault.BROKEN,  # too_many_connections, met while connecting
    "57P01": Fault.BROKEN,  # admin_shutdown
    "57P02": Fault.BROKEN,  # crash_shutdown
    "57P03": Fault.BROKEN,  # cannot_connect_now: starting up or shutting down
    "57P05": Fault.BROKEN,  # idle_session_timeout
    "25P03": Fault.BROKEN,  # idle_in_transaction_session_timeout
    "25006": Fault.BROKEN,  # read_only_sql_transaction: the old primary after a failover
    "40001": Fault.CONFLICT,  # serialization_failure
    "40P01": Fault.CONFLICT,  # deadlock_detected
    "55P03": Fault.BUSY,  # lock_not_available
    "57014": Fault.BUSY,  # query_canceled, also by statement_timeout
}
#: What this connection had prepared is gone, or there already: invalid_sql_statement_name and
#: duplicate_prepared_statement. Django calls both programming errors; a fresh connection knows nothing wrong.
_PREPARED = frozenset({"26000", "42P05"})
#: Primary result codes, https://www.sqlite.org/rescode.html
_SQLITE_BUSY = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_PROTOCOL,
    }
)


def classify(error: Exception, *, reader: bool) -> Fault:
    """Return what ``error``, raised by Django's database layer, means; ``reader``: on a query_only connection.

    Args:
        error: What was raised, with the driver's own error as its cause.
        reader: Whether the connection was query_only.
    """
    if isinstance(error, InterfaceError):
        # psycopg raises it for a closed connection, and also for misuse of a cursor, which is not a fault.
        return Fault.BROKEN if "connection" in str(error).lower() else Fault.OTHER
    cause = error.__cause__
    if isinstance(error, IntegrityError | DataError | ProgrammingError) or not isinstance(error, DatabaseError):
        return Fault.BROKEN if getattr(cause, "sqlstate", None) in _PREPARED else Fault.OTHER
    if isinstance(cause, sqlite3.Error):
        return _classify_sqlite(cause, reader=reader)
    state: str | None = getattr(cause, "sqlstate", None)
    if state is None:
        # libpq's own errors carry none: refused, timed out, closed by the server.
        return Fault.BROKEN if cause is not None and type(cause).__module__.startswith("psycopg") else Fault.OTHER
    if state == "0A000" and "cached plan" in str(cause):  # a migration changed what a prepared statement returns
        return Fault.CONFLICT
    return _STATES.get(state) or _CLASSES.get(state[:2], Fault.OTHER)


def _classify_sqlite(cause: sqlite3.Error, *, reader: bool) -> Fault:
    code: int = getattr(cause, "sqlite_errorcode", 0)
    if reader and code == sqlite3.SQLITE_READONLY:  # the plain code: the extended ones tell of the file system
        return Fault.READ_WROTE
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_CANTOPEN:
        return Fault.UNREACHABLE
    return Fault.BUSY if primary in _SQLITE_BUSY else Fault.OTHER


def refers_to_nothing(error: IntegrityError) -> bool:
    """Return whether a row was refused because what it refers to does not exist (any more)."""
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return cause.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
    return getattr(cause, "sqlstate", None) == "23503"  # foreign_key_violation


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
