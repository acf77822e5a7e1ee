"""Names that people read, of persons, applications and APIs: what is accepted and how it is stored."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from django.core.exceptions import ValidationError
from django.utils.translation import gettext

from ironauth.infrastructure.core.errors import FieldError

MAX_LENGTH: Final = 150  # characters; as Django's own name fields
# Characters before NFC: no character of a name has a longer decomposition than four.
MAX_RAW_LENGTH: Final = 4 * MAX_LENGTH
# Controls, line separators, lone surrogates, and the bidirectional overrides that make a name read as another one
# in a log or an admin list (Unicode TR 36 §2.3). Joiners stay: Persian and Indic names need them.
_REFUSED: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Letters, marks and a symbol that are drawn as nothing: fillers of Hangul and Khmer, the empty Braille pattern, what
# joins or varies a character before it. Spaces, format characters and unassigned ones are known by their category.
_EMPTY: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
_UNSEEN: Final = frozenset({"Cf", "Cn", "Zs"})


def normalise(name: str) -> str:
    """Return ``name`` in NFC without surrounding white space; one far too long as it is (see ``normalise``)."""
    if len(name) > MAX_RAW_LENGTH:
        return name
    return unicodedata.normalize("NFC", name).strip()


def is_unseen(name: str) -> bool:
    """Return whether a name has characters, and none of them is seen: beside it there would be nothing to read."""
    return bool(name) and all(unicodedata.category(c) in _UNSEEN or _EMPTY.match(c) for c in name)


def has_unseen(text: str) -> bool:
    """Return whether a character of ``text`` draws nothing, though it is a letter or a mark by its category."""
    return _EMPTY.search(text) is not None


def validate(name: str) -> None:
    """Refuse control characters, more than 150 characters, and a name of which nothing is seen; "" is none.

    Raises:
        ValidationError: Django's, with code ``name_too_long``, ``name_character`` or ``name_unseen``.
    """
    if len(name) > MAX_LENGTH:
        message = gettext("A name has at most {most} characters.").format(most=MAX_LENGTH)
        raise ValidationError(message, code="name_too_long")
    if bad := _REFUSED.search(name):
        message = gettext("The character {character} is not accepted in a name: type it without.").format(
            character=f"U+{ord(bad[0]):04X}"
        )
        raise ValidationError(message, code="name_character")
    if is_unseen(name):
        raise ValidationError(gettext("Nothing of this name can be seen: type letters."), code="name_unseen")


def problems_of(name: str, *, most: int, noun: str) -> Iterable[FieldError]:
    """Find what is wrong with the name of something that staff register, in its field ``name``.

    Args:
        name: As it would be stored.
        most: Characters that it may have.
        noun: What has the name.
    """
    try:
        validate(name)
    except ValidationError as refused:
        yield FieldError("name", refused.code or "invalid", refused.messages[0])
        return
    if not 1 <= len(name) <= most or name != normalise(name):
        message = f"A name has 1 to {most} characters: type what people know the {noun} by."
        yield FieldError("name", "name", message)
