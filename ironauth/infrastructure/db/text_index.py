"""Indexes of Postgres for the lookup ``has_part``: pg_trgm finds rows by the groups of three letters of a text.

SQLite has none, and looks at each row. So does Postgres where the extension is missing and may not be created.
"""

from dataclasses import dataclass
from typing import Any, Final

from django.db import DatabaseError, transaction

from ironauth.infrastructure.db.folding import folded

#: Letters from which on the index finds a part anywhere in a word; a shorter one is found where a word begins.
PART_CHARACTERS: Final = 3
_EXTENSION: Final = (
    "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
    " WHERE e.extname = 'pg_trgm'"
)
_VALID: Final = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
#: What Postgres says when the extension may not be made (42501), is not installed (0A000, 58P01), or was just made by
#: another process (23505, 42710).
_NOT_MADE: Final = frozenset({"42501", "0A000", "58P01", "23505", "42710"})


@dataclass(frozen=True, slots=True)
class TextIndex:
    """An index over the texts of ``columns`` of a table, joined as ``folding.Joined`` does."""

    name: str
    table: str
    columns: tuple[str, ...]


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
    apart = "" if connection.in_atomic_block else "CONCURRENTLY"
    quoted = connection.ops.quote_name
    text = "(' ' || " + " || ' ' || ".join(map(quoted, index.columns)) + ")"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX {apart} IF EXISTS {quoted(index.name)}")
        # Without fastupdate: the insert that fills the list of pending entries would have to write all of them.
        cursor.execute(
            f"CREATE INDEX {apart} {quoted(index.name)} ON {quoted(index.table)}"
            f" USING gin ({folded(text, connection.alias)} {schema}.gin_trgm_ops) WITH (fastupdate = off)"
        )
        cursor.execute(f"ANALYZE {quoted(index.table)}")  # the planner is to know how often parts occur
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


def drop(connection: Any, index: TextIndex) -> None:
    """Drop the index, if there is one. The extension stays: others may use it.

    Args:
        connection: Django's connection to the database.
        index: The index.
    """
    if connection.vendor == "postgresql":
        apart = "" if connection.in_atomic_block else "CONCURRENTLY"
        with connection.cursor() as cursor:
            cursor.execute(f"DROP INDEX {apart} IF EXISTS {connection.ops.quote_name(index.name)}")


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
