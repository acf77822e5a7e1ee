"""Every error leaves as an RFC 9457 ``application/problem+json`` document."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import (
    BadRequest,
    DisallowedHost,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.core.signals import got_request_exception
from django.http import Http404, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError
from rest_framework import exceptions as drf

from ironauth.config.error_codes import problem_type
from ironauth.infrastructure.api import renderers
from ironauth.infrastructure.api.renderers import LeanResponse
from ironauth.infrastructure.core import errors as domain
from ironauth.infrastructure.core.errors import DomainError, FieldError
from ironauth.infrastructure.core.ids import choose_request_id, current_request_id
from ironauth.infrastructure.telemetry.logs import get_logger

MEDIA_TYPE = "application/problem+json"
log = get_logger()

#: Django's own errors -> (status, code, what the client is told). Order matters: the first that fits answers.
_DJANGO_ERRORS: tuple[tuple[type[Exception], int, str, str], ...] = (
    (Http404, 404, "not_found", "There is nothing here."),
    (PermissionDenied, 403, "permission_denied", "You do not have permission to do this."),
    (DisallowedHost, 400, "bad_host", "This server does not answer to that Host."),
    (RequestDataTooBig, 413, "body_too_large", "The body is too large."),
    (SuspiciousOperation, 400, "bad_request", "The request could not be understood."),
    (MultiPartParserError, 400, "bad_request", "The multipart body could not be understood."),
    (UnreadablePostError, 400, "bad_request", "The body could not be read."),
    (BadRequest, 400, "bad_request", "The request could not be understood."),
)


def phrase(status: int) -> str:
    """Return the reason phrase of ``status``, the title of errors that have no better one."""
    return HTTPStatus(status).phrase


def problem_body(
    *,
    status: int,
    code: str,
    title: str,
    detail: str,
    request_id: str,
    errors: Sequence[FieldError] = (),
    members: Mapping[str, object] | None = None,
) -> bytes:
    """Return the JSON document alone, for callers outside Django; ``errors`` is left out when empty.

    Args:
        status: The HTTP status.
        code: The stable code that programs compare.
        title: What the status is called.
        detail: What is wrong and what to do, for a developer.
        request_id: The same as in the log.
        errors: One for each bad field; left out when empty.
        members: Further members; none replaces one of the above.
    """
    document: dict[str, object] = {
        "type": problem_type(code),
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "request_id": request_id,
    }
    if errors:
        document["errors"] = list(errors)
    for name, value in (members or {}).items():
        document.setdefault(name, value)
    return renderers.encode(document)


def problem_response(
    *,
    status: int,
    code: str,
    title: str,
    detail: str,
    errors: Sequence[FieldError] = (),
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, object] | None = None,
    request_id: str | None = None,
) -> HttpResponse:
    """Return the problem as a response nobody may store; ``request_id`` defaults to the current request's.

    Args:
        status: The HTTP status.
        code: The stable code that programs compare.
        title: What the status is called.
        detail: What is wrong and what to do, for a developer.
        errors: One for each bad field; left out when empty.
        headers: Further headers.
        members: Further members; none replaces one of the above.
        request_id: Defaults to the current request's.
    """
    body = problem_body(
        status=status,
        code=code,
        title=title,
        detail=detail,
        errors=errors,
        members=members,
        request_id=request_id or current_request_id() or choose_request_id(None),
    )
    response = LeanResponse(body, MEDIA_TYPE, status)
    response.headers["Cache-Control"] = "no-store"
    for name, value in (headers or {}).items():
        response.headers[name] = value
    return response


def is_expected(exc: BaseException) -> bool:
    """Tell a failure the contract describes from a bug."""
    return isinstance(exc, (DomainError, drf.APIException)) or any(isinstance(exc, row[0]) for row in _DJANGO_ERRORS)


def exception_handler(exc: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """Answer ``exc``; DRF's EXCEPTION_HANDLER, and the lean handler's.

    Anything unexpected is logged with its traceback and answered with a generic 500, also under DEBUG.

    Args:
        exc: What the view raised.
        context: DRF's: the view and the request.

    Raises:
        Exception: Anything unexpected, once more, where DEBUG_PROPAGATE_EXCEPTIONS is set.
    """
    if isinstance(exc, DomainError):
        return problem_response(
            status=exc.status,
            code=exc.code,
            title=exc.title,
            detail=exc.detail,
            errors=exc.errors,
            headers=exc.headers,
            members=exc.members,
        )
    if isinstance(exc, drf.APIException):
        return _drf_problem(exc, context)
    for kind, status, code, detail in _DJANGO_ERRORS:
        if isinstance(exc, kind):
            if isinstance(exc, SuspiciousOperation):  # ASVS 16.3.3; Django's own handler reports these as well
                log.warning("suspicious_request", kind=type(exc).__name__)
            return problem_response(status=status, code=code, title=phrase(status), detail=detail)
    return _unexpected(exc, context)


async def report_unexpected(exc: Exception, request: object) -> None:
    """Send ``got_request_exception`` for a bug, as Django's handler does; error trackers listen to it.

    Args:
        exc: What the view raised.
        request: The request, for the receivers.
    """
    if got_request_exception.receivers and not is_expected(exc):
        await got_request_exception.asend(sender=None, request=request)


def _unexpected(exc: Exception, context: Mapping[str, Any]) -> HttpResponse:
    if settings.DEBUG_PROPAGATE_EXCEPTIONS:
        raise exc
    request = context.get("request")
    log.error(
        "unhandled_error",
        method=getattr(request, "method", None),
        path=getattr(request, "path", None),
        exc_info=exc if exc.__traceback__ is not None else sys.exc_info(),
    )
    return problem_response(
        status=500,
        code=DomainError.code,
        title=phrase(500),
        detail="The server could not answer this request; its log has the cause under this request_id.",
    )


def _drf_problem(exc: drf.APIException, context: Mapping[str, Any]) -> HttpResponse:
    """Answer a DRF exception with the headers its status asks for."""
    headers: dict[str, str] = {}
    if challenge := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if (wait_s := getattr(exc, "wait", None)) is not None:  # Throttled
        headers["Retry-After"] = str(max(1, math.ceil(wait_s)))
    if isinstance(exc, drf.MethodNotAllowed) and (view := context.get("view")) is not None:
        headers["Allow"] = ", ".join(view.allowed_methods)  # RFC 9110 §15.5.6
    if isinstance(exc, drf.ValidationError):
        invalid = domain.ValidationFailed
        return problem_response(
            status=exc.status_code,
            code=invalid.code,
            title=invalid.title,
            detail=invalid.detail,
            errors=tuple(flatten(exc.detail)),
            headers=headers,
        )
    detail = exc.detail
    status = exc.status_code
    text = str(detail) if isinstance(detail, str) else phrase(status)
    if isinstance(exc, drf.NotAuthenticated) and text == str(drf.NotAuthenticated.default_detail):
        text = _missing_credential(context) or text
    if text.startswith("Unsupported media type ") and (view := context.get("view")) is not None:
        accepted = " or ".join(parser.media_type for parser in view.parser_classes)
        text += f" Send it with Content-Type: {accepted}."
    return problem_response(
        status=status,
        code=(detail.code if isinstance(detail, drf.ErrorDetail) else None) or exc.default_code,
        title=phrase(status),
        detail=text,
        headers=headers,
    )


def _missing_credential(context: Mapping[str, Any]) -> str:
    """Return what the view's first authenticator asks for: its ``missing_credential``; "" where it has none."""
    authenticators = getattr(context.get("view"), "authentication_classes", ())
    return str(getattr(authenticators[0], "missing_credential", "")) if authenticators else ""


def flatten(detail: object, path: str = "") -> Iterable[FieldError]:
    """Yield one `FieldError` per message of DRF's nested error structure; nested names are joined with dots.

    Errors of the whole object (DRF's ``non_field_errors``) have the empty field name, or their parent's.

    Args:
        detail: The ``detail`` of DRF's ``ValidationError``.
        path: The name of the field that ``detail`` is about.
    """
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            step = "" if name == "non_field_errors" else str(name)
            yield from flatten(inner, ".".join(part for part in (path, step) if part))
    elif isinstance(detail, (list, tuple)):
        for index, inner in enumerate(detail):
            # A list of structures is DRF's many=True: one per item. A list of texts: several about one field.
            nested = isinstance(inner, (Mapping, list, tuple))
            yield from flatten(inner, ".".join(part for part in (path, str(index)) if part) if nested else path)
    else:
        yield FieldError(field=path, code=getattr(detail, "code", "invalid"), message=str(detail))
