"""Django's request object for ASGI, made in half the time: the names of header fields are translated once.

ALLOWED_HOSTS is judged here too, before either lane does any work; Django judges it in CommonMiddleware, or never.
"""

from functools import cached_property
from typing import Any, BinaryIO

from django.core.exceptions import BadRequest, DisallowedHost, SuspiciousOperation
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest

from ironauth.infrastructure.core.asgi_types import Scope
from ironauth.infrastructure.core.live_settings import live
from ironauth.infrastructure.http import cookies

#: What Django raises for a head it cannot read: a query that is no UTF-8, a charset of no text, a Content-Type without
#: end. Where the type has a charset it counts the query's fields at once, and refuses too many.
UNREADABLE_HEAD = (ValueError, BadRequest, SuspiciousOperation)
#: Names of fields remembered per process; a client that invents more pays for its own.
MAX_NAMES = 512
#: The name of a field as it arrives -> as Django's META has it; empty for one that Django ignores.
_names: dict[bytes, str] = {}

#: Host spellings remembered per process. A stranger can invent more (any port, any name under a wildcard): the oldest
#: makes room, and one that was dropped costs a check of 10 µs, in either lane.
MAX_REMEMBERED = 64
_remembered: dict[str, None] = {}
_remembered_for: list[object] = []


def _meta_name(name: bytes) -> str:
    text = name.decode("latin1")
    if "_" in text:  # spoofing by the likeness of underscores and hyphens
        found = ""
    elif text in ("content-length", "content-type"):
        found = text.upper().replace("-", "_")
    else:
        found = f"HTTP_{text.upper().replace('-', '_')}"
    if len(_names) < MAX_NAMES:
        _names[name] = found
    return found


class StrictRequest(ASGIRequest):
    """Django's request with this product's reader of cookies: sessions, CSRF and whatever else is Django's use it."""

    @cached_property
    def COOKIES(self) -> dict[str, str]:  # type: ignore[override] # noqa: N802 - Django's name
        """The cookies by exact name. Raises ``AmbiguousCookies``; the lanes have refused such a request before."""
        return cookies.read(self.META.get("HTTP_COOKIE", ""))


class LeanRequest(StrictRequest):
    """What ``ASGIRequest`` makes of a scope; a test compares the two."""

    @property
    def scheme(self) -> str | None:
        """What Django says; without SECURE_PROXY_SSL_HEADER that is what the server says."""
        return super().scheme if live.SECURE_PROXY_SSL_HEADER else self.scope.get("scheme") or "http"

    def __init__(self, scope: Scope, body_file: BinaryIO) -> None:
        """Read the head. Raises ``UnicodeDecodeError`` and ``BadRequest``, as Django does."""
        if scope.get("root_path") or live.FORCE_SCRIPT_NAME:
            super().__init__(scope, body_file)
            return
        self.scope = scope
        self._post_parse_error = False
        self._read_started = False
        self.path = self.path_info = scope["path"]
        self.script_name = ""
        self.method = scope["method"].upper()
        meta: dict[str, Any] = {
            "REQUEST_METHOD": self.method,
            "QUERY_STRING": scope.get("query_string", b"").decode(),
            "SCRIPT_NAME": "",
            "PATH_INFO": self.path,
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
        }
        if client := scope.get("client"):
            meta["REMOTE_ADDR"] = meta["REMOTE_HOST"] = client[0]
            meta["REMOTE_PORT"] = client[1]
        if server := scope.get("server"):
            meta["SERVER_NAME"] = server[0]
            meta["SERVER_PORT"] = str(server[1])
        else:
            meta["SERVER_NAME"] = "unknown"
            meta["SERVER_PORT"] = "0"
        known = _names
        for name, raw in scope.get("headers", ()):
            key = known.get(name)
            if key is None:
                key = _meta_name(name)
            if not key:
                continue
            value = raw.decode("latin1")
            if key == "HTTP_COOKIE":
                value = value.rstrip("; ")
                meta[key] = f"{meta[key]}; {value}" if key in meta else value
            else:
                meta[key] = f"{meta[key]},{value}" if key in meta else value
        self.META = meta
        if "CONTENT_TYPE" in meta:
            self._set_content_type_params(meta)  # type: ignore[attr-defined] # HttpRequest has it
        else:
            self.content_type = ""
            self.content_params = {}
        self._stream = body_file
        self.resolver_match = None


def check_host(request: HttpRequest) -> None:
    """Raise Django's `DisallowedHost` (400) when the Host header is not in ALLOWED_HOSTS.

    Accepted spellings are remembered until the setting is another object.
    """
    allowed = live.ALLOWED_HOSTS
    if not _remembered_for or _remembered_for[0] is not allowed:
        _remembered.clear()
        _remembered_for[:] = [allowed]
    host = request.META.get("HTTP_HOST")
    if host in _remembered and not live.USE_X_FORWARDED_HOST:
        return
    request.get_host()
    if host is not None:
        if len(_remembered) >= MAX_REMEMBERED:
            del _remembered[next(iter(_remembered))]
        _remembered[host] = None


def is_allowed_host(host: str) -> bool:
    """Tell whether `check_host` accepts this spelling; False also where X-Forwarded-Host counts instead."""
    if live.USE_X_FORWARDED_HOST:
        return False
    if host in _remembered and _remembered_for[0] is live.ALLOWED_HOSTS:
        return True
    request = HttpRequest()
    request.META = {"HTTP_HOST": host}
    try:
        check_host(request)
    except DisallowedHost:
        return False
    return True


def is_our_host(scope: Scope) -> bool:
    """Tell whether `check_host` would let a request with this ASGI scope pass."""
    request = HttpRequest()
    server = scope.get("server") or ("", None)
    request.META = {"SERVER_NAME": server[0], "SERVER_PORT": str(server[1] or 80)}
    for name, value in scope["headers"]:
        if name in (b"host", b"x-forwarded-host"):
            request.META["HTTP_" + name.decode().upper().replace("-", "_")] = value.decode("latin1")
    try:
        check_host(request)
    except DisallowedHost:
        return False
    return True
