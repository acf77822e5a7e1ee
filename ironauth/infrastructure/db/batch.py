"""Inserts of one unit of work as one statement, where a statement is a round trip.

On PostgreSQL each costs the client 0.1 ms of CPU; SQLite is asked one after another.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.transaction import TransactionManagementError

from ironauth.infrastructure.db import prepared as prepared_statements
from ironauth.infrastructure.db.compiled_sql import CompiledQuery
from ironauth.infrastructure.db.unit_of_work import about_to_commit

#: An insert (or an update), its values, and what hears the number that the database gave the row.
type Row = tuple[CompiledQuery, dict[str, Any], Callable[[int], None] | None]
#: An update or a delete.
type Write = CompiledQuery

#: By what is in them (an insert: and whether its number is asked for); a handful of combinations.
_texts: dict[tuple[object, ...], str] = {}
_here = threading.local()


class OnlyIf(NamedTuple):
    """A condition of inserts: ``locks`` finds a row, which it locks, and then ``changes`` changes one.

    ``given``: the parameters of both.
    """

    locks: CompiledQuery
    changes: CompiledQuery
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
def batch() -> Iterator[None]:
    """Hold back the rows of ``CompiledInsert`` in this block, and insert them at its end, all or none.

    In a transaction a fixed update or delete takes what is held back along, as one statement: it must not be about
    those rows. Whatever other fixed query runs in the block inserts them first; nothing else may look for that.
    Outside of one, where ``write_single_statement`` runs a unit, any other fixed query behind the first insert raises
    ``TransactionManagementError``: what is held back would be committed without the rest. The ORM's are not watched.
    An error of an insert is raised at the end, and none is inserted after another error. On other databases each is
    inserted at once.
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


def defer(row: Row, *, in_transaction: bool = False) -> bool:
    """Keep the row for the end of the block that this thread is in, if that is in a transaction where it has to be.

    Return whether it is kept.
    """
    block = _block()
    if block is None or (in_transaction and block.alone):
        return False
    block.rows.append(row)
    return True


def is_pending() -> bool:
    """Return whether something is held back on this thread."""
    block = _block()
    return block is not None and bool(block.rows)


def insert_pending() -> None:
    """Insert what is held back. One query, none for nothing. Raises ``TransactionManagementError``; see above."""
    if is_pending():
        run_with_pending((), {})


def run_with_pending(writes: Sequence[Write], given: dict[str, Any]) -> list[int]:
    """Run ``writes`` and insert what is held back, on PostgreSQL; return how many rows each of them changed. One query.

    None of them may look at what another one changes. Raises ``TransactionManagementError``; see above.
    """
    block = _block()
    if block is None:
        return _run([], writes, given)
    if block.alone and block.rows:
        raise TransactionManagementError("Another query between inserts that are to be one statement: use write()")
    rows, block.rows = block.rows, []
    return _run(rows, writes, given)


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
    if block.only_if is None:
        _run(rows, (), {})
        block.inserted = True
    else:
        block.inserted = _insert_if(block.only_if, rows)


def _insert_if(first: OnlyIf, rows: list[Row]) -> bool:
    connection = connections[DEFAULT_DB_ALIAS]
    conditions = [(first.locks, first.given), (first.changes, first.given)]
    queries = [*conditions, *((insert, given) for insert, given, _ in rows)]
    parts = [(query.prepared(connection), given) for query, given in queries]
    key = tuple(query for query, _ in queries)
    text = _texts.get(key)
    if text is None:
        *others, last = _conditional(*(compiled.sql for compiled, _ in parts))
        text = _texts[key] = f"WITH {', '.join(f'w{at} AS ({part})' for at, part in enumerate(others))} {last}"
    about_to_commit()
    parameters = [value for compiled, given in parts for value in compiled.parameters(given, connection)]
    return bool(prepared_statements.run(connection, text, parameters, lambda cursor: cursor.rowcount > 0))


def _run(rows: list[Row], writes: Sequence[Write], given: dict[str, Any]) -> list[int]:
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


def _conditional(locks: str, changes: str, *inserts: str) -> list[str]:
    """Return the same texts, each doing nothing unless the one before (an insert: the change) has found a row.

    PostgreSQL looks at what it locks once more when somebody else held it: a row that was changed meanwhile so that it
    does not match any more is not found (READ COMMITTED).
    """
    changed = f"{changes} AND EXISTS (SELECT 1 FROM w0) RETURNING 1"  # noqa: S608 - texts of compiled queries
    return [
        f"{locks} FOR NO KEY UPDATE",  # the ORM locks inside of transactions only; this is one by itself
        changed,
        *(f"{text.replace(' VALUES (', ' SELECT ', 1).removesuffix(')')} FROM w1" for text in inserts),  # noqa: S608 - as above
    ]
