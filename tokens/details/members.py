"""What the members of one kind of authorization details may be: their declaration, and values held against it.

Small on purpose: a few kinds, each of which a page can show to a person in full, and objects one inside another once.
Nothing that is not declared is accepted, so nothing is granted that the declaration did not foresee.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from accounts import names

TYPE: Final = "type"  # the member that every object has (RFC 9396 §2)
MAX_TEXT: Final = 200  # characters of one text; a page shows it in full
MAX_TEXTS: Final = 10  # in one list
MAX_INTEGER: Final = 2**53  # what every reader of JSON has (RFC 8259 §6)
MOST_MEMBERS: Final = 20  # of one object
MOST_VALUES: Final = 50  # that one member may be chosen from
NAME: Final = r"[A-Za-z][A-Za-z0-9_]{0,39}"
_NAME: Final = re.compile(NAME)
#: Joiners draw nothing, and Persian and Indic names need them.
_JOINERS: Final = {0x200C: None, 0x200D: None}
#: What looks like another text: a joiner beside ASCII, and spaces that a page shows as one.
_LOOKS_ALIKE: Final = re.compile("[!-~][\u200c\u200d]|[\u200c\u200d][!-~]|  ")


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one member may be.

    Attributes:
        kind: Of its value.
        required: Whether every object has it.
        values: The texts that it may be; empty for any.
        members: Those of an object.
    """

    kind: Literal["text", "integer", "flag", "texts", "object"]
    required: bool = False
    values: tuple[str, ...] = ()
    members: "dict[str, Member]" = {}


def declared(given: object) -> dict[str, Member]:
    """Return a declaration as it is used.

    Args:
        given: As it is stored or was sent.

    Raises:
        ValueError: It is no declaration; a sentence with the remedy.
    """
    try:
        found = msgspec.convert(given, dict[str, Member])
    except msgspec.ValidationError as error:
        raise ValueError(f"This is no declaration of members ({error}).") from error
    _judge(found)
    return found


def _judge(members: Mapping[str, Member], *, inside: bool = False) -> None:
    if len(members) > MOST_MEMBERS:
        raise ValueError(f"At most {MOST_MEMBERS} members: drop some.")
    for name, member in members.items():
        if not _NAME.fullmatch(name) or (name == TYPE and not inside):
            raise ValueError(f"A member is called by 1 to 40 letters, digits and _, and not {TYPE}: rename one.")
        if (problem := _problem_of(member, inside=inside)) is not None:
            raise ValueError(f"{name}: {problem}")
        _judge(member.members, inside=True)


def _problem_of(member: Member, *, inside: bool) -> str | None:
    """Return why a member cannot be declared so."""
    if bool(member.members) != (member.kind == "object"):
        return "an object needs its members, and nothing else has any."
    if inside and member.kind == "object":
        return "an object inside an object has none inside: choose another kind."
    if member.values and member.kind not in ("text", "texts"):
        return "only texts are chosen from values: leave values out."
    if len(member.values) > MOST_VALUES or len(set(member.values)) != len(member.values):
        return f"at most {MOST_VALUES} values, each once."
    if not all(is_shown(value) for value in member.values):
        return f"a value has 1 to {MAX_TEXT} characters that can be seen."
    return None


def is_shown(value: object) -> bool:
    """Return whether a value is a text that a page shows as it is: nothing in it is unseen, or turns the rest around.

    Args:
        value: Of a member, not yet judged.
    """
    return (
        isinstance(value, str)
        and 1 <= len(value) <= MAX_TEXT
        and value == value.strip()
        and value.translate(_JOINERS).isprintable()
        and not names.is_unseen(value)
    )


def problem_of(value: Mapping[str, object], members: Mapping[str, Member]) -> str | None:
    """Return what is wrong with an object, a sentence without its subject; None for one that is declared so.

    It names declared members alone: nothing that was sent is repeated.

    Args:
        value: The object, without its type.
        members: Its declaration.
    """
    if not value.keys() <= members.keys():
        return "has a member that its type does not know."
    for name, member in members.items():
        if name not in value:
            if member.required:
                return f"lacks the member {name}."
            continue
        if member.kind == "object":
            inner = value[name]
            if not isinstance(inner, dict) or not inner:  # of an empty one a page shows nothing
                return f"has another kind of {name} than its type says."
            if (problem := problem_of(inner, member.members)) is not None:
                return f"has a bad {name}, which {problem}"
        elif not _ACCEPTS[member.kind](value[name], member):
            return f"has another value of {name} than its type allows."
    return None


def _is_text(value: Any, member: Member) -> bool:
    """Tell whether a value is a text. Where staff list none, one that reads as another by what is unseen is not."""
    if member.values:
        return is_shown(value) and value in member.values
    return is_shown(value) and not names.has_unseen(value) and _LOOKS_ALIKE.search(value) is None


def _is_integer(value: Any, _: Member) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER


def _is_flag(value: Any, _: Member) -> bool:
    return isinstance(value, bool)


def _are_texts(value: Any, member: Member) -> bool:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_TEXTS:
        return False
    return all(_is_text(one, member) for one in value) and len(set(value)) == len(value)


#: By kind: whether a value is one. Objects are held against their own members.
_ACCEPTS: Final[Mapping[str, Callable[[Any, Member], bool]]] = {
    "text": _is_text,
    "integer": _is_integer,
    "flag": _is_flag,
    "texts": _are_texts,
}
