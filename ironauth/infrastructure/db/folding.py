"""The lookup ``has_part``: contained, whatever the case and the accents, on Postgres and SQLite alike.

What is compared is the *plain* form of both texts: compatibility characters as what they stand for (NFKD), without the
marks of Latin, Greek and Cyrillic letters, without regard to case. ``icontains`` folds ASCII letters only on SQLite,
and on Postgres where the database was made with the locale ``C``.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Any, Final, cast

from django.db import connections
from django.db.backends.signals import connection_created
from django.db.models import CharField, Func, TextField
from django.db.models.lookups import IContains

_FUNCTION: Final = "ironauth_has_part"
_COLLATION: Final = "und-x-icu"  # the letters of all languages; it is there where Postgres was built with ICU
_KNOWN: Final = "SELECT EXISTS (SELECT FROM pg_collation WHERE collname = %s AND pg_collation_is_visible(oid))"
#: Combining Diacritical Marks. Those of other scripts are letters to who writes them: the voicing of kana, vowels.
_MARKS: Final = r"[\u0300-\u036f]"
_FIND_MARKS: Final = re.compile(_MARKS)
#: Letters that Unicode does not take apart, with what is typed for them where a keyboard has none.
_ONE: Final = {
    "\u0141": "L", "\u0142": "l", "\u00d8": "O", "\u00f8": "o", "\u0110": "D", "\u0111": "d", "\u0126": "H",
    "\u0127": "h", "\u0166": "T", "\u0167": "t", "\u0131": "i",
}  # fmt: skip
_TWO: Final = {"\u00df": "ss", "\u1e9e": "SS", "\u00e6": "ae", "\u00c6": "AE", "\u0153": "oe", "\u0152": "OE"}
_NAMED: Final = 4  # times that the SQL of the plain form names its text
_TYPED: Final = str.maketrans(_ONE | _TWO)


@CharField.register_lookup
@TextField.register_lookup
class HasPart(IContains):
    """Whether a text contains another. SQLite looks at each row."""

    lookup_name = "has_part"

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """Return the condition by letters of all languages; without ICU by those of the database's locale."""
        column, params = self.process_lhs(compiler, connection)
        # The part loses its marks here: some letters become wildcards by it, which have to be escaped.
        pattern = f"%{connection.ops.prep_for_like_query(bare(str(self.rhs)))}%"
        is_plain = getattr(self.lhs, "is_plain", False)
        text = column if is_plain else plain_sql(column, connection.alias)
        params *= 1 if is_plain else _NAMED
        return f"{text} LIKE {_upper('%s', connection.alias)}", [*params, pattern]

    def as_sqlite(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """Return the condition with the function that each connection gets."""
        column, params = self.process_lhs(compiler, connection)
        return f"{_FUNCTION}({column}, %s)", [*params, plain(str(self.rhs))]


class Joined(Func):
    """The texts of several columns in one, with a space before each: one condition, and one index, looks at all.

    A part without a space is found within one column. A part that begins with a space begins a word.
    """

    output_field = TextField()
    template = "(' ' || %(expressions)s)"
    arg_joiner = " || ' ' || "


class Stored(Joined):
    """``Joined`` as a column of Postgres has it in its plain form (``text_index``); elsewhere it is joined anew."""

    is_plain = True

    def __init__(self, *columns: Any, stored: str) -> None:
        super().__init__(*columns)
        self.stored = stored

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        """Return the column that is stored, of the table that the others are of."""
        column = cast("Any", self.source_expressions[0])  # Django's Col: where the row is in this query
        return f"{compiler.quote_name(column.alias)}.{connection.ops.quote_name(self.stored)}", []


class Unindexed(Func):
    """A text as no index has it: what is asked of it is asked of the rows that another condition finds."""

    output_field = TextField()
    template = "(%(expressions)s || '')"

    @property
    def is_plain(self) -> bool:
        """Whether the text is in its plain form already."""
        return getattr(self.source_expressions[0], "is_plain", False)


def bare(text: str) -> str:
    """Return a text without marks and compatibility characters, in the case it has.

    Args:
        text: Any text.
    """
    if text.isascii():
        return text
    apart = _FIND_MARKS.sub("", unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", apart).translate(_TYPED)


def plain(text: str) -> str:
    """Return the form of a text that is compared on SQLite.

    Args:
        text: Any text.
    """
    return bare(text).casefold()


def plain_sql(text: str, alias: str) -> str:
    """Return the SQL of the form of a text that Postgres compares; an index over this expression serves the lookup.

    Args:
        text: SQL of a text: a column, or an expression in brackets. It is named several times.
        alias: The alias of the database.
    """
    apart = f"normalize(regexp_replace(normalize({text}::text, NFKD), '{_MARKS}', '', 'g'), NFC)"
    for letter, typed in _TWO.items():
        apart = f"replace({apart}, '{letter}', '{typed}')"
    apart = f"translate({apart}, '{''.join(_ONE)}', '{''.join(_ONE.values())}')"
    # Nothing beyond ASCII: most texts, and all of a database of single bytes, which cannot normalise.
    is_simple = f"octet_length({text}::text) = char_length({text}::text)"
    return f"CASE WHEN {is_simple} THEN {_upper(text, alias)} ELSE {_upper(apart, alias)} END"


def _upper(text: str, alias: str) -> str:
    """Return the SQL of a text in capitals, which is compared as a stored text is: by the database's own collation."""
    return (
        f'(UPPER({text}::text COLLATE "{_COLLATION}") COLLATE "default")'
        if _has_collation(alias)
        else f"UPPER({text}::text)"
    )


@lru_cache
def _has_collation(alias: str) -> bool:
    """Tell whether the database has the collation; asked once in a process."""
    connection = connections[alias]
    connection.ensure_connection()
    with connection.wrap_database_errors:
        row = cast("Any", connection.connection).execute(_KNOWN, [_COLLATION]).fetchone()
    return bool(row[0])


def _has_part(text: str | None, part: str) -> bool:
    """Tell whether a text contains a part, which is plain already: it is the same for every row that is looked at."""
    return text is not None and part in plain(text)


def _add_function(sender: object, connection: Any, **_: object) -> None:  # noqa: ARG001 - Django's signature
    if connection.vendor == "sqlite":
        cast("Any", connection.connection).create_function(_FUNCTION, 2, _has_part, deterministic=True)


connection_created.connect(_add_function, dispatch_uid=_FUNCTION)
