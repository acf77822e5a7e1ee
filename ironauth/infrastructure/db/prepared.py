"""Statements that are parsed and planned once: by PostgreSQL for each connection, for SQLite by this process.

Measured on the join that a refresh reads, 1,000 times in a row on one connection: 420 µs planned anew each time, 215 µs
prepared (half of it in the server's own process). Django binds parameters in the client, so no two statements are the
same text, and a prepared one would hold their values; here the server binds them. SQLite's driver recognises a text by
itself. Turning Django's placeholders into SQLite's takes 9 µs each time, so it is done once.
"""

import re
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.sqlite3.base import SQLiteCursorWrapper

_NAMED: Final = re.compile(r"%\((\w+)\)s")
#: Texts for SQLite by Django's; one for each fixed query, of which there are about a hundred.
_converted: dict[str, str] = {}


class _ConvertedCursor(SQLiteCursorWrapper):
    """A cursor that remembers what each text is in SQLite's own spelling."""

    def convert_query(self, query: str, *, param_names: Any = None) -> str:
        known = _converted.get(query)
        if known is None:
            known = _converted[query] = str(super().convert_query(query, param_names=param_names))
        return known


def run[T](connection: BaseDatabaseWrapper, sql: str, parameters: list[Any], take: Callable[[Any], T]) -> T:
    """Execute a statement whose text is always the same, and return what ``take`` reads from its cursor.

    It is prepared on PostgreSQL, unless a pooler is in between: there the next statement may reach another server
    process, which does not know it, or knows another under its name. Errors are Django's. Django's own cursor is used
    only where queries are counted or watched: it takes a third of the time of a small statement.

    Args:
        connection: Django's connection, of this thread.
        sql: The statement, with ``%s`` for each parameter.
        parameters: Their values.
        take: Reads the cursor before it is closed.
    """
    made: Any = connection
    made.close_if_health_check_failed()  # as Django does before every statement
    connection.ensure_connection()
    watched = made.queries_logged or bool(made.execute_wrappers)
    with made.wrap_database_errors:
        raw = _preparing_cursor(connection)
    if raw is not None and not watched:
        return _straight(made, raw, sql, parameters, take)
    cursor = connection.cursor() if raw is None else made._prepare_cursor(raw)  # noqa: SLF001 - counts, logs as everywhere
    with closing(cursor):
        cursor.execute(sql, parameters)
        return take(cursor)


def all_rows(cursor: Any) -> list[tuple[Any, ...]]:
    """Take every row."""
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def nothing(_cursor: Any) -> None:
    """Take nothing: there are no rows, or they do not matter."""


class CompiledText:
    """A statement in SQL whose text is always the same: for what the ORM cannot say. Parameters are ``%(name)s``.

    One that writes belongs in a transaction: it does not tell the pool, as a fixed update does.
    """

    def __init__(self, text: str) -> None:
        self._names = _NAMED.findall(text)
        self._text = _NAMED.sub("%s", text)

    def rows(self, **given: str | float) -> list[tuple[Any, ...]]:
        """Return the rows it gives on this thread's connection. One query."""
        return run(connections[DEFAULT_DB_ALIAS], self._text, [given[name] for name in self._names], all_rows)

    def run(self, **given: str | float) -> None:
        """Execute it on this thread's connection. One query."""
        run(connections[DEFAULT_DB_ALIAS], self._text, [given[name] for name in self._names], nothing)


def _preparing_cursor(connection: Any) -> Any:
    """Return the driver's cursor that knows a text again; None where a pooler is in between."""
    if connection.vendor == "sqlite":
        return connection.connection.cursor(factory=_ConvertedCursor)
    # psycopg, 9 MiB that SQLite does not need; Django's engine has loaded it long before.
    from ironauth.infrastructure.db import prepared_postgres  # noqa: PLC0415 - see above

    return prepared_postgres.cursor(connection)


def _straight[T](connection: Any, raw: Any, sql: str, parameters: list[Any], take: Callable[[Any], T]) -> T:
    """Execute as Django's ``CursorWrapper`` does, without one."""
    connection.validate_thread_sharing()
    connection.validate_no_broken_transaction()
    with connection.wrap_database_errors, closing(raw):
        raw.execute(sql, parameters)
        return take(raw)
