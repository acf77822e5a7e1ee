"""What the registry says of one code."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

#: What an operator does about an answer that is right as it is.
NOTHING: Final = "Nothing: the server works, and only the caller can send something else."


class ErrorCode(NamedTuple):
    """One code: its statuses, what has happened, what the caller does about it, and what the operator does.

    ``members``: what its problem has beside the usual members (RFC 9457 §3.2), as an example of the OpenAPI document.
    """

    code: str
    statuses: tuple[int, ...]
    meaning: str
    remedy: str
    operator: str
    members: Mapping[str, object] = MappingProxyType({})
