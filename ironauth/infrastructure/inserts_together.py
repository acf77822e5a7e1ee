"""Inserts of one unit of work as one statement, where a statement is a round trip.

On PostgreSQL each costs the client 0.1 ms of CPU; SQLite is asked one after another.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS, connections

from ironauth.infrastructure import prepared_statements
from ironauth.infrastructure.database import about_to_commit

if TYPE_CHECKING:
    from ironauth.infrastructure.fixed_queries import FixedInsert

type Row = tuple["FixedInsert", dict[str, Any]]

#: By the inserts in it; a handful of combinations.
_texts: dict[tuple["FixedInsert", ...], str] = {}
_here = threading.local()


@contextmanager
def inserted_together() -> Iterator[None]:
    """Hold back the rows of ``FixedInsert`` in this block, and insert them at its end, in the same transaction.

    Whatever other fixed query runs in it inserts what is held back first; nothing else may look for that. An error of
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
    rows = pending()
    if not rows:
        return
    _here.pending = []
    connection = connections[DEFAULT_DB_ALIAS]
    compiled = [insert.prepared(connection) for insert, _ in rows]
    inserts = tuple(insert for insert, _ in rows)
    text = _texts.get(inserts)
    if text is None:
        *others, last = (one.sql for one in compiled)
        parts = ", ".join(f"i{at} AS ({sql})" for at, sql in enumerate(others))
        text = _texts[inserts] = f"WITH {parts} {last}" if others else last
    about_to_commit()
    parameters = [
        value for one, (_, given) in zip(compiled, rows, strict=True) for value in one.parameters(given, connection)
    ]
    prepared_statements.run(connection, text, parameters, lambda _: None)
