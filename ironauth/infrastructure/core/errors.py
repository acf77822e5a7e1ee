"""The root of domain errors: what a service raises, with the status and stable code a client sees."""

# Named for what happened to the request, as Django and DRF name theirs.

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import msgspec
from django.utils.translation import gettext_noop as _

#: RFC 6750 §3: the challenge of a request that brought no usable credential.
BEARER_CHALLENGE = 'Bearer realm="ironauth"'
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class FieldError(msgspec.Struct, frozen=True):
    """One bad input field: its dotted path, a stable code and a sentence for the person who typed it."""

    field: str
    code: str
    message: str


class DomainError(Exception):
    """An expected failure; ``api.problem.exception_handler`` answers it with RFC 9457 problem+json.

    ``errors`` lists every bad field, ``members`` are extension members of the problem (RFC 9457 §3.2),
    ``retry_after_s`` becomes ``Retry-After`` in whole seconds.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    title: ClassVar[str] = "Internal server error"
    detail: str = _("The server could not answer this request.")
    default_headers: ClassVar[Mapping[str, str]] = _NO_HEADERS
    default_retry_after_s: ClassVar[int | None] = None

    def __init__(
        self,
        detail: str | None = None,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, object] | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        """Keep what the answer needs; everything left out comes from the class."""
        if detail is not None:
            self.detail = detail
        super().__init__(self.detail)
        self.errors = tuple(errors)
        self.members: dict[str, object] = dict(members or {})
        self.retry_after_s = self.default_retry_after_s if retry_after_s is None else retry_after_s
        self.headers = {**self.default_headers, **(headers or {})}
        if self.retry_after_s is not None:
            self.headers["Retry-After"] = str(max(1, self.retry_after_s))


class BadRequest(DomainError):
    """The request itself is malformed or contradicts itself."""

    status = 400
    code = "bad_request"
    title = "Bad request"
    detail = _("The request could not be understood.")


class ValidationFailed(DomainError):
    """One or more fields are bad; ``errors`` names each."""

    status = 400
    code = "invalid"
    title = "Invalid input"
    detail = _("One or more fields are invalid; see errors.")


class NotAuthenticated(DomainError):
    """No credential, or one that is not accepted; carries the RFC 6750 §3 challenge."""

    status = 401
    code = "not_authenticated"
    title = "Not authenticated"
    detail = "Send a valid access token."
    default_headers = MappingProxyType({"WWW-Authenticate": BEARER_CHALLENGE})


class PermissionDenied(DomainError):
    """The caller is known and may not do this."""

    status = 403
    code = "permission_denied"
    title = "Permission denied"
    detail = _("You do not have permission to do this.")


class NotFound(DomainError):
    """There is no such thing, or not for this caller."""

    status = 404
    code = "not_found"
    title = "Not found"
    detail = _("There is nothing here.")


class Conflict(DomainError):
    """The request contradicts the present state, for instance a name that is taken."""

    status = 409
    code = "conflict"
    title = "Conflict"
    detail = _("The request contradicts the present state.")


class Throttled(DomainError):
    """Tried too often; nothing was looked at (RFC 6585 §4)."""

    status = 429
    code = "throttled"
    title = "Too many attempts"
    detail = _("There were too many attempts: wait for as many seconds as Retry-After says, then try again.")
    default_retry_after_s = 1


class Overloaded(DomainError):
    """A bounded resource is full; the request was refused at once instead of queued (RFC 9110 §15.6.4)."""

    status = 503
    code = "overloaded"
    title = "Overloaded"
    detail = _("The server is busy; try again shortly.")
    default_retry_after_s = 1


class Unavailable(DomainError):
    """Something the answer depends on cannot be reached (RFC 9110 §15.6.4)."""

    status = 503
    code = "unavailable"
    title = "Unavailable"
    detail = _("The service is temporarily unavailable; try again shortly.")
    default_retry_after_s = 1
