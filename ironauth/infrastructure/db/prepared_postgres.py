"""Statements that PostgreSQL parses and plans once for each connection; imported only where psycopg is in use."""

import re
from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result

from ironauth.infrastructure.telemetry.logs import get_logger

_DONE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)
_PLACEHOLDER = re.compile("%[s%]")
#: Statements that are prepared on a connection at once, about twice what a busy worker asks; the oldest makes room.
MOST_PREPARED = 300


class PreparedCursor:
    """A cursor that prepares what it executes, once for its connection; one for each connection.

    One call of libpq for each statement, and psycopg's adapters: half the CPU time of psycopg's own cursor, which gives
    the interpreter up three times for a statement (docs/decisions/preparing-and-batching.md). Texts count once for each
    set of types of their values (a NULL, the width of an integer). What the server has forgotten (DISCARD ALL) is an
    error after which the unit of work is repeated on a fresh connection.
    """

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.rowcount = -1
        self._raw = raw
        self._pg = raw.pgconn
        self._adapt = Transformer(raw)
        self._names: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._numbers = count()
        self._text = ""
        self._rows = 0
        self._result: pq.abc.PGresult | None = None

    @property
    def description(self) -> list[tuple[str]]:
        """The names of the columns that were read."""
        result = self._result
        names = [result.fname(at) or b"" for at in range(result.nfields)] if result else []
        return [(name.decode(),) for name in names]

    @property
    def _query(self) -> SimpleNamespace:
        """What Django's log of queries looks for: the text without values."""
        return SimpleNamespace(query=self._text.encode())

    def execute(self, query: str, params: Sequence[Any]) -> None:
        """Execute ``query``, in a transaction unless the connection is in autocommit mode.

        Args:
            query: A statement with Django's placeholders, whose text is always the same.
            params: A value for each placeholder. They are sent beside the text.

        Raises:
            psycopg.Error: what psycopg's own cursor raises.
        """
        if not self._raw.autocommit and self._pg.transaction_status == pq.TransactionStatus.IDLE:
            self._take(self._pg.exec_(_begin(self._raw)))
        self._text = query
        values: Any = self._adapt.dump_sequence(params, [PyFormat.AUTO] * len(params))  # None, too, for NULL
        name = self._name(query, self._adapt.types or ())
        self._take(self._pg.exec_prepared(name, values, self._adapt.formats))

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


def _begin(raw: psycopg.Connection[Any]) -> bytes:
    """Return what begins a transaction of the isolation level that DATABASE_URL asks for, the server's own without."""
    level = raw.isolation_level
    return b"BEGIN" if level is None else f"BEGIN ISOLATION LEVEL {level.name.replace('_', ' ')}".encode()


def _numbered(query: str) -> bytes:
    """Return the text with PostgreSQL's own placeholders: ``$1``, ``$2``."""
    at = iter(range(1, len(query)))
    return _PLACEHOLDER.sub(lambda found: "%" if found[0] == "%%" else f"${next(at)}", query).encode()


class _Known(NamedTuple):
    """A thread's connection, and its cursor if it leads to one server process, and not to a pooler."""

    raw: psycopg.Connection[Any]
    cursor: PreparedCursor | None


_known: WeakKeyDictionary[BaseDatabaseWrapper, _Known] = WeakKeyDictionary()


def cursor(connection: BaseDatabaseWrapper) -> PreparedCursor | None:
    """Return the cursor that prepares, None where a pooler is in between. One query for each new connection."""
    raw: psycopg.Connection[Any] = connection.connection
    known = _known.get(connection)
    if known is None or known.raw is not raw:
        with connection.wrap_database_errors, raw.cursor() as asking:
            # A pooler invents the process id it tells its clients: it belongs to the key for cancelling requests.
            row = asking.execute("SELECT pg_backend_pid()").fetchone()
        is_direct = row is not None and row[0] == raw.info.backend_pid
        known = _known[connection] = _Known(raw, PreparedCursor(raw) if is_direct else None)
        if not is_direct:
            get_logger().info("prepared_statements_off", reason="a connection pooler is in between")
    return known.cursor
