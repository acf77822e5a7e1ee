"""Statements that PostgreSQL parses and plans once for each connection; imported only where psycopg is in use."""

import re
import sys
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result

from ironauth.infrastructure.telemetry.logs import get_logger

#: Prepared only when asked for: psycopg prepares by itself what it has seen that often.
_ONLY_WHEN_ASKED = sys.maxsize
#: invalid_sql_statement_name: psycopg forgets everything that is prepared when a transaction is rolled back.
_FORGOTTEN = b"26000"
_DONE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)
_PLACEHOLDER = re.compile("%[s%]")
#: Statements that are prepared on a connection at once, about twice what a busy worker asks; the oldest makes room.
MOST_PREPARED = 300


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


class DirectCursor:
    """The same in autocommit mode: one call of libpq for each statement, and psycopg's adapters.

    A statement costs half the CPU time of a cursor's, which gives the interpreter up three times for it, not once.
    One for each connection. Texts count once for each set of types of their values (a NULL, the width of an integer).
    """

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.rowcount = -1
        self._pg = raw.pgconn
        self._adapt = Transformer(raw)
        self._names: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._numbers = count()  # no name twice: what was prepared between a rollback and its discovery is still there
        self._rows = 0
        self._result: pq.abc.PGresult | None = None

    @property
    def description(self) -> list[tuple[str]]:
        """The names of the columns that were read."""
        result = self._result
        names = [result.fname(at) or b"" for at in range(result.nfields)] if result else []
        return [(name.decode(),) for name in names]

    def execute(self, query: str, params: Sequence[Any]) -> None:
        """Execute ``query``; raises what psycopg raises."""
        values: Any = self._adapt.dump_sequence(params, [PyFormat.AUTO] * len(params))  # None, too, for NULL
        types, formats = self._adapt.types or (), self._adapt.formats
        result = self._pg.exec_prepared(self._name(query, types), values, formats)
        if result.error_field(pq.DiagnosticField.SQLSTATE) == _FORGOTTEN:  # nothing was executed
            self._names.clear()
            result = self._pg.exec_prepared(self._name(query, types), values, formats)
        self._take(result)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows of what was executed."""
        return self._adapt.load_rows(0, self._rows, tuple)

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return its first row."""
        return self._adapt.load_row(0, tuple) if self._rows else None

    def close(self) -> None:
        """Let go of what was read."""
        self._result = None
        self._adapt.set_pgresult(None)

    def _name(self, query: str, types: tuple[int, ...]) -> bytes:
        """Return the name under which ``query`` is prepared for parameters of these types."""
        name = self._names.get((query, types))
        if name is None:
            if len(self._names) >= MOST_PREPARED:
                # An error says that it is gone already, or the connection, of which the next call tells.
                self._pg.exec_(b"DEALLOCATE " + self._names.pop(next(iter(self._names))))
            name = f"fixed_{next(self._numbers)}".encode()
            self._take(self._pg.prepare(name, _numbered(query), types))
            self._names[query, types] = name
        return name

    def _take(self, result: pq.abc.PGresult) -> None:
        """Make ``result`` the one that is read; raise the error it stands for."""
        if result.status not in _DONE:
            raise error_from_result(result, self._adapt.encoding)
        self._result = result
        self._adapt.set_pgresult(result)
        self._rows = result.ntuples
        self.rowcount = result.command_tuples if result.command_tuples is not None else -1


def _numbered(query: str) -> bytes:
    """Return the text with PostgreSQL's own placeholders: ``$1``, ``$2``."""
    at = iter(range(1, len(query)))
    return _PLACEHOLDER.sub(lambda found: "%" if found[0] == "%%" else f"${next(at)}", query).encode()


class _Known(NamedTuple):
    """A thread's connection; ``direct``: the cursor of one that leads to one server process, and not to a pooler."""

    raw: psycopg.Connection[Any]
    direct: DirectCursor | None


_known: WeakKeyDictionary[BaseDatabaseWrapper, _Known] = WeakKeyDictionary()


def cursor(connection: BaseDatabaseWrapper, *, watched: bool) -> PreparedCursor | DirectCursor | None:
    """Return a cursor that prepares, None where a pooler is in between; ``watched``: it has to be psycopg's own."""
    direct = _direct_of(connection)
    if direct is None:
        return None
    raw: psycopg.Connection[Any] = connection.connection
    return PreparedCursor(raw) if watched or not raw.autocommit else direct


def _direct_of(connection: BaseDatabaseWrapper) -> DirectCursor | None:
    """Return the connection's cursor if it leads to one server process; asked once for each, by one query."""
    raw: psycopg.Connection[Any] = connection.connection
    known = _known.get(connection)
    if known is None or known.raw is not raw:
        with connection.wrap_database_errors, raw.cursor() as asking:
            # A pooler invents the process id it tells its clients: it belongs to the key for cancelling requests.
            row = asking.execute("SELECT pg_backend_pid()").fetchone()
        is_direct = row is not None and row[0] == raw.info.backend_pid
        known = _known[connection] = _Known(raw, DirectCursor(raw) if is_direct else None)
        if not is_direct:
            get_logger().info("prepared_statements_off", reason="a connection pooler is in between")
    return known.direct
