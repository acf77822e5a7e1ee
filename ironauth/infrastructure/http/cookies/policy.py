"""The cookies a browser holds, and the origin check that their use on unsafe methods needs."""

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from ironauth.config import cookies as cookie_names
from ironauth.config.cookies import Cookie
from ironauth.infrastructure.core.live_settings import live

_DEFAULT_PORTS = {"http": "80", "https": "443"}


def name_of(cookie: Cookie) -> str:
    """Return what a browser calls a cookie of ours."""
    return cookie_names.name_of(cookie, secure=live.IRONAUTH_COOKIE_SECURE)


def give(response: HttpResponse, cookie: Cookie, value: str, *, max_age_s: int) -> None:
    """Have the browser bring ``value`` for so many seconds; no script sees it, and no other host gets it.

    Args:
        response: The response that sets it.
        cookie: Its name and its SameSite.
        value: Characters that a cookie may have (RFC 6265, §4.1.1).
        max_age_s: Seconds.
    """
    response.set_cookie(
        name_of(cookie),
        value,
        max_age=max_age_s,
        path="/",  # __Host- demands it
        secure=live.IRONAUTH_COOKIE_SECURE,
        httponly=True,
        samesite=cookie.samesite,
    )


def clear(response: HttpResponse) -> None:
    """Make the browser forget every cookie that signs in by itself; the device stays known."""
    for cookie in cookie_names.REGISTRY:
        if cookie.signs_in:
            give(response, cookie, "", max_age_s=0)


def _origin(url: str) -> str | None:
    """Return scheme://host:port of ``url`` in one spelling, or None if it is not an http(s) origin."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        return None
    return f"{parts.scheme}://{parts.hostname}:{port or _DEFAULT_PORTS[parts.scheme]}"


def origin_allowed(request: HttpRequest | Request) -> bool:
    """Tell whether a cookie-authenticated unsafe request comes from this site or from a trusted origin.

    The browser's own word is believed: ``Sec-Fetch-Site: same-origin`` or, from browsers without it, an ``Origin``
    equal to this host or to the issuer. Neither header, ``Origin: null`` and sibling sub-domains (``same-site``)
    are refused. Behind a proxy that ends TLS unannounced the scheme is not known, so plain http is then judged by
    its host alone.
    """
    meta = request.META
    origin = _origin(meta.get("HTTP_ORIGIN", ""))
    if origin is not None and any(origin == _origin(trusted) for trusted in settings.IRONAUTH_TRUSTED_ORIGINS):
        return True
    site = meta.get("HTTP_SEC_FETCH_SITE")
    if site is not None:
        return bool(site == "same-origin")
    if origin is None:
        return False
    host = request.get_host()
    own = {_origin(f"https://{host}"), _origin(settings.IRONAUTH_ISSUER)}
    if not request.is_secure():
        own.add(_origin(f"http://{host}"))
    return origin in own
