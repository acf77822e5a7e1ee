"""The one middleware both lanes share: request id, security headers, access log."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from inspect import iscoroutinefunction, markcoroutinefunction
from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from ironauth.infrastructure.core.ids import choose_request_id, current_request_id, enter_request, leave_request
from ironauth.infrastructure.core.live_settings import live
from ironauth.infrastructure.http import client_context
from ironauth.infrastructure.http.client_context import client_address
from ironauth.infrastructure.telemetry import logs

__all__ = ["JSON_POLICY", "SECURITY_HEADERS", "RequestContextMiddleware", "current_request_id", "harden", "hsts"]

#: nginx's code for a client that went away before its answer; it only appears in the log.
CLIENT_CLOSED_REQUEST = 499
#: Sent unless a view or another middleware decided otherwise (OWASP REST Security, "Security headers").
SECURITY_HEADERS = (
    ("x-content-type-options", "X-Content-Type-Options", "nosniff"),
    ("x-frame-options", "X-Frame-Options", "DENY"),
    ("referrer-policy", "Referrer-Policy", "no-referrer"),
)
#: Where files are served; no other site's pages may load them (Fetch, "Cross-Origin-Resource-Policy header").
STATIC_PREFIX = "/static/"
RESOURCE_POLICY = ("Cross-Origin-Resource-Policy", "same-origin")
#: For JSON and for answers without content, which load nothing and are never framed; pages bring their own policy.
JSON_POLICY = "default-src 'none'; frame-ancestors 'none'"
_JSON_TYPES = ("application/json", "application/problem+json")
#: The same as a response stores them: a field's key, then its name and value.
_SECURITY_FIELDS = tuple((key, (name, value)) for key, name, value in SECURITY_HEADERS)
_JSON_POLICY_FIELD = ("Content-Security-Policy", JSON_POLICY)
_NO_FIELD = ("", "")
HSTS_FIELD = "Strict-Transport-Security"

SyncNext = Callable[[HttpRequest], HttpResponseBase]
AsyncNext = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


class RequestContextMiddleware:
    """Names the request, and writes one access line without query string, header or body."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: SyncNext | AsyncNext) -> None:
        """Follow ``get_response``: async when it is, so that no thread is involved."""
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Answer ``request``, or return the coroutine that will."""
        if self.is_async:
            return self._answer(request)
        started = time.perf_counter()
        request_id = choose_request_id(request.META.get("HTTP_X_REQUEST_ID"))
        token, context = enter_request(request_id), client_context.enter(request)
        try:
            response = cast("SyncNext", self.get_response)(request)
            self._finish(request, response, started, request_id)
        finally:
            client_context.leave(context)
            leave_request(token)
        return response

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        request_id = choose_request_id(request.META.get("HTTP_X_REQUEST_ID"))
        token, context = enter_request(request_id), client_context.enter(request)
        try:
            response = await cast("AsyncNext", self.get_response)(request)
            self._finish(request, response, started, request_id)
        except asyncio.CancelledError:
            self._log(request, CLIENT_CLOSED_REQUEST, started, request_id)
            raise
        finally:
            client_context.leave(context)
            leave_request(token)
        return response

    def _finish(self, request: HttpRequest, response: HttpResponseBase, started: float, request_id: str) -> None:
        # Read and written without the mapping's methods: six case-folding calls per request are 3 µs.
        present = response.headers._store  # noqa: SLF001 - the mapping's own store
        # The alphabet of request ids needs no encoding (request_id.py).
        present["x-request-id"] = ("X-Request-ID", request_id)
        harden(response)
        if request.path_info.startswith(STATIC_PREFIX):
            present.setdefault("cross-origin-resource-policy", RESOURCE_POLICY)
        if live.SECURE_HSTS_SECONDS and "strict-transport-security" not in present and request.is_secure():
            present["strict-transport-security"] = (HSTS_FIELD, hsts())
        self._log(request, response.status_code, started, request_id)

    @staticmethod
    def _log(request: HttpRequest, status: int, started: float, request_id: str) -> None:
        if live.IRONAUTH_ACCESS_LOG:
            logs.access(
                request.method or "",
                request.path,
                status,
                (time.perf_counter() - started) * 1000,
                client_address(request),
                request_id,
            )


def harden(response: HttpResponseBase) -> None:
    """Add the security headers that no view has decided on; an empty answer has no type (RFC 9110 §8.3)."""
    present = response.headers._store  # noqa: SLF001 - the mapping's own store
    for key, field in _SECURITY_FIELDS:
        if key not in present:
            present[key] = field
    if not response.streaming and not cast("HttpResponse", response).content:
        present.pop("content-type", None)
    kind = present.get("content-type", _NO_FIELD)[1]
    if not kind or kind.startswith(_JSON_TYPES):
        present.setdefault("content-security-policy", _JSON_POLICY_FIELD)


def harden_unread(response: HttpResponseBase, scope: Mapping[str, Any]) -> None:
    """Add the security headers to the answer to a head that Django cannot read: no middleware has seen it.

    Args:
        response: Gets the headers.
        scope: The request, as ASGI describes it.
    """
    harden(response)
    if live.SECURE_HSTS_SECONDS and scope.get("scheme") == "https":
        response.headers[HSTS_FIELD] = hsts()


def hsts() -> str:
    """Return the value Django's SecurityMiddleware would send (RFC 6797 §6.1)."""
    value = f"max-age={live.SECURE_HSTS_SECONDS}"
    if live.SECURE_HSTS_INCLUDE_SUBDOMAINS:
        value += "; includeSubDomains"
    if live.SECURE_HSTS_PRELOAD:
        value += "; preload"
    return value
