"""Identifiers: UUIDv7 for rows, so that new ones land at the right end of every index; and that of the current request.

A request's identifier ties its response, its log lines and its problem document together.
"""

import os
import re
import uuid
from contextvars import ContextVar, Token
from datetime import UTC, datetime, timedelta
from typing import Final

import uuid_utils
import uuid_utils.compat

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
#: Version 7 and the variant of RFC 9562 §4, where a UUID's 128 bits have them.
_MARKS: Final = 7 << 76 | 2 << 62
_VALID = re.compile(r"[A-Za-z0-9._-]{1,64}").fullmatch
_current: ContextVar[str] = ContextVar("ironauth_request_id", default="")


def new_id() -> uuid.UUID:
    """Return a UUIDv7 (RFC 9562 §5.7): time-ordered, and unique but not secret."""
    return uuid_utils.compat.uuid7()


def new_hex() -> str:
    """Return a UUIDv7 as 32 hex digits; made for every request, it takes a third of the time of ``new_id().hex``."""
    return uuid_utils.uuid7().hex


def id_at(moment: datetime) -> uuid.UUID:
    """Return a new UUIDv7 of this moment, in order to the microsecond (RFC 9562 §6.2, method 3)."""
    return uuid.UUID(int=first_id_at(moment).int | int.from_bytes(os.urandom(8)) >> 2)


def first_id_at(moment: datetime) -> uuid.UUID:
    """Return the smallest id that `id_at` could give at this moment: a bound for asking by time. 1970 at the least."""
    milliseconds, microseconds = divmod(max(0, (moment - _EPOCH) // _MICROSECOND), 1000)
    return uuid.UUID(int=milliseconds << 80 | (microseconds * 4096 // 1000) << 64 | _MARKS)


def current_request_id() -> str:
    """Return the identifier of the request being answered, or "" outside a request."""
    return _current.get()


def choose_request_id(incoming: str | None) -> str:
    """Return ``incoming`` if it is 1-64 characters of ``[A-Za-z0-9._-]``, else a new UUIDv7 as 32 hex digits.

    The alphabet keeps a forged identifier from adding lines or markup to whatever shows it.
    """
    if incoming is not None and _VALID(incoming):
        return incoming
    return new_hex()


def enter_request(request_id: str) -> Token[str]:
    """Make ``request_id`` current in this context; give the result to `leave_request`."""
    return _current.set(request_id)


def leave_request(token: Token[str]) -> None:
    """Restore what was current before `enter_request`."""
    _current.reset(token)
