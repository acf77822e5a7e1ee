r"""Cookies: the one reader of the Cookie field, what is set, and the origin check that unsafe methods need.

A browser keeps other hosts from setting a name with the prefix ``__Host-``. That holds for the exact name only. A
reader that strips more than a browser, or decodes what a browser does not, turns another name into ours: a sibling host
sets ``\xa0__Host-sso``, the browser accepts it, and Python's ``str.strip()`` drops the first byte. So this reader
strips space and tab, compares exact names, and refuses a request with a name that any stripping or decoding makes ours.
"""

import re
import unicodedata
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from ironauth.config import cookies as cookie_names
from ironauth.config.cookies import Cookie
from ironauth.infrastructure.core.errors import BEARER_CHALLENGE, BadRequest
from ironauth.infrastructure.core.live_settings import live

#: What RFC 6265 §5.4 and RFC 9110 §5.6.3 let stand around a name or a value: space and tab.
BLANK: Final = " \t"
#: Spellings of names that a process remembers, and the longest of them in characters.
MOST_REMEMBERED: Final = 512
LONGEST_REMEMBERED: Final = 64
#: How many layers of percent-encoding are taken off to see what is below.
LAYERS: Final = 4
#: Two characters of one byte each can decompose into ours, so that half as many bytes may spell a name.
_EXPANSION: Final = 2
_PLAIN: Final = re.compile(r"[ \t]*([A-Za-z0-9_.-]*)[ \t]*")
_IN_NAMES: Final = re.compile(r"[^a-z0-9_-]+")
_OCTAL: Final = re.compile(r"\\([0-3][0-7]{2})")  # as Python's http.cookies writes bytes in quoted texts
_PERCENTS: Final = re.compile(r"%(?:25)+")  # percent-encoding in any number of layers

_OURS: Final = {secure: cookie_names.names(secure=secure) for secure in (True, False)}
_FOLDED: Final = {secure: {name.casefold() for name in names} for secure, names in _OURS.items()}
_SHORTEST: Final = {secure: min(map(len, names)) // _EXPANSION for secure, names in _OURS.items()}
#: The name of a cookie as it arrives -> without blanks; of names that are none of ours, or exactly ours.
_remembered: Final[dict[bool, dict[str, str]]] = {True: {}, False: {}}

_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


class AmbiguousCookies(BadRequest):
    """A cookie of ours came twice, or under a name that only becomes ours: nobody can tell which is genuine."""

    code = "two_credentials"
    title = "More than one credential"
    default_headers = MappingProxyType({"WWW-Authenticate": f'{BEARER_CHALLENGE}, error="invalid_request"'})
    detail = (
        "A cookie of this site was sent twice, or under a name that only looks like it: clear this site's cookies and "
        "try again."
    )


def read(field: str) -> dict[str, str]:
    """Return the cookies of a Cookie field by name; values are as sent.

    Args:
        field: As Django decodes it (Latin-1); several fields joined by ``"; "``.

    Raises:
        AmbiguousCookies: 400; a cookie of ours came twice, or under a name that only becomes ours.
    """
    secure = live.IRONAUTH_COOKIE_SECURE
    ours, remembered = _OURS[secure], _remembered[secure]
    found: dict[str, str] = {}
    for piece in field.split(";"):
        spelled, equals, value = piece.partition("=")
        name = remembered.get(spelled)
        if name is None:
            name = _judged(spelled, secure)
        if name in ours and (name in found or not equals):
            raise AmbiguousCookies
        if name and equals:
            found[name] = value.strip(BLANK)
        elif equals:  # no name; a reader that skips the first sign finds one in the value
            _judged(value.lstrip("=" + BLANK).partition("=")[0], secure, nameless=True)
    return found


def _judged(spelled: str, secure: bool, *, nameless: bool = False) -> str:
    """Return the name without blanks. Raises ``AmbiguousCookies`` for one that is not ours and becomes ours."""
    plain = _PLAIN.fullmatch(spelled)
    name = plain[1] if plain else spelled.strip(BLANK)
    if nameless or name not in _OURS[secure]:
        if len(name) >= _SHORTEST[secure] and any(form in _FOLDED[secure] for form in _forms(name, plain is not None)):
            raise AmbiguousCookies
        if nameless:
            return name
    remembered = _remembered[secure]
    if len(remembered) < MOST_REMEMBERED and len(spelled) <= LONGEST_REMEMBERED:
        remembered[spelled] = name
    return name


def _forms(name: str, is_plain: bool) -> set[str]:
    """Return what some reader might take the name for.

    Without escapes, as Latin-1 and as UTF-8, in the letters Unicode has for compatible ones, in lower case, without
    every character that no name of ours has.
    """
    if is_plain:
        return {_IN_NAMES.sub("", name.casefold())}
    for _ in range(LAYERS):
        decoded = unquote(_PERCENTS.sub("%", name), "latin-1")
        decoded = _OCTAL.sub(lambda octal: chr(int(octal[1], 8)), decoded)
        if decoded == name:
            break
        name = decoded
    as_utf8 = name.encode("latin-1", "ignore").decode("utf-8", "ignore")
    return {_IN_NAMES.sub("", unicodedata.normalize("NFKC", text).casefold()) for text in (name, as_utf8)}


# ------------------------------------------------------------------ what is set, and who may send it
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
    """Make the browser forget every cookie that is a credential by itself; the device stays known."""
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
