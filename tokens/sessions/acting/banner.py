"""The banner above pages outside the account, in a browser in which a member of staff acts as a person.

The pages of an account ask the session's row. Others ask nothing: a cookie says it, sealed, as long as the session may
last at most. It counts beside the tokens of that session, and alone where a browser leaves those out: they are
``Strict``, or over, in a request that another site has caused.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from ironauth.config.cookies import ACTING, REFRESH
from ironauth.infrastructure.core import base64url, clock
from ironauth.infrastructure.crypto import sealing
from ironauth.infrastructure.crypto.master_keys import register_purpose
from ironauth.infrastructure.crypto.sealing import SealBrokenError
from ironauth.infrastructure.http import brand, cookies
from tokens.access import codec
from tokens.access.credentials import access_name
from tokens.errors import InvalidToken
from tokens.sessions import refresh_token

LONGEST: Final = 4_096  # characters; browsers keep no longer cookie
FROM_HERE: Final = ("same-origin", "none")
_PURPOSE: Final = register_purpose("ironauth banner of acting staff")
_BOUND_TO: Final = b"cookie"


class ActingFacts(msgspec.Struct, frozen=True):
    """What the banner says.

    Attributes:
        session_id: The session in which somebody acts.
        by: Who acts, in words.
        person: The address of that person.
        until: When it ends at the latest.
    """

    session_id: UUID
    by: str
    person: str
    until: datetime


def register() -> None:
    """Have pages say it."""
    brand.register_banner(ACTING, banner)


def give(response: HttpResponse, told: ActingFacts) -> None:
    """Have the browser say it for as long as it may be true.

    Args:
        response: What the browser is answered.
        told: What pages say.
    """
    _, sealed = sealing.seal(msgspec.json.encode(told), _PURPOSE, _BOUND_TO)
    seconds = int((told.until - clock.now()).total_seconds())
    cookies.give(response, ACTING, base64url.encode(sealed), max_age_s=seconds)


def banner(request: HttpRequest) -> str:
    """Return the banner for a browser that brings the cookie; "" where the cookie says nothing that still holds."""
    told = _read(request.COOKIES.get(cookies.name_of(ACTING), ""))
    if told is None or told.until <= clock.now() or not _is_of_browser(told.session_id, request):
        return ""
    acting = {"by": told.by, "person": told.person, "until": told.until}
    return render_to_string("accounts/pages/account/acting.html", {"acting": acting})


def _read(value: str) -> ActingFacts | None:
    """Return what a cookie of ours says; None for any other text."""
    sealed = base64url.decode(value, len(value)) if len(value) <= LONGEST else None
    for key_id in settings.IRONAUTH_MASTER_KEYS if sealed else ():
        try:
            return msgspec.json.decode(sealing.unseal(key_id, sealed or b"", _PURPOSE, _BOUND_TO), type=ActingFacts)
        except (SealBrokenError, msgspec.DecodeError):  # of another key; made by another release
            continue
    return None


def _is_of_browser(session_id: UUID, request: HttpRequest) -> bool:
    """Tell whether the browser is in that session, as far as its request shows it; nothing here signs anybody in."""
    refresh = refresh_token.parse(request.COOKIES.get(cookies.name_of(REFRESH), ""))
    if refresh is not None:
        return refresh.session_id == session_id
    access = request.COOKIES.get(access_name(), "")
    if access:
        try:
            return bool(codec.payload_of(access).get("sid") == str(session_id))
        except InvalidToken:
            return False
    return request.META.get("HTTP_SEC_FETCH_SITE") not in FROM_HERE
