"""The form of what a browser is recognised by at this provider's own pages: pure functions, no storage.

``base64url(session id ‖ HMAC-SHA-256(server key ‖ session secret, "sso" ‖ session id))``: 48 bytes, 64 characters. As
with refresh tokens neither the database nor the settings alone make one; unlike them it renews nothing.
"""

import hashlib
import hmac
from typing import Final, NamedTuple
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from ironauth.infrastructure.core import base64url
from ironauth.infrastructure.crypto.master_keys import MasterKeyMissingError, derived_key, register_purpose
from ironauth.infrastructure.http.cookies import names as cookie_names
from ironauth.infrastructure.http.cookies import policy as cookies
from ironauth.infrastructure.telemetry.logs import get_logger

_PURPOSE: Final = register_purpose("ironauth sign-on")
ID_BYTES: Final = 16
CHARACTERS: Final = 64  # 48 bytes * 4 / 3: no padding

log = get_logger()


class SsoCookie(NamedTuple):
    """A cookie taken apart; nothing is verified yet."""

    session_id: UUID
    mac: bytes


def name() -> str:
    """Return the cookie's name."""
    return cookies.name_of(cookie_names.SSO)


def mint(*, session_id: UUID, secret: bytes, master_key_id: str) -> str:
    """Return what the cookie says.

    Raises:
        MasterKeyMissingError: the session's master key is gone.
    """
    return base64url.encode(session_id.bytes + _mac(session_id, secret, master_key_id))


def read(request: HttpRequest | Request) -> SsoCookie | None:
    """Return the request's cookie, None without one of this form."""
    return parse(request.COOKIES.get(name(), ""))


def parse(text: str) -> SsoCookie | None:
    """Return the parts of what a cookie says, None for any other text."""
    raw = base64url.decode(text, CHARACTERS)
    return None if raw is None else SsoCookie(UUID(bytes=raw[:ID_BYTES]), raw[ID_BYTES:])


def is_genuine(cookie: SsoCookie, *, secret: bytes, master_key_id: str) -> bool:
    """Return whether this server made the cookie for the session with this ``secret``; False when its key is gone."""
    try:
        return hmac.compare_digest(cookie.mac, _mac(cookie.session_id, secret, master_key_id))
    except MasterKeyMissingError as error:
        log.error("session_master_key_missing", remedy=str(error))  # noqa: TRY400 - the reason is the message
        return False


def give(response: HttpResponse, value: str, *, max_age_s: int) -> None:
    """Let the browser bring ``value`` from now on; Lax, because clients send people here from their own sites."""
    cookies.give(response, cookie_names.SSO, value, max_age_s=max_age_s)


def clear(response: HttpResponse) -> None:
    """Make the browser forget it."""
    give(response, "", max_age_s=0)


def _mac(session_id: UUID, secret: bytes, master_key_id: str) -> bytes:
    key = derived_key(master_key_id, _PURPOSE) + secret
    return hmac.digest(key, b"sso" + session_id.bytes, hashlib.sha256)
