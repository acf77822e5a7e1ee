"""How people are found by part of the address or of a name, and the indexes that Postgres finds them by."""

from typing import Any, Final

from django.core.checks import CheckMessage
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError, connections
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Q

from accounts import names
from ironauth.infrastructure.db.folding import HasPart, Joined, Stored, Unindexed
from ironauth.infrastructure.db.text_index import PART_CHARACTERS, TextIndex, is_stored, is_there

#: The columns that are looked at, of each person.
COLUMNS: Final = ("email_key", "name", "given_name", "family_name", "preferred_username")
PEOPLE: Final = TextIndex("accounts_user_parts", "accounts_user", COLUMNS, stored="search_text")
#: The addresses that people had who are being deleted.
LEAVING: Final = TextIndex("accounts_leaving_parts", "accounts_pendingdeletion", ("email",))
INDEXES: Final = (PEOPLE, LEAVING)
MADE_BY: Final = ("accounts", "0035_search_text")
REMEDY: Final = (
    "As a superuser of the database: CREATE EXTENSION pg_trgm; and then: manage.py search_index. "
    "Until then each search reads the whole table of people."
)


def words(text: str) -> list[str]:
    """Return what has to occur, each word by itself."""
    return names.normalise(text).split()


def has(word: str, *columns: str) -> Q:
    """Return the condition that a column has ``word``, without regard to case and accents.

    A word of one or two characters has to begin the text of a column, or a word in it: no index finds less. A whole
    address is looked for by what is before its @, since an index would go through everybody of the same domain.

    Args:
        word: Without white space.
        *columns: Names of columns; those of a person by default.
    """
    texts = Joined(*columns) if columns else Stored(*COLUMNS, stored=PEOPLE.stored)
    if len(word) < PART_CHARACTERS:
        return Q(HasPart(texts, f" {word}"))
    local, at, domain = word.partition("@")
    if at and domain and len(local) >= PART_CHARACTERS:
        return Q(HasPart(texts, local), HasPart(Unindexed(texts), word))
    return Q(HasPart(texts, word))


def check_indexes(app_configs: Any, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001 - Django's signature
    """Warn where Postgres has no index to search people by, or no trigger keeps the text of it.

    Args:
        app_configs: Django's.
        databases: The aliases of the databases that are checked.
        **kwargs: Django's.
    """
    missing = [alias for alias in databases or () if _lacks(connections[alias])]
    return [
        CheckWarning(f"The database {alias!r} has no index to search people by", hint=REMEDY, id="ironauth.W003")
        for alias in missing
    ]


def _lacks(connection: Any) -> bool:
    """Tell whether an index or its trigger is missing though the migration has run that makes them."""
    if connection.vendor != "postgresql":
        return False
    try:
        made = MADE_BY in MigrationRecorder(connection).applied_migrations()
        return made and not all(is_there(connection, one) and is_stored(connection, one) for one in INDEXES)
    except DatabaseError:  # out of reach; another check's business
        return False
