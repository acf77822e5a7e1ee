"""What somebody signs in for, on its way through our pages: one value in each form, complete and signed by us.

``base64url(JSON of state) . base64url(HMAC-SHA-256(server key, browser ‖ JSON))``: nothing is stored while somebody
looks for a password, and a form does what its page has shown. ``browser`` is a random cookie, set with the first page:
a value made in one browser is good in no other one (CSRF).
"""

import enum
import re
import secrets
from typing import Final
from uuid import UUID

import msgspec
from django.http import HttpRequest, HttpResponse
from rest_framework.request import Request

from ironauth.config import cookies as cookie_names
from ironauth.infrastructure.core import base64url, clock
from ironauth.infrastructure.crypto.master_keys import is_mac, mac, register_purpose
from ironauth.infrastructure.http import cookies
from tokens.clients import redirect_uris
from tokens.clients.registry import Client
from tokens.oauth.authorize.request import AuthorizationRequest

_PURPOSE: Final = register_purpose("ironauth authorization request")
LIFE_S: Final = 1_800  # seconds; half an hour, as a link for a new password, which some will ask for first
#: Where people go who have signed in on their own.
HOME: Final = "/account/security"
BROWSER_BYTES: Final = 32  # 256 random bits
MAC_CHARACTERS: Final = 43  # 32 bytes * 4 / 3, unpadded
MAX_CHARACTERS: Final = 40_000  # a request of 8 KiB, with every character escaped in JSON and in base64
_BROWSER: Final = re.compile(r"[A-Za-z0-9_-]{43}")


class CodeFor(enum.StrEnum):
    """What a message was asked for; one for a reset or another confirmation has a link alone, and no code."""

    SIGN_UP = "sign_up"
    SIGN_IN = "sign_in"
    RESET = "reset"
    VERIFY = "verify"


class SignInState(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """How far somebody has come who signs in or up on a page.

    Attributes:
        expires_at: The unix second from which it is refused.
        mfa_token: That their password was right, while one of ``methods`` is asked for.
        methods: The second factors they have.
        email: The address that a code was sent to, or with which the first of two factors was right.
        code_id: The token of that code; it opens nothing without the code.
        code_for: What the code is for.
        sign_up: Which account the page's sign-up has made, sealed: it is for us alone.
        upstream_id: The identity at another provider that is linked to the person who signs in; it waits in this
            browser alone.
        upstream: What that identity is called on the page.
    """

    expires_at: int
    mfa_token: str = ""
    methods: tuple[str, ...] = ()
    email: str = ""
    code_id: UUID | None = None
    code_for: CodeFor = CodeFor.SIGN_IN
    sign_up: str = ""
    upstream_id: UUID | None = None
    upstream: str = ""


class AuthorizationState(SignInState, frozen=True, array_like=True, kw_only=True, tag="client"):
    """On the way to a client.

    Attributes:
        request: What the client asked for.
        session_id: The SSO session of the person who is being asked to allow it; None before anybody is.
        device: The code they have typed, where a device waits for them (RFC 8628); "" where a client has sent them.
        keeps: Whether they have asked to sign in beside those who are signed in in this browser.
        auth_time: When they have authenticated at the provider whose identity waits, unix seconds; 0: it did not say.
    """

    request: AuthorizationRequest
    session_id: UUID | None = None
    device: str = ""
    keeps: bool = False
    auth_time: int = 0

    @property
    def max_age_s(self) -> int | None:
        """How long ago somebody may have authenticated elsewhere, in seconds; 0: anew; None: as long as it may be."""
        return 0 if "login" in self.request.prompt else self.request.max_age

    @property
    def since(self) -> int | None:
        """The unix second from which they have to have, held against the moment the client has asked."""
        return None if self.max_age_s is None else self.expires_at - LIFE_S - self.max_age_s

    def may_go_on(self, client: Client) -> bool:
        """Tell whether the client, as it is now, may still have the answer: staff may have changed it meanwhile.

        Args:
            client: The one that the request names, enabled.
        """
        asked = self.request
        if not self.device and not redirect_uris.matches(client.redirect_uris, asked.redirect_uri):
            return False
        types = client.authorization_details_types
        return client.may_have(asked.scope) and all(one.type in types for one in asked.details)


class AccountState(SignInState, frozen=True, array_like=True, kw_only=True, tag="account"):
    """On the way to a page of this site.

    Attributes:
        next: A path.
        auth_time: As of ``AuthorizationState``.
        replaces: The session that the browser had here when it went to another provider, from where its cookie does not
            come back.
    """

    next: str
    auth_time: int = 0
    replaces: UUID | None = None

    @property
    def max_age_s(self) -> int | None:
        """Nobody asks; what needs a recent proof asks for it then."""
        return None

    @property
    def since(self) -> int | None:
        """As above."""
        return None


_decoder: Final = msgspec.json.Decoder(AuthorizationState | AccountState)


def begin(request: AuthorizationRequest, *, device: str = "") -> AuthorizationState:
    """Return the state of a request that has just arrived, or of the code of a device that waits.

    Args:
        request: The request, judged.
        device: The person's code of a waiting device, normalised; "" for none.
    """
    return AuthorizationState(request=request, expires_at=int(clock.unix()) + LIFE_S, device=device)


def begin_account(next_path: str) -> AccountState:
    """Return the state of somebody who wants to go to a path of this site."""
    return AccountState(next=next_path, expires_at=int(clock.unix()) + LIFE_S)


def stored(state: SignInState) -> str:
    """Return the state as a row of ours keeps it, which needs no signature."""
    return msgspec.json.encode(state).decode()


def restored(text: str) -> AuthorizationState | AccountState | None:
    """Return the state that a row of ours has kept; None once it has expired, or where another release kept it."""
    return _decoded(text.encode())


def sign(state: SignInState, browser: str) -> str:
    """Return the value for a form in this browser.

    Args:
        state: Signed, not encrypted: the person can read it.
        browser: The value of the browser's cookie, which the signature is bound to.
    """
    body = msgspec.json.encode(state)
    return f"{base64url.encode(body)}.{base64url.encode(mac(_PURPOSE, browser.encode() + body))}"


def verify(value: str, browser: str) -> AuthorizationState | AccountState | None:
    """Return the state of a value made for this browser less than half an hour ago; None for any other text.

    Args:
        value: The hidden field of a form, not yet judged.
        browser: The value of the browser's cookie; "" without one.
    """
    text, dot, mac_text = value.partition(".")
    if not dot or not browser or len(value) > MAX_CHARACTERS:
        return None
    body, found = base64url.decode(text, len(text)), base64url.decode(mac_text, MAC_CHARACTERS)
    # Under any master key: a rotation sends nobody back to the start.
    if body is None or found is None or not is_mac(found, _PURPOSE, browser.encode() + body):
        return None
    return _decoded(body)


def _decoded(body: bytes) -> AuthorizationState | AccountState | None:
    try:
        state = _decoder.decode(body)
    except msgspec.DecodeError:  # made by another release, whose requests have other fields
        return None
    return state if clock.unix() < state.expires_at else None


def cookie_name() -> str:
    """Return the cookie's name."""
    return cookies.name_of(cookie_names.AUTHORIZE)


def browser_of(request: HttpRequest | Request) -> str:
    """Return what this browser brings, "" without the cookie, or when it says what no server of ours has given it."""
    value: str = request.COOKIES.get(cookie_name(), "")
    return value if _BROWSER.fullmatch(value) else ""


def new_browser() -> str:
    """Return what a browser without the cookie is to bring."""
    return secrets.token_urlsafe(BROWSER_BYTES)


def remember_browser(response: HttpResponse, browser: str) -> None:
    """Have the browser bring the value; Lax, because a second tab comes here from a client's own site.

    Args:
        response: The response that sets the cookie.
        browser: Random; it ties forms to this browser.
    """
    cookies.give(response, cookie_names.AUTHORIZE, browser, max_age_s=LIFE_S)
