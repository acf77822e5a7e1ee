"""Read JSON that a stranger sent: one meaning for every reader (RFC 8259 §4, RFC 8725 §2.4).

Two readers may disagree about a member that comes twice: one takes the first, one the last. A text that is nested
without bound costs the reader its stack. Both are refused.
"""

import json
from typing import Any, Final

import msgspec

#: Objects and lists inside one another. Our own documents have five; a key set of a client has three.
MAX_DEPTH: Final = 32


class InvalidJson(ValueError):
    """The text is not JSON that has one meaning; the message is a sentence without its subject, such as "is …"."""


def loads(data: bytes | str, *, max_depth: int = MAX_DEPTH) -> Any:
    """Return the value of a JSON text.

    Args:
        data: The text; bytes must be UTF-8 without a byte order mark.
        max_depth: How many objects and lists may be inside one another.

    Raises:
        InvalidJson: For bad syntax or encoding, NaN, a number out of range, a lone surrogate, an object that has a
            member twice at any depth, and nesting deeper than ``max_depth``.
    """
    try:
        text = data.encode() if isinstance(data, str) else data
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidJson("is not valid JSON.") from error
    deep = text.count(b"[") + text.count(b"{") > max_depth
    members = _count_members(value, max_depth if deep else None)
    # Every member has a colon. As many colons as members that were kept: no member was dropped, no string has a colon.
    if text.count(b":") != members:
        _refuse_doubles(text)
    return value


def _count_members(value: Any, max_depth: int | None) -> int:
    """Return how many members the objects in ``value`` have.

    Raises:
        InvalidJson: When ``max_depth`` is given, and ``value`` is nested deeper.
    """
    members, depth = 0, 0
    level = [value]
    while level:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                members += len(each)
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
            else:
                continue
        depth += 1
        level = [each for each in inner if isinstance(each, (dict, list))]
        if level and max_depth is not None and depth >= max_depth:
            raise InvalidJson(f"is nested deeper than {max_depth} levels.")
    return members


def _refuse_doubles(text: bytes) -> None:
    """Read ``text`` again member by member; it is valid JSON.

    Raises:
        InvalidJson: When an object has a member twice.
    """
    try:
        _each_object.decode(text.decode())
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, InvalidJson) else InvalidJson("is not valid JSON.") from error


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise InvalidJson("has a member twice in one object.")


_each_object = json.JSONDecoder(object_pairs_hook=_unique)
