"""Statements that are parsed and planned once: by PostgreSQL for each connection, for SQLite by this process.

Measured on the join that a refresh reads, 1,000 times in a row on one connection: 420 µs planned anew each time, 215 µs
prepared (half of it in the server's own process). Django binds parameters in the client, so that no two statements
are the same text; here they are bound by the server. A rollback makes psycopg forget them: they are prepared again.
SQLite's driver knows a text again by itself; what it takes to turn Django's placeholders into SQLite's, 9 µs each time,
is done once.
"""

from contextlib import closing
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import SQLiteCursorWrapper

#: Texts for SQLite by Django's; one for each fixed query, of which there are about a hundred.
_converted: dict[str, str] = {}


class _ConvertedCursor(SQLiteCursorWrapper):
    """A cursor that remembers what each text is in SQLite's own spelling."""

    def convert_query(self, query: str, *, param_names: Any = None) -> str:
        known = _converted.get(query)
        if known is None:
            known = _converted[query] = str(super().convert_query(query, param_names=param_names))
        return known


def cursor(connection: BaseDatabaseWrapper) -> Any:
    """Return a context manager with Django's cursor for statements whose text is always the same.

    They are prepared on PostgreSQL, unless a pooler is in between: there the next statement may reach another
    server process, which does not know it, or knows another under its name.
    """
    made: Any = connection
    made.close_if_health_check_failed()  # as Django does before every statement
    connection.ensure_connection()
    if connection.vendor == "sqlite":
        with made.wrap_database_errors:
            raw = connection.connection.cursor(factory=_ConvertedCursor)
    else:
        # psycopg, 9 MiB that SQLite does not need; Django's engine has loaded it long before.
        from ironauth.infrastructure import prepared_postgres  # noqa: PLC0415 - see above

        if not prepared_postgres.is_direct(connection):
            return connection.cursor()
        with made.wrap_database_errors:
            raw = prepared_postgres.PreparedCursor(connection.connection)
    return closing(made._prepare_cursor(raw))  # noqa: SLF001 - errors, query counts and debug logs as everywhere
