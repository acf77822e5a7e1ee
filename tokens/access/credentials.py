"""Where a request carries its access token: the Authorization header or the cookie, never both, never the URL."""

import re
from typing import Final, NamedTuple

from django.http import HttpRequest
from django.utils.translation import gettext_noop as _

from ironauth.config.cookies import ACCESS, name_of
from ironauth.infrastructure.core.live_settings import live
from ironauth.infrastructure.http import cookies
from tokens.access.codec import MAX_TOKEN_BYTES
from tokens.errors import CrossOrigin, InvalidToken, MalformedCredential, TwoCredentials

#: Methods that change nothing (RFC 9110 §9.2.1); another site may cause them without harm.
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
# RFC 6750 §2.1. Not IGNORECASE: over a 600-character token it costs six times as much (4.5 µs).
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*) *")
_DPOP = re.compile(r"[Dd][Pp][Oo][Pp] +([A-Za-z0-9._~+/-]+=*) *")  # RFC 9449 §7.1
_NAMES: Final = {secure: name_of(ACCESS, secure=secure) for secure in (True, False)}


def access_name() -> str:
    """Return the name of the cookie with the access token; asked by every request."""
    return _NAMES[live.IRONAUTH_COOKIE_SECURE]


class Credential(NamedTuple):
    """The access token of a request, not yet judged.

    Attributes:
        token: Its text.
        from_cookie: The browser sent it on its own.
        with_proof: It was sent as one that is bound to a key (RFC 9449 §7.1).
    """

    token: str
    from_cookie: bool
    with_proof: bool = False


def access_credential(request: HttpRequest) -> Credential | None:
    """Return the request's access token, None when it has none.

    Raises:
        TwoCredentials: (400) the header and the cookie together.
        AmbiguousCookies: the cookie twice.
        MalformedCredential: (400) a header that is not RFC 6750's or several of them.
        InvalidToken: (401) a token over 4 KiB.
        CrossOrigin: (403) a cookie on an unsafe request that another site may have caused.
    """
    meta = request.META
    header = meta.get("HTTP_AUTHORIZATION")
    bearer = bearer_token(header) if header else None
    bound = bound_token(header) if header and bearer is None else None
    cookie = _cookie_token(request) if "HTTP_COOKIE" in meta else None
    if cookie is not None:
        if bearer is not None or bound is not None:
            raise TwoCredentials
        require_same_origin(request)
    token = bearer or bound or cookie
    if token is None:
        return None
    if len(token) > MAX_TOKEN_BYTES:
        raise InvalidToken("text")
    return Credential(token, from_cookie=bearer is None and bound is None, with_proof=bound is not None)


def require_same_origin(request: HttpRequest) -> None:
    """Raise ``CrossOrigin`` for an unsafe request that this site's own pages did not send; for cookie users."""
    if request.method not in SAFE_METHODS and not cookies.origin_allowed(request):
        raise CrossOrigin


def refuse_login_csrf(request: HttpRequest) -> None:
    """Raise ``CrossOrigin`` when another site signs this browser in, under an account of its choice (login CSRF).

    A client that is no browser sends neither header and passes: it has no cookies to be tricked with.
    """
    meta = request.META
    from_browser = "HTTP_ORIGIN" in meta or meta.get("HTTP_SEC_FETCH_SITE") not in (None, "none")
    if from_browser and not cookies.origin_allowed(request):
        raise CrossOrigin(_("Sign in from this site's own pages, or from an origin in IRONAUTH_TRUSTED_ORIGINS."))


def bearer_token(header: str) -> str | None:
    """Return the bearer token of an Authorization header, None for another scheme.

    Two headers arrive joined by a comma, which is in no token.

    Raises:
        MalformedCredential: (400) several headers, a token without its scheme, or anything but a token behind it.
    """
    if header[:7] == "Bearer ":
        # The alphabet of our own tokens, checked in a third of the regular expression's time: every request comes here.
        token = header[7:]
        if token.isascii() and token.replace(".", "").replace("-", "").replace("_", "").isalnum():
            return token
    lowered = header.lower()
    if "," in header and "bearer" in lowered:
        raise MalformedCredential("Several Authorization headers: send exactly one.")
    if lowered.split(maxsplit=1)[:1] != ["bearer"]:
        if " " not in header and header.count(".") == 2:  # noqa: PLR2004 - a token whose scheme was forgotten
            raise MalformedCredential
        return None
    match = _BEARER.fullmatch(header)
    if match is None:
        raise MalformedCredential
    return match.group(1)


def bound_token(header: str) -> str | None:
    """Return the token of an Authorization header of the scheme DPoP, None for another scheme.

    Raises:
        MalformedCredential: (400) anything else behind it, two tokens for instance.
    """
    if header[:5].lower() != "dpop ":
        return None
    match = _DPOP.fullmatch(header)
    if match is None:
        raise MalformedCredential
    return match.group(1)


def _cookie_token(request: HttpRequest) -> str | None:
    """Return the access cookie's value, None when there is none or an empty one.

    Raises ``AmbiguousCookies`` (400) for the cookie twice: another one can only have been planted.
    """
    return request.COOKIES.get(access_name()) or None
