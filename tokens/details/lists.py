"""Lists of authorization details as texts: read, written one way, and held against each other (RFC 9396 §2, §6).

Where a list is stored or handed on it is one text of JSON with sorted members, "" for none. So two are equal when their
texts are.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from ironauth.infrastructure.core import strict_json
from tokens.details.members import TYPE

#: Bytes of a list: with the longest scope, five APIs and an RSA signature it fits into a token of 4 KiB.
MAX_BYTES: Final = 1_000
MAX_RECEIVED: Final = 8_000  # bytes as it was sent, with white space and escapes; as an authorization request
MOST: Final = 5  # in one request: a person has to read them
MAX_DEPTH: Final = 4  # a list, an object, an object in it, a list of texts
MAX_TYPE: Final = 100  # characters of an identifier


class InvalidDetails(ValueError):
    """A text is no list of authorization details."""


def read(text: str) -> list[dict[str, Any]]:
    """Return the objects of a list that a client has sent, each once; their members are not judged.

    Args:
        text: The parameter as it was received.

    Raises:
        InvalidDetails: It is no JSON that has one meaning, no list of objects, or too much of it.
    """
    if len(text) > MAX_RECEIVED or len(text.encode(errors="replace")) > MAX_RECEIVED:
        raise InvalidDetails(f"authorization_details is longer than {MAX_RECEIVED:,} bytes.")
    try:
        found = strict_json.loads(text, max_depth=MAX_DEPTH)
    except strict_json.InvalidJson as error:
        raise InvalidDetails(f"authorization_details {error}") from error
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        raise InvalidDetails("authorization_details is no JSON array of objects.")
    if not all(isinstance(one.get(TYPE), str) for one in found):
        raise InvalidDetails("An object of authorization_details has no type.")
    once = list({written(one): one for one in found}.values())
    if len(once) > MOST:
        raise InvalidDetails(f"authorization_details has more than {MOST} objects.")
    if len(joined(map(written, once)).encode()) > MAX_BYTES:
        raise InvalidDetails(f"authorization_details says more than {MAX_BYTES:,} bytes.")
    return once


def written(detail: dict[str, Any]) -> str:
    """Return one object as it is stored."""
    return msgspec.json.encode(detail, order="sorted").decode()


def joined(details: Iterable[str]) -> str:
    """Return a list of objects as it is stored, "" for none.

    Args:
        details: Each as ``written`` returns it.
    """
    return f"[{found}]" if (found := ",".join(details)) else ""


def stored(text: str) -> tuple[dict[str, Any], ...]:
    """Return the objects of a list that we have stored.

    Args:
        text: As ``joined`` has returned it.
    """
    return tuple(msgspec.json.decode(text)) if text else ()


def is_within(asked: Sequence[dict[str, Any]], granted: Sequence[dict[str, Any]]) -> bool:
    """Return whether every object that is asked for was granted just so: no member of one may be another.

    Args:
        asked: What a request wants of a grant.
        granted: What the grant has.
    """
    return {written(one) for one in asked} <= {written(one) for one in granted}
