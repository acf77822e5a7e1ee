"""The answer to a request that no view will see: one problem document, one access line, and the connection ends."""

import time
from typing import NamedTuple

from django.conf import settings

from ironauth.infrastructure.api.problem import MEDIA_TYPE, phrase, problem_body
from ironauth.infrastructure.core.asgi_types import Receive, Scope, Send
from ironauth.infrastructure.core.ids import choose_request_id
from ironauth.infrastructure.http.client_context import client_address, with_forwarded_scheme
from ironauth.infrastructure.http.middleware import JSON_POLICY, SECURITY_HEADERS, hsts
from ironauth.infrastructure.telemetry import logs, metrics

#: Stands in the access log for a method or path that could not be read.
UNKNOWN = "-"
RETRY_AFTER_S = 1  # as errors.Overloaded: what is full now is usually not a second later

Headers = list[tuple[bytes, bytes]]
_FIXED: Headers = [
    (b"content-type", MEDIA_TYPE.encode()),
    (b"cache-control", b"no-store"),
    *((name.lower().encode(), value.encode()) for _, name, value in SECURITY_HEADERS),
    (b"content-security-policy", JSON_POLICY.encode()),
    (b"connection", b"close"),
]


class Refusal(Exception):
    """The request is answered here and now."""

    def __init__(self, status: int, code: str, detail: str, *, headers: dict[str, str] | None = None) -> None:
        """Keep the problem to send."""
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}


def malformed() -> Refusal:
    """Return the refusal of bytes that are no request."""
    return Refusal(400, "bad_request", "This is not a well-formed HTTP/1.1 request (RFC 9112).")


def head_too_large(limit: int) -> Refusal:
    """Return the refusal of fields that exceed ``limit`` bytes."""
    return Refusal(431, "headers_too_large", f"More than {limit} bytes of header fields.")


class Answer(NamedTuple):
    """A refusal, ready to be sent."""

    status: int
    headers: Headers
    body: bytes
    request_id: str


def answer_for(refusal: Refusal, scope: Scope) -> Answer:
    """Return what to send; ``scope`` is the request as far as it is known: ``client``, ``headers`` and ``scheme``.

    Args:
        refusal: Why the request is refused.
        scope: The request as far as it is known: ``client``, ``headers`` and ``scheme``.
    """
    incoming = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"").decode("latin1")
    request_id = choose_request_id(incoming)
    body = problem_body(
        status=refusal.status,
        code=refusal.code,
        title=phrase(refusal.status),
        detail=refusal.detail,
        request_id=request_id,
    )
    headers = [*_FIXED, (b"content-length", str(len(body)).encode()), (b"x-request-id", request_id.encode())]
    if settings.SECURE_HSTS_SECONDS and with_forwarded_scheme(scope)["scheme"] == "https":
        headers.append((b"strict-transport-security", hsts().encode()))
    headers.extend((name.lower().encode(), value.encode()) for name, value in refusal.headers.items())
    return Answer(refusal.status, headers, body, request_id)


def log_access(scope: Scope, status: int, duration_s: float, request_id: str) -> None:
    """Write the access line, unless the log is off.

    Args:
        scope: The request as far as it is known.
        status: The status of the answer.
        duration_s: Seconds.
        request_id: The id that the answer carries.
    """
    if settings.IRONAUTH_ACCESS_LOG:
        method, path = scope.get("method", UNKNOWN), scope.get("path", UNKNOWN)
        logs.access(method, path, status, duration_s * 1000, client_address(scope), request_id)


def log_refusal(scope: Scope, status: int, duration_s: float, request_id: str) -> None:
    """Write the access line of a request that the application never saw, and count it.

    Args:
        scope: The request as far as it is known.
        status: The status of the answer.
        duration_s: Seconds.
        request_id: The id that the answer carries.
    """
    if metrics.recorder is not None:
        metrics.recorder.count("ironauth_refusals", str(status))
    log_access(scope, status, duration_s, request_id)


async def overloaded(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer 503 without reading a body: the ASGI application that stands in while too many requests are running.

    Args:
        scope: The request, as ASGI describes it.
        _receive: Not awaited.
        send: Awaited with the two events of the answer.
    """
    started = time.perf_counter()
    refusal = Refusal(
        503,
        "overloaded",
        "Too many requests are being answered; try again shortly.",
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )
    status, headers, body, request_id = answer_for(refusal, scope)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
    log_refusal(scope, status, time.perf_counter() - started, request_id)
