"""What a registered type may be: every rule over its fields, wherever they are typed (the admin, the API)."""

import re
from collections.abc import Iterable
from typing import Final

from ironauth.infrastructure.core.errors import FieldError
from tokens.details import members, words
from tokens.details.lists import MAX_TYPE
from tokens.details.members import Member
from tokens.details.models import DetailType

MOST_TYPES: Final = 100  # registered at once: the metadata name them all, and each process knows them
TAKEN: Final = "This type is registered already: change that one."
#: RFC 3986 §2, less what needs escaping in JSON or stands between words: names, URNs and addresses.
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9._~:/?#@!$&()*+,;=-]+")


def problems_of(row: DetailType) -> list[FieldError]:
    """Return everything that is wrong with a type's fields, each with its remedy; nothing for a good one.

    2 queries for a new one.
    """
    found = [*_identifier(row)]
    try:
        declared = members.declared(row.members)
    except ValueError as error:
        return [*found, FieldError("members", "members", str(error)), *_words(row, None)]
    return [*found, *_words(row, declared)]


def _identifier(row: DetailType) -> Iterable[FieldError]:
    if len(row.identifier) > MAX_TYPE or not _IDENTIFIER.fullmatch(row.identifier):
        message = f"A type is a name or URI of 1 to {MAX_TYPE} ASCII characters: write it like payment_initiation."
        yield FieldError("identifier", "identifier", message)
    elif row._state.adding:  # noqa: SLF001 - documented by Django
        if DetailType.objects.filter(identifier=row.identifier).exists():
            yield FieldError("identifier", "taken", TAKEN)
        elif DetailType.objects.count() >= MOST_TYPES:
            yield FieldError("identifier", "too_many", f"At most {MOST_TYPES} types: delete one first.")


def _words(row: DetailType, declared: dict[str, Member] | None) -> Iterable[FieldError]:
    """Find a sentence that cannot be shown; where the members are not good, nothing is said of those it names."""
    if not (members.is_shown(row.words) and len(row.words) <= words.MAX_CHARACTERS):
        message = (
            f"The sentence has 1 to {words.MAX_CHARACTERS} characters that can be seen: say what is allowed by it."
        )
        yield FieldError("words", "words", message)
    elif declared is not None and (problem := words.problem_of(row.words, declared)) is not None:
        yield FieldError("words", "words", problem)
