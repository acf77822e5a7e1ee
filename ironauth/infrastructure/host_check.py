"""ALLOWED_HOSTS, asked before either lane does any work; stock Django asks in CommonMiddleware, or never."""

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest

from ironauth.infrastructure.asgi_types import Scope
from ironauth.infrastructure.live_settings import live

#: Host spellings remembered per process; more is a client trying names.
_MAX_REMEMBERED = 64
_remembered: set[str] = set()
_remembered_for: list[object] = []


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
    if host is not None and len(_remembered) < _MAX_REMEMBERED:
        _remembered.add(host)


def is_known_host(host: str) -> bool:
    """Tell whether `check_host` accepted this spelling before and would again; False says nothing."""
    known = bool(_remembered_for) and _remembered_for[0] is live.ALLOWED_HOSTS and host in _remembered
    return known and not live.USE_X_FORWARDED_HOST


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
