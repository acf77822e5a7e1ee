"""Editing what was read and nothing newer: ETag, If-Match and If-None-Match of single resources (RFC 9110 §13).

The ETag is a hash of what GET shows, so that no table has a column for it. A condition of a change is judged in the
transaction of the change, with the row locked: of two who send the same ETag, one changes the row.
"""

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPMethod, HTTPStatus
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import parse_etags

from ironauth.infrastructure.api.renderers import encode
from ironauth.infrastructure.core import base64url
from ironauth.infrastructure.core.errors import DomainError, NotFound
from ironauth.infrastructure.db.unit_of_work import Unit

ETAG_BYTES: Final = 16  # of SHA-256: 128 bits, so that nobody finds two states of one ETag by accident
ANY: Final = "*"


class PreconditionFailed(DomainError):
    """The resource is not as the condition of the request says; nothing was done (RFC 9110 §15.5.13)."""

    status = 412
    code = "precondition_failed"
    title = "Precondition failed"
    detail = "It is not as the condition says: read it again, and send the ETag of that answer as If-Match."


@dataclass(frozen=True)
class Edited:
    """One kind of resource that GET shows and other methods change; a view names it in ``edited``.

    Args:
        show: Returns what GET answers, from the values of the path, in a unit of work. Raises ``NotFound``.
        lock: Locks the row until the transaction ends, from the same values. Every change of it does the same.
    """

    show: Callable[..., object]
    lock: Callable[..., object]


class Condition:
    """What one request asks of a resource, and the ETag after a change that was made under it."""

    def __init__(self, request: HttpRequest, edited: Edited, place: Collection[Any]) -> None:
        """Read the header fields; one that cannot be read names no state, and so never holds.

        Args:
            request: Django's request.
            edited: The kind of resource.
            place: The values of the path.
        """
        match, none_match = (request.headers.get(name) for name in ("If-Match", "If-None-Match"))
        self._match = None if match is None else parse_etags(match)
        self._none_match = parse_etags(none_match or "")
        self._edited = edited
        self._place = tuple(place)
        self._is_judged = False
        self.etag: str | None = None

    @property
    def is_stated(self) -> bool:
        """Whether the request has a condition at all."""
        return self._match is not None or bool(self._none_match)

    def require_match(self, etag: str) -> None:
        """Compare If-Match strongly (RFC 9110 §8.8.3.2): a weak ETag is never equal.

        Raises:
            PreconditionFailed: The state is another one.
        """
        if self._match is not None and self._match != [ANY] and etag not in self._match:
            raise PreconditionFailed

    def is_known(self, etag: str) -> bool:
        """Compare If-None-Match weakly: a proxy that compresses has made the ETag weak.

        Args:
            etag: Of the state now.
        """
        return self._none_match == [ANY] or etag in {one.removeprefix("W/") for one in self._none_match}

    def around(self, unit: Unit) -> Unit:
        """Return the unit of work with the condition judged first, in its transaction; for the first unit alone.

        Args:
            unit: What the request has asked for.
        """
        if self._is_judged:
            return unit
        self._is_judged = True

        def under_condition() -> Any:
            self._edited.lock(*self._place)
            before = etag_of(self._edited.show(*self._place))
            self.require_match(before)
            if self.is_known(before):
                raise PreconditionFailed
            result = unit()
            self.etag = self._after()
            return result

        return under_condition

    def require_judged(self) -> None:
        """Make sure that no answer says a condition held that nobody has judged.

        Raises:
            RuntimeError: The handler has written nothing by ``DatabasePool.write``.
        """
        if not self._is_judged:
            raise RuntimeError("A view with `edited` has changed something outside DatabasePool.write")

    def _after(self) -> str | None:
        """Return the ETag from now on; None where the path leads to nothing any more."""
        try:
            return etag_of(self._edited.show(*self._place))
        except NotFound:
            return None


def etag_of(shown: object) -> str:
    """Return the strong ETag of a state.

    Args:
        shown: What GET answers.
    """
    return f'"{base64url.encode(hashlib.sha256(encode(shown)).digest()[:ETAG_BYTES])}"'


def answered(condition: Condition, shown: object, answer: HttpResponseBase) -> HttpResponseBase:
    """Return the answer to GET with its ETag, or 304 where the client has that state already.

    Args:
        condition: Of the request.
        shown: The state.
        answer: The answer without a condition.

    Raises:
        PreconditionFailed: If-Match names another state.
    """
    etag = etag_of(shown)
    condition.require_match(etag)
    if condition.is_known(etag):
        answer = HttpResponse(status=HTTPStatus.NOT_MODIFIED)
        del answer.headers["Content-Type"]
    answer.headers["ETag"] = etag
    return answer


def is_reading(method: str | None) -> bool:
    """Tell whether a method shows the state and changes nothing.

    Args:
        method: As the request has it.
    """
    return method in (HTTPMethod.GET, HTTPMethod.HEAD)
