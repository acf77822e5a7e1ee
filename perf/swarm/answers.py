"""What a right answer looks like: each check returns "" or why the answer is wrong, in words that group well.

Reasons name no address, id or token: Locust shows each different reason on a line of its own, and none is secret.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

import msgspec

NO_STORE: Final = "no-store"


class User(msgspec.Struct):
    """The members of the contract's User that are looked at; others must be there too."""

    id: UUID
    email: str
    name: str
    is_active: bool
    email_verified: bool
    roles: list[str]
    created_at: str


class TokenPair(msgspec.Struct):
    """The contract's TokenPair."""

    access_token: str
    token_type: Literal["Bearer"]
    expires_in: int
    refresh_token: str
    refresh_expires_in: int
    session_id: UUID


class Device(msgspec.Struct):
    """The members of a session in the list that are looked at."""

    id: UUID
    current: bool


class Problem(msgspec.Struct):
    """The members of RFC 9457 that are looked at."""

    status: int
    code: str
    request_id: str


@dataclass(frozen=True)
class Answer:
    """Status 0: there was no answer, and ``body`` says why."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        """Return a header's value, "" when it is missing."""
        return self.headers.get(name.lower(), "")


type Check = Callable[[Answer], str]


def wrong(answer: Answer, expected: int, check: Check | None) -> str:
    """Return "" for the expected answer, otherwise why it is not."""
    if answer.status == 0:
        return f"no answer: {answer.body.decode(errors='replace')}"
    if answer.status != expected:
        problem = _decode(answer.body, Problem)
        return f"{answer.status} {problem.code if problem else 'without a problem document'} instead of {expected}"
    if not answer.header("x-request-id"):
        return "no X-Request-ID"
    if expected >= 400 and _decode(answer.body, Problem) is None:
        return f"{expected} without a problem document"
    return check(answer) if check else ""


def retry_after_s(answer: Answer) -> int | None:
    """Return how long the server asks to wait, for an answer that sheds load; None for any other."""
    value = answer.header("retry-after")
    return int(value) if answer.status == 503 and value.isascii() and value.isdigit() else None


def user_of(email: str) -> Check:
    """Return the check for a User: of ``email``, active, not to be stored."""

    def check(answer: Answer) -> str:
        user = _decode(answer.body, User)
        if user is None:
            return "not a User"
        if user.email != email:
            return "somebody else's User"
        if not user.is_active:
            return "a User who is not active"
        return _stored(answer)

    return check


def token_pair(answer: Answer) -> str:
    """Check for a TokenPair that is not to be stored."""
    pair = _decode(answer.body, TokenPair)
    if pair is None:
        return "not a TokenPair"
    if not (pair.access_token and pair.refresh_token and pair.expires_in > 0):
        return "a TokenPair with an empty member"
    return _stored(answer)


def only_session(answer: Answer) -> str:
    """Check for a list with one session, the current one: the people of this swarm sign out."""
    devices = _decode(answer.body, list[Device])
    if devices is None:
        return "not a list of sessions"
    if not any(device.current for device in devices):
        return "a list without the current session"
    return _stored(answer) if len(devices) == 1 else "sessions that should have ended"


def verified(user_id: str) -> Check:
    """Return the check for the answer to a reverse proxy: empty, and about ``user_id``."""

    def check(answer: Answer) -> str:
        if answer.header("x-auth-subject") != user_id:
            return "X-Auth-Subject of somebody else"
        return "a body where there must be none" if answer.body else ""

    return check


def pair_in(answer: Answer) -> TokenPair:
    """Return the token pair of an answer that was checked. Raises ``msgspec.DecodeError`` if it was not."""
    return msgspec.json.decode(answer.body, type=TokenPair)


def user_in(answer: Answer) -> User:
    """Return the user of an answer that was checked. Raises ``msgspec.DecodeError`` if it was not."""
    return msgspec.json.decode(answer.body, type=User)


def _stored(answer: Answer) -> str:
    return "" if NO_STORE in answer.header("cache-control") else "an answer that caches may store"


def _decode[T](body: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError:  # ValidationError is one
        return None
