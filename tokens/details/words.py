"""Authorization details in words: a sentence of staff, with what the application has filled in set apart.

A page gets pieces, never one text. So a template escapes each, shows what was filled in as such, and lets no value turn
the words around it (Unicode TR 9 §2.7: isolates).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from django.utils.translation import gettext

from tokens.details.members import NAME, TYPE, Member

MAX_CHARACTERS: Final = 200  # of the sentence
#: What a text of a list has that could be taken for two.
_SEPARATES: Final = re.compile('[,"]')
_PLACE: Final = re.compile(rf"\{{({NAME}(?:\.{NAME})?)\}}")


class Piece(NamedTuple):
    """A part of a sentence; ``filled_in``: by the application."""

    text: str
    filled_in: bool


class Shown(NamedTuple):
    """What a person reads of one object: the sentence, and members that are not in it, each with its name."""

    sentence: tuple[Piece, ...]
    rest: tuple[tuple[str, str], ...]


def places(words: str) -> list[str]:
    """Return the members that a sentence names, each as ``member`` or ``object.member``."""
    return _PLACE.findall(words)


def problem_of(words: str, members: Mapping[str, Member]) -> str | None:
    """Return why a type cannot have this sentence; None for one that it can have.

    Args:
        words: The sentence, with members in braces.
        members: Those of the type.
    """
    if set(_PLACE.sub("", words)) & set("{}"):
        return "Braces are around the name of a member, such as {amount}: correct the sentence."
    for place in places(words):
        if not _is_always_there(place.split("."), members):
            return f"{{{place}}} is no required member that has a value of its own: declare it so, or leave it out."
    return None


def _is_always_there(path: list[str], members: Mapping[str, Member]) -> bool:
    member = members.get(path[0])
    if member is None or not member.required:
        return False
    if len(path) == 1:
        return member.kind != "object"
    return _is_always_there(path[1:], member.members)


def shown(words: str, detail: Mapping[str, Any]) -> Shown:
    """Return what a person reads.

    Args:
        words: The sentence of the type.
        detail: The object, judged by the type.
    """
    values = dict(_values(detail))
    named = places(words)
    pieces = []
    for at, part in enumerate(_PLACE.split(words)):
        text = part if at % 2 == 0 else values[part]
        if text:
            pieces.append(Piece(text, filled_in=at % 2 == 1))
    return Shown(tuple(pieces), tuple((name, text) for name, text in values.items() if name not in named))


def _values(detail: Mapping[str, Any], outer: str = "") -> Iterator[tuple[str, str]]:
    """Return every value of an object as a person reads it, by the name of its member."""
    for name, value in detail.items():
        if isinstance(value, dict):
            yield from _values(value, f"{name}.")
        elif outer or name != TYPE:
            yield f"{outer}{name}", _read(value)


def _read(value: Any) -> str:
    match value:
        case bool():
            return gettext("yes") if value else gettext("no")
        case list():
            apart = any(map(_SEPARATES.search, value))
            return ", ".join(msgspec.json.encode(one).decode() if apart else one for one in value)
    return str(value)
