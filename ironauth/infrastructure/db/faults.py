"""Which database errors mean "try again" or "not now", rather than a mistake in this program."""

import sqlite3
from enum import Enum, auto

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, ProgrammingError


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
    """Return what ``error``, raised by Django's database layer, means; ``reader``: on a query_only connection."""
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
