"""Answers of the API that pages of listed origins may read (CORS; the Fetch standard §3.2).

It stands outside everything else, so that refusals and recorded answers carry the same headers. Without a listed origin
it is absent. The well-kept package for this is Django middleware, which the API lane does not run.
"""

from collections.abc import Collection
from http import HTTPStatus
from typing import Final

from ironauth.infrastructure.core.asgi_types import WHOLE_ANSWER, Application, Message, Receive, Scope, Send

METHODS: Final = b"GET, POST, PUT, PATCH, DELETE"
#: Headers a page may send beyond those that it always may.
ALLOWED: Final = b"Authorization, Content-Type, DPoP, X-Request-ID, If-Match, If-None-Match, Idempotency-Key"
#: Headers of an answer a page may read beyond those that it always may.
EXPOSED: Final = (
    b"Retry-After, WWW-Authenticate, X-Request-ID, Location, ETag, Content-Disposition, "
    b"Idempotency-Replayed, RateLimit-Policy, RateLimit, Deprecation, Sunset, Link"
)
PREFLIGHT_S: Final = 7_200  # seconds; the most that Chromium keeps
_VARY: Final = (b"vary", b"Origin")


class CrossOrigin:
    """Lets pages of ``origins`` read what is below ``prefixes``, with cookies; everything else passes as it is."""

    def __init__(self, application: Application, *, origins: Collection[str], prefixes: tuple[str, ...]) -> None:
        """Stand before an application.

        Args:
            application: What answers.
            origins: As browsers send them.
            prefixes: The beginnings of the paths that pages may read.
        """
        self._application = application
        self._origins = frozenset(origin.encode("ascii") for origin in origins)
        self._prefixes = prefixes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight, or add the headers to what the application answers."""
        if scope["type"] != "http" or not scope["path"].startswith(self._prefixes):
            await self._application(scope, receive, send)
            return
        origin = _header(scope, b"origin")
        allowed = [_VARY]
        if origin in self._origins:
            allowed += [(b"access-control-allow-origin", origin), (b"access-control-allow-credentials", b"true")]
            if scope["method"] == "OPTIONS" and _header(scope, b"access-control-request-method"):
                await _preflight(send, allowed)
                return
            allowed.append((b"access-control-expose-headers", EXPOSED))

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *allowed]}
            elif message["type"] == WHOLE_ANSWER:
                message = {**message, "lines": message["lines"] + _lines(allowed)}
            await send(message)

        await self._application(scope, receive, with_headers)


def _lines(headers: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(b"%s: %s\r\n" % header for header in headers)


async def _preflight(send: Send, allowed: list[tuple[bytes, bytes]]) -> None:
    headers = [
        *allowed,
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", ALLOWED),
        (b"access-control-max-age", str(PREFLIGHT_S).encode()),
    ]
    await send({"type": "http.response.start", "status": HTTPStatus.NO_CONTENT.value, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _header(scope: Scope, name: bytes) -> bytes:
    """Return a request's header, "" where it is missing or sent twice."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0] if len(values) == 1 else b""
