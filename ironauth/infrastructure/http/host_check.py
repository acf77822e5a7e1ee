"""ALLOWED_HOSTS, judged before either lane does any work; stock Django judges it in CommonMiddleware, or never."""

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest

from ironauth.infrastructure.core.asgi_types import Scope
from ironauth.infrastructure.core.live_settings import live

#: Host spellings remembered per process. A stranger can invent more (any port, any name under a wildcard): the oldest
#: makes room, and one that was dropped costs a check of 10 µs, in either lane.
MAX_REMEMBERED = 64
_remembered: dict[str, None] = {}
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
