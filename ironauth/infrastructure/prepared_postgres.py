"""Statements that PostgreSQL parses and plans once for each connection; imported only where psycopg is in use."""

import sys
from typing import Any, Self
from weakref import WeakKeyDictionary

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

from ironauth.infrastructure.logs import get_logger

#: Prepared only when asked for: psycopg prepares by itself what it has seen that often.
_ONLY_WHEN_ASKED = sys.maxsize
#: Whether a connection leads to one server process, and not to a pooler.
_direct: WeakKeyDictionary[psycopg.Connection[Any], bool] = WeakKeyDictionary()


class PreparedCursor(psycopg.Cursor[Any]):
    """A cursor that prepares what it executes, once for its connection."""

    def execute(self, query: Any, params: Any = None, **_: Any) -> Self:
        """Execute ``query``, prepared; raises what psycopg raises."""
        connection = self.connection
        before = connection.prepare_threshold
        # For this statement alone: with a threshold, psycopg counts all others by their text, and Django's have the
        # values in it, password hashes too.
        connection.prepare_threshold = _ONLY_WHEN_ASKED
        try:
            return super().execute(query, params, prepare=True)
        finally:
            connection.prepare_threshold = before


def cursor(connection: BaseDatabaseWrapper) -> PreparedCursor | None:
    """Return a cursor that prepares, None where a pooler is in between."""
    return PreparedCursor(connection.connection) if is_direct(connection) else None


def is_direct(connection: BaseDatabaseWrapper) -> bool:
    """Return whether this connection leads to one server process; asked once for each, by one query."""
    raw: psycopg.Connection[Any] = connection.connection
    known = _direct.get(raw)
    if known is None:
        with connection.wrap_database_errors, raw.cursor() as asking:
            # A pooler invents the process id it tells its clients: it belongs to the key for cancelling requests.
            row = asking.execute("SELECT pg_backend_pid()").fetchone()
        known = _direct[raw] = row is not None and row[0] == raw.info.backend_pid
        if not known:
            get_logger().info("prepared_statements_off", reason="a connection pooler is in between")
    return known
