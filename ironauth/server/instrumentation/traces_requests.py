"""A server span for each request, by OpenTelemetry's conventions for HTTP, around every lane.

https://opentelemetry.io/docs/specs/semconv/http/http-spans/. Left out of what they ask for: ``url.path`` and
``url.query``, which have ids and tokens in them (the route says enough), and every address.
"""

from typing import Any, Final

from django.conf import settings
from opentelemetry import context, trace
from opentelemetry.semconv.attributes.error_attributes import ERROR_TYPE
from opentelemetry.semconv.attributes.http_attributes import (
    HTTP_REQUEST_METHOD,
    HTTP_RESPONSE_HEADER_TEMPLATE,
    HTTP_RESPONSE_STATUS_CODE,
    HTTP_ROUTE,
)
from opentelemetry.semconv.attributes.network_attributes import NETWORK_PROTOCOL_VERSION
from opentelemetry.semconv.attributes.url_attributes import URL_SCHEME
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ironauth.infrastructure.core.asgi_types import Application, Message, Receive, Scope, Send
from ironauth.infrastructure.http.client_context import is_from_proxy, with_forwarded_scheme
from ironauth.infrastructure.http.middleware import STATIC_PREFIX
from ironauth.server.instrumentation.route_label import METHODS, STATIC_ROUTE, listen

OTHER_METHOD: Final = "_OTHER"
REQUEST_ID: Final = f"{HTTP_RESPONSE_HEADER_TEMPLATE}.x-request-id"
SERVER_ERROR: Final = 500
_W3C: Final = TraceContextTextMapPropagator()


class _Answering:
    """A ``send`` that remembers status and request id and, when a handler has found it, the route."""

    __slots__ = ("request_id", "route", "send", "status")

    def __init__(self, send: Send) -> None:
        self.send = send
        self.status = 0
        self.request_id = ""
        self.route: str | None = None

    def __call__(self, message: Message) -> Any:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.request_id = next(
                (v.decode() for name, v in message.get("headers", ()) if name.lower() == b"x-request-id"), ""
            )
        return self.send(message)  # not awaited here: a coroutine less


class TracedRequests:
    """Leaves a span of everything that ``application`` answers.

    A caller's trace is gone on
    with only where a proxy of IRONAUTH_TRUSTED_PROXIES names it: anybody else could have all of their requests sampled,
    or lead them into traces of others.
    """

    def __init__(self, application: Application, tracer: trace.Tracer, *, fixed_paths: frozenset[str]) -> None:
        """Wrap an application.

        Args:
            application: answers.
            tracer: makes the spans.
            fixed_paths: routes without parameters, which may be answered without a handler.
        """
        self._application = application
        self._tracer = tracer
        self._fixed_paths = fixed_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by the application."""
        method = scope["method"] if scope["method"] in METHODS else OTHER_METHOD
        proxied = bool(settings.IRONAUTH_TRUSTED_PROXIES) and is_from_proxy(scope)
        known = {
            HTTP_REQUEST_METHOD: method,
            URL_SCHEME: with_forwarded_scheme(scope)["scheme"] if proxied else scope["scheme"],
            NETWORK_PROTOCOL_VERSION: scope["http_version"],
        }
        name = "HTTP" if method == OTHER_METHOD else method
        parent = _caller(scope) if proxied else context.Context()
        span = self._tracer.start_span(name, context=parent, kind=trace.SpanKind.SERVER, attributes=known)
        answering = _Answering(send)
        scope = {**scope, "extensions": {}}  # what it looks at are ASGI's own messages
        listen(scope, answering)
        token = context.attach(trace.set_span_in_context(span))
        try:
            await self._application(scope, receive, answering)
        finally:
            context.detach(token)
            if span.is_recording():
                self._describe(span, name, scope["path"], answering)
            span.end()

    def _describe(self, span: trace.Span, name: str, path: str, answering: _Answering) -> None:
        route = answering.route
        if route is None and path in self._fixed_paths:
            route = path
        elif route is None and path.startswith(STATIC_PREFIX):
            route = STATIC_ROUTE
        if route is not None:
            span.set_attribute(HTTP_ROUTE, route)
            span.update_name(f"{name} {route}")
        if answering.status:  # otherwise the client has left
            span.set_attribute(HTTP_RESPONSE_STATUS_CODE, answering.status)
        if answering.request_id:
            span.set_attribute(REQUEST_ID, [answering.request_id])
        if answering.status >= SERVER_ERROR:
            span.set_attribute(ERROR_TYPE, str(answering.status))
            span.set_status(trace.StatusCode.ERROR)


def _caller(scope: Scope) -> context.Context:
    """Return the context that a ``traceparent`` names, an empty one without one or with several (W3C Trace Context)."""
    parents = [value for name, value in scope["headers"] if name == b"traceparent"]
    if len(parents) != 1:
        return context.Context()
    states = [value.decode("latin1") for name, value in scope["headers"] if name == b"tracestate"]
    carrier = {"traceparent": parents[0].decode("latin1"), "tracestate": ",".join(states)}
    return _W3C.extract(carrier, context.Context())
