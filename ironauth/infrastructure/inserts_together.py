"""Inserts of one unit of work as one statement, where a statement is a round trip.

On PostgreSQL each costs the client 0.1 ms of CPU; SQLite is asked one after another.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS, connections

from ironauth.infrastructure import prepared_statements
from ironauth.infrastructure.database import about_to_commit

if TYPE_CHECKING:
    from ironauth.infrastructure.fixed_queries import FixedDelete, FixedInsert, FixedUpdate

#: An insert (or an update), its values, and what hears the number that the database gave the row.
type Row = tuple["FixedInsert | FixedUpdate", dict[str, Any], Callable[[int], None] | None]
type Write = "FixedUpdate | FixedDelete"

#: By the inserts in it, which of them are numbered, and the other writes; a handful of combinations.
_texts: dict[tuple[Any, ...], str] = {}
_here = threading.local()


@contextmanager
def inserted_together() -> Iterator[None]:
    """Hold back the rows of ``FixedInsert`` in this block, and insert them at its end, in the same transaction.

    A fixed update or delete that runs in it takes what is held back along, as one statement: it must not be about
    those rows. Whatever other fixed query runs inserts them first; nothing else may look for that. An error of
    an insert is raised at the end, and none is inserted after another error: the transaction is over then. Outside
    of a transaction, and on other databases, each is inserted at once.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.vendor != "postgresql" or not connection.in_atomic_block or pending() is not None:
        yield
        return
    _here.pending = []
    try:
        yield
        insert_pending()
    finally:
        del _here.pending


def pending() -> list[Row] | None:
    """Return what is held back on this thread; None outside of such a block."""
    return getattr(_here, "pending", None)


def insert_pending() -> None:
    """Insert what is held back. One query, none for nothing."""
    if pending():
        run_with_pending((), {})


def run_with_pending(writes: Sequence[Write], given: dict[str, Any]) -> list[int]:
    """Run ``writes`` and insert what is held back, on PostgreSQL; return how many rows each of them changed. One query.

    None of them may look at what another one changes.
    """
    rows = pending() or []
    if rows:
        _here.pending = []
    connection = connections[DEFAULT_DB_ALIAS]
    inserts = [insert.prepared(connection) for insert, *_ in rows]
    others = [write.prepared(connection) for write in writes]
    numbered = [then for *_, then in rows if then is not None]
    key = (*((insert, then is None) for insert, _, then in rows), *writes)
    text = _texts.get(key)
    if text is None:
        text = _texts[key] = _together(
            [(one.sql, then is not None) for one, (*_, then) in zip(inserts, rows, strict=True)],
            [one.sql for one in others],
        )
    parameters = [
        value for one, (_, values, _) in zip(inserts, rows, strict=True) for value in one.parameters(values, connection)
    ]
    parameters += [value for one in others for value in one.parameters(given, connection)]
    about_to_commit()
    asked = bool(others or numbered)
    answer = prepared_statements.run(connection, text, parameters, lambda cursor: cursor.fetchone() if asked else ())
    for then, number in zip(numbered, answer[len(others) :], strict=True):
        then(int(number))
    return [int(count) for count in answer[: len(others)]]


def _together(inserts: list[tuple[str, bool]], writes: list[str]) -> str:
    """Return one statement of these, whose row has how many rows each write changed, and the numbers asked for."""
    parts = [f"i{at} AS ({sql})" for at, (sql, _) in enumerate(inserts)]
    parts += [f"w{at} AS ({sql} RETURNING 1)" for at, sql in enumerate(writes)]
    asked = [f"(SELECT count(*) FROM w{at})" for at in range(len(writes))]  # noqa: S608 - numbers
    asked += [f"(SELECT * FROM i{at})" for at, (_, numbered) in enumerate(inserts) if numbered]  # noqa: S608 - numbers
    if asked:
        return f"WITH {', '.join(parts)} SELECT {', '.join(asked)}"
    last, _ = inserts[-1]
    return f"WITH {', '.join(parts[:-1])} {last}" if parts[1:] else last
