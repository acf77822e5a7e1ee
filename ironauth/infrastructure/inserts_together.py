"""Inserts of one unit of work as one statement, where a statement is a round trip.

On PostgreSQL each costs the client 0.1 ms of CPU; SQLite is asked one after another.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.transaction import TransactionManagementError

from ironauth.infrastructure import prepared_statements
from ironauth.infrastructure.database import about_to_commit

if TYPE_CHECKING:
    from ironauth.infrastructure.fixed_queries import FixedInsert, FixedSelect, FixedUpdate

type Row = tuple["FixedInsert", dict[str, Any]]

#: By what is in them; a handful of combinations.
_texts: dict[tuple[object, ...], str] = {}
_here = threading.local()


class OnlyIf(NamedTuple):
    """A condition of inserts: ``locks`` finds a row, which it locks, and then ``changes`` changes one.

    ``given``: the parameters of both.
    """

    locks: "FixedSelect"
    changes: "FixedUpdate"
    given: dict[str, Any]


class Block:
    """What is held back on a thread. ``alone``: outside of a transaction; then its one statement is a commit."""

    def __init__(self, *, alone: bool, only_if: OnlyIf | None) -> None:
        self.alone = alone
        self.only_if = only_if
        self.inserted = False
        self.rows: list[Row] = []
        self.when_written: list[Callable[[], object]] = []


@contextmanager
def inserted_together() -> Iterator[None]:
    """Hold back the rows of ``FixedInsert`` in this block, and insert them at its end, all or none.

    In a transaction whatever other fixed query runs in the block inserts what is held back first; nothing else may look
    for that. Outside of one, where ``write_together`` runs a unit, such a query raises ``TransactionManagementError``:
    what is held back would be committed without the rest. An error of an insert is raised at the end, and none is
    inserted after another error. On other databases each is inserted at once.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.vendor != "postgresql" or _block() is not None:
        yield
        return
    with _holding(Block(alone=not connection.in_atomic_block, only_if=None)):
        yield


@contextmanager
def inserted_if(only_if: OnlyIf) -> Iterator[Block]:
    """Do the same on PostgreSQL, outside of a transaction, for rows that are inserted only if that is so.

    Condition, change and inserts are one statement; ``inserted`` says at the end whether it did anything.
    """
    with _holding(Block(alone=True, only_if=only_if)) as block:
        yield block


def is_alone() -> bool:
    """Return whether a statement of this thread is a commit, and one statement can hold several inserts."""
    connection = connections[DEFAULT_DB_ALIAS]
    return connection.vendor == "postgresql" and not connection.in_atomic_block


def hold_back(row: Row) -> bool:
    """Keep the row for the end of the block that this thread is in; return whether it is in one."""
    block = _block()
    if block is not None:
        block.rows.append(row)
    return block is not None


def insert_pending() -> None:
    """Insert what is held back. One query, none for nothing. Raises ``TransactionManagementError``; see above."""
    block = _block()
    if block is None or not block.rows:
        return
    if block.alone:
        raise TransactionManagementError("Another query between inserts that are to be one statement: use write()")
    _insert(block)


def when_written(callback: Callable[[], object]) -> None:
    """Call this once what the unit writes is committed, and not at all when it is not; its errors are logged."""
    block = _block()
    if block is not None and block.alone:
        block.when_written.append(lambda: transaction.on_commit(callback, robust=True))
    else:
        transaction.on_commit(callback, robust=True)


@contextmanager
def _holding(block: Block) -> Iterator[Block]:
    _here.block = block
    try:
        yield block
        _insert(block)
    finally:
        del _here.block
    if block.inserted:
        for callback in block.when_written:
            callback()


def _block() -> Block | None:
    return getattr(_here, "block", None)


def _insert(block: Block) -> None:
    rows, block.rows = block.rows, []
    if not rows:
        return
    connection = connections[DEFAULT_DB_ALIAS]
    first = block.only_if
    conditions = [(first.locks, first.given), (first.changes, first.given)] if first else []
    parts = [(query.prepared(connection), given) for query, given in (*conditions, *rows)]
    key = tuple(query for query, _ in (*conditions, *rows))
    text = _texts.get(key)
    if text is None:
        texts = [compiled.sql for compiled, _ in parts]
        text = _texts[key] = _joined(_conditional(*texts) if first else texts)
    about_to_commit()
    parameters = [value for compiled, given in parts for value in compiled.parameters(given, connection)]
    block.inserted = prepared_statements.run(connection, text, parameters, lambda cursor: cursor.rowcount > 0)


def _joined(texts: list[str]) -> str:
    """Return one statement of several, of which a later one may name an earlier one's rows: ``w0``, ``w1``."""
    *others, last = texts
    parts = ", ".join(f"w{at} AS ({text})" for at, text in enumerate(others))
    return f"WITH {parts} {last}" if others else last


def _conditional(locks: str, changes: str, *inserts: str) -> list[str]:
    """Return the same texts, each doing nothing unless the one before (an insert: the change) has found a row.

    PostgreSQL looks at what it locks once more when somebody else held it: a row that was changed meanwhile so that it
    does not match any more is not found (READ COMMITTED).
    """
    changed = f"{changes} AND EXISTS (SELECT 1 FROM w0) RETURNING 1"  # noqa: S608 - texts of compiled queries
    return [
        f"{locks} FOR NO KEY UPDATE",  # the ORM says so inside of transactions only; this is one by itself
        changed,
        *(f"{text.replace(' VALUES (', ' SELECT ', 1).removesuffix(')')} FROM w1" for text in inserts),  # noqa: S608 - as above
    ]
