"""Indexes of Postgres for the lookup ``has_part``: pg_trgm finds rows by the groups of three letters of a text.

SQLite has none, and looks at each row. So does Postgres where the extension is missing and may not be created.

An index may have its text *stored*, in its plain form, in a column that no model knows. A trigger writes this column,
whatever program writes the row: the release before this one, a batch, somebody at a console. Rows of before are filled
in batches, which the trigger judges like any other write.

A migration that gives one of its columns another type, or drops one, has to ``forget`` the text before and ``store`` it
after. Postgres refuses the first because of the trigger. With the second it drops the trigger, and tells nobody.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

from django.db import DatabaseError, OperationalError, transaction

from ironauth.infrastructure.db.folding import plain_sql

#: Letters from which on the index finds a part anywhere in a word; a shorter one is found where a word begins.
PART_CHARACTERS: Final = 3
BATCH: Final = 2_000  # rows that a statement fills: locked for 0.2 s
#: Values of a stored text that Postgres estimates by, where 100 are usual: it takes the walk of a list for two letters
#: that few have less often, and plans a search 0.5 ms longer (measured at a million people).
STATISTICS: Final = 1_000
#: What a change of the table waits for its lock at most, in milliseconds. All who read the table wait behind it.
#: Longer than Postgres takes to end a vacuum of its own that is in the way (``deadlock_timeout``, 1 s).
LOCK_WAIT_MS: Final = 2_000
TRIES: Final = 10
PAUSE_S: Final = 1.0
_LOCKED: Final = "55P03"  # lock_not_available
_EXTENSION: Final = (
    "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
    " WHERE e.extname = 'pg_trgm'"
)
_KEPT: Final = "SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass(%s) AND tgname = %s AND tgenabled <> 'D'"
_VALID: Final = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
#: What Postgres says when the extension may not be made (42501), is not installed (0A000, 58P01), or was just made by
#: another process (23505, 42710).
_NOT_MADE: Final = frozenset({"42501", "0A000", "58P01", "23505", "42710"})


@dataclass(frozen=True, slots=True)
class TextIndex:
    """An index over the texts of ``columns`` of a table, joined as ``folding.Joined`` does.

    With ``stored``, the name of a column, the joined text is kept in it. The table's primary key is ``id`` then.
    """

    name: str
    table: str
    columns: tuple[str, ...]
    stored: str = ""


def build(connection: Any, index: TextIndex) -> bool:
    """Create the index unless it is there, while others read and write; return whether there is one now.

    Outside a transaction nothing waits for it (``CONCURRENTLY``). What a broken attempt has left is dropped first.

    Args:
        connection: Django's connection to the database.
        index: What to create.
    """
    if connection.vendor != "postgresql":
        return False
    schema = _extension(connection)
    if schema is None:
        return False
    if is_there(connection, index):
        return True
    quote = connection.ops.quote_name
    text = quote(index.stored) if index.stored else plain_sql(_joined(connection, index), connection.alias)
    drop(connection, index)
    with connection.cursor() as cursor:
        # Without fastupdate: the insert that fills the list of pending entries would have to write all of them.
        cursor.execute(
            f"CREATE INDEX {_apart(connection)} {quote(index.name)} ON {quote(index.table)}"
            f" USING gin (({text}) {schema}.gin_trgm_ops) WITH (fastupdate = off)"
        )
        cursor.execute(f"ANALYZE {quote(index.table)}")  # the planner is to know how often parts occur
    return True


def is_there(connection: Any, index: TextIndex) -> bool:
    """Tell whether Postgres has the index and may use it. 1 query.

    Args:
        connection: Django's connection to the database.
        index: The index.
    """
    with connection.cursor() as cursor:
        cursor.execute(_VALID, [connection.ops.quote_name(index.name)])
        row = cursor.fetchone()
    return bool(row and row[0])


def is_stored(connection: Any, index: TextIndex) -> bool:
    """Tell whether a trigger keeps the stored text, or there is none to keep. 1 query, or none.

    Args:
        connection: Django's connection to the database.
        index: The index.
    """
    if not index.stored:
        return True
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(_KEPT, [quote(index.table), f"{index.table}_{index.stored}"])
        return cursor.fetchone() is not None


def drop(connection: Any, index: TextIndex) -> None:
    """Drop the index, if there is one. The extension stays: others may use it. So does a stored text.

    Args:
        connection: Django's connection to the database.
        index: The index.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"DROP INDEX {_apart(connection)} IF EXISTS {connection.ops.quote_name(index.name)}")


def store(connection: Any, index: TextIndex) -> int:
    """Have the text of each row stored, from now on and of the rows that are there; return how many were filled.

    Run again it goes on where a broken attempt has stopped. Outside a transaction rows are locked a batch at a time.

    Args:
        connection: Django's connection to the database.
        index: One that has a stored text.

    Raises:
        OperationalError: Another transaction, a backup say, had the table at each of several tries.
    """
    if connection.vendor != "postgresql":
        return 0
    quote = connection.ops.quote_name
    table, column, function = quote(index.table), quote(index.stored), quote(f"{index.table}_{index.stored}")
    given = " || ' ' || ".join(f"NEW.{quote(name)}" for name in index.columns)
    watched = ", ".join(map(quote, (*index.columns, index.stored)))
    _patiently(
        connection,
        f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} text",
        f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS {STATISTICS}",
        f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$"
        f" DECLARE joined text := ' ' || {given};"
        f" BEGIN NEW.{column} := {plain_sql('joined', connection.alias)}; RETURN NEW; END $$",
        f"CREATE OR REPLACE TRIGGER {function} BEFORE INSERT OR UPDATE OF {watched} ON {table}"
        f" FOR EACH ROW EXECUTE FUNCTION {function}()",
    )
    return _fill(connection, table, column)


def forget(connection: Any, index: TextIndex) -> None:
    """Drop the stored text, with its trigger and its index.

    Args:
        connection: Django's connection to the database.
        index: One that has a stored text.
    """
    if connection.vendor == "postgresql":
        quote = connection.ops.quote_name
        table, function = quote(index.table), quote(f"{index.table}_{index.stored}")
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TRIGGER IF EXISTS {function} ON {table}")
            cursor.execute(f"DROP FUNCTION IF EXISTS {function}")
            cursor.execute(f"ALTER TABLE {table} DROP COLUMN IF EXISTS {quote(index.stored)}")


def _patiently(connection: Any, *statements: str) -> None:
    """Run statements in one transaction that waits for no lock for long, and again where it had to."""
    for left in reversed(range(TRIES)):
        try:
            with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}")
                for statement in statements:
                    cursor.execute(statement)
                cursor.execute("SET LOCAL lock_timeout = 0")  # inside a transaction of a test the setting would stay
                return
        except OperationalError as error:
            if not left or getattr(error.__cause__, "sqlstate", None) != _LOCKED:
                raise
        time.sleep(PAUSE_S)


def _fill(connection: Any, table: str, column: str) -> int:
    """Have the trigger fill the rows that have no text yet, in the order of their keys; return how many."""
    filled, last = 0, None
    while True:
        beyond = "AND id > %s" if last else ""
        with connection.cursor() as cursor:
            cursor.execute(
                f"WITH batch AS (SELECT id FROM {table} WHERE {column} IS NULL {beyond}"  # noqa: S608 - names of ours
                f" ORDER BY id LIMIT {BATCH} FOR NO KEY UPDATE)"
                f" UPDATE {table} SET {column} = NULL FROM batch WHERE {table}.id = batch.id RETURNING batch.id",
                [last] if last else [],
            )
            ids = [key for (key,) in cursor.fetchall()]
        if not ids:
            return filled
        filled, last = filled + len(ids), max(ids)


def _joined(connection: Any, index: TextIndex) -> str:
    return "(' ' || " + " || ' ' || ".join(map(connection.ops.quote_name, index.columns)) + ")"


def _apart(connection: Any) -> str:
    """Return what keeps nobody waiting, where that is allowed."""
    return "" if connection.in_atomic_block else "CONCURRENTLY"


def _extension(connection: Any) -> str | None:
    """Return the schema of the extension, quoted, after creating it where that is allowed; None where it is not."""
    schema = _schema(connection)
    if schema is not None:
        return schema
    try:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except DatabaseError as error:
        if getattr(error.__cause__, "sqlstate", None) not in _NOT_MADE:
            raise
    return _schema(connection)


def _schema(connection: Any) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(_EXTENSION)
        row = cursor.fetchone()
    return str(row[0]) if row else None
