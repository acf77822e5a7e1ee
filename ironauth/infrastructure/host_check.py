"""ALLOWED_HOSTS for the API lane, which has no CommonMiddleware to ask for the host."""

from django.conf import settings
from django.http import HttpRequest

#: Host spellings remembered per process; more is a client trying names.
_MAX_REMEMBERED = 64
_remembered: set[str] = set()
_remembered_for: list[object] = []


def check_host(request: HttpRequest) -> None:
    """Raise Django's `DisallowedHost` (400) when the Host header is not in ALLOWED_HOSTS.

    Accepted spellings are remembered until the setting is another object.
    """
    allowed = settings.ALLOWED_HOSTS
    if not _remembered_for or _remembered_for[0] is not allowed:
        _remembered.clear()
        _remembered_for[:] = [allowed]
    host = request.META.get("HTTP_HOST")
    if host in _remembered and not settings.USE_X_FORWARDED_HOST:
        return
    request.get_host()
    if host is not None and len(_remembered) < _MAX_REMEMBERED:
        _remembered.add(host)
