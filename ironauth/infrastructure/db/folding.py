"""The lookup ``has_part`` of text: contained without regard to case, of all letters, on Postgres and SQLite alike.

``icontains`` folds ASCII letters only on SQLite, and on Postgres where the database was made with the locale ``C``.
"""

from functools import lru_cache
from typing import Any, Final, cast

from django.db import connections
from django.db.backends.signals import connection_created
from django.db.models import CharField, Func, TextField
from django.db.models.lookups import IContains

_FUNCTION: Final = "ironauth_has_part"
_COLLATION: Final = "und-x-icu"  # the letters of all languages; it is there where Postgres was built with ICU
_KNOWN: Final = "SELECT EXISTS (SELECT FROM pg_collation WHERE collname = %s AND pg_collation_is_visible(oid))"


@CharField.register_lookup
@TextField.register_lookup
class HasPart(IContains):
    """Whether a text contains another. SQLite looks at each row."""

    lookup_name = "has_part"

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """Return the condition by letters of all languages; without ICU by those of the database's locale."""
        column, params = self.process_lhs(compiler, connection)
        pattern = f"%{connection.ops.prep_for_like_query(self.rhs)}%"
        return f"{folded(column, connection.alias)} LIKE {folded('%s', connection.alias)}", [*params, pattern]

    def as_sqlite(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """Return the condition with the function that each connection gets."""
        column, params = self.process_lhs(compiler, connection)
        return f"{_FUNCTION}({column}, %s)", [*params, str(self.rhs).casefold()]


class Joined(Func):
    """The texts of several columns in one, with a space before each: one condition, and one index, looks at all.

    A part without a space is found within one column. A part that begins with a space begins a word.
    """

    output_field = TextField()
    template = "(' ' || %(expressions)s)"
    arg_joiner = " || ' ' || "


class Unindexed(Func):
    """A text as no index has it: what is asked of it is asked of the rows that another condition finds."""

    output_field = TextField()
    template = "(%(expressions)s || '')"


def folded(text: str, alias: str) -> str:
    """Return the SQL of a text as Postgres compares it; an index over this expression serves the lookup.

    Args:
        text: SQL of a text: a column, an expression in brackets, a placeholder.
        alias: The alias of the database.
    """
    collate = f' COLLATE "{_COLLATION}"' if _has_collation(alias) else ""
    return f"UPPER({text}::text{collate})"


@lru_cache
def _has_collation(alias: str) -> bool:
    """Tell whether the database has the collation; asked once in a process."""
    connection = connections[alias]
    connection.ensure_connection()
    with connection.wrap_database_errors:
        row = cast("Any", connection.connection).execute(_KNOWN, [_COLLATION]).fetchone()
    return bool(row[0])


def _has_part(text: str | None, folded: str) -> bool:
    """Tell whether a text contains what was folded already: it is the same for every row that is looked at."""
    return text is not None and folded in text.casefold()


def _add_function(sender: object, connection: Any, **_: object) -> None:  # noqa: ARG001 - Django's signature
    if connection.vendor == "sqlite":
        cast("Any", connection.connection).create_function(_FUNCTION, 2, _has_part, deterministic=True)


connection_created.connect(_add_function, dispatch_uid=_FUNCTION)
