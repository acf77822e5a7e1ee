"""The identifier that ties a response, its log lines and its problem document together."""

import re
from contextvars import ContextVar, Token

from ironauth.infrastructure.core.ids import new_hex

_VALID = re.compile(r"[A-Za-z0-9._-]{1,64}").fullmatch
_current: ContextVar[str] = ContextVar("ironauth_request_id", default="")


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


def enter(request_id: str) -> Token[str]:
    """Make ``request_id`` current in this context; give the result to `leave`."""
    return _current.set(request_id)


def leave(token: Token[str]) -> None:
    """Restore what was current before `enter`."""
    _current.reset(token)
