"""How an API of yours believes IronAuth's access tokens: two authentication classes for Django REST framework.

Copy this file. ``ByKeys`` asks nobody: it verifies the signature by the published keys, so a revoked token works here
until it expires (ten minutes). ``ByIntrospection`` asks IronAuth about each token once in ``CACHE_S``, so a revoked one
works that long. Both need ``djangorestframework``, the first ``pyjwt[crypto]``. Settings of yours::

    IRONAUTH_ISSUER = "https://id.example.com"       # exactly as IronAuth's own setting has it
    IRONAUTH_AUDIENCE = "https://id.example.com"     # likewise; the issuer unless it says otherwise
    IRONAUTH_CLIENT = ("client_id", "client_secret") # for ByIntrospection: oauth_client create --resource-server
    REST_FRAMEWORK = {"DEFAULT_AUTHENTICATION_CLASSES": ["your_project.resource_server.ByKeys"]}
"""

import base64
import hashlib
import json
import threading
import time
import urllib.request
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote_plus, urlencode

import jwt
from django.conf import settings
from rest_framework import exceptions, permissions
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.request import Request

KEYS_S = 300  # seconds a copy of the keys is believed: a compromised key that was dropped verifies that long
REFETCH_S = 10.0  # seconds between two looks for a key that is not in the copy, however often it is asked for
CACHE_S = 5.0  # seconds an answer of the introspection is believed, and never past the token's own end
CACHE_ENTRIES = 10_000  # answers kept; the oldest go first
TIMEOUT_S = 2.0
MAX_CHARACTERS = 8_192  # of a token; IronAuth's have below a thousand unless somebody has many roles
TOKEN_TYPES = ("at+jwt", "application/at+jwt")  # RFC 9068 §2.1: an ID token is no access token


@dataclass(frozen=True)
class Caller:
    """Who asks, as ``request.user``. ``subject``: a stable id; for a client's own token the client's."""

    subject: str
    client_id: str
    scopes: frozenset[str]
    is_authenticated: bool = True


class Unavailable(exceptions.APIException):
    """What is needed to judge a token cannot be reached: 503, for refusing it would sign everybody out."""

    status_code = 503
    default_detail = "The token cannot be checked at the moment: try again."


class HasScope(permissions.BasePermission):
    """Lets callers in whose token has the view's ``required_scope``; use it on every view of yours."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return whether the token may do this."""
        return isinstance(request.user, Caller) and view.required_scope in request.user.scopes


class _Bearer(BaseAuthentication):
    """What both share: the header (RFC 6750 §2.1)."""

    def authenticate_header(self, request: Request) -> str:
        """Return the challenge of a 401."""
        return "Bearer"

    def authenticate(self, request: Request) -> tuple[Caller, Mapping[str, Any]] | None:
        """Return who asks and what the token says; None without a token."""
        scheme, _, token = get_authorization_header(request).decode("latin-1").partition(" ")
        if scheme.lower() != "bearer":
            return None
        claims = self.claims_of(token) if len(token) <= MAX_CHARACTERS else None
        if claims is None or claims.get("cnf"):  # bound to a key (DPoP): without a proof of it, it is a stolen token
            raise exceptions.AuthenticationFailed("The access token is not valid here.")
        if (
            claims.get("act", {}).get("kind", "client") != "client"
        ):  # a member of staff looks at an account, not at this
            raise exceptions.AuthenticationFailed("The access token is not valid here.")
        return Caller(claims["sub"], claims["client_id"], frozenset(claims.get("scope", "").split())), claims

    def claims_of(self, token: str) -> Mapping[str, Any] | None:
        """Return what a good token says, None for any other."""
        raise NotImplementedError  # the two classes below


class ByKeys(_Bearer):
    """Verifies by the published keys."""

    _keys: ClassVar[dict[str, jwt.PyJWK]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _fetched_at: ClassVar[float] = float("-inf")
    _tried_at: ClassVar[float] = float("-inf")

    def claims_of(self, token: str) -> Mapping[str, Any] | None:
        """Return what a good token says. Raises ``Unavailable`` when the keys cannot be had."""
        try:
            header = jwt.get_unverified_header(token)
            if str(header.get("typ", "")).lower() not in TOKEN_TYPES:
                return None
            key = self._key(str(header.get("kid", "")))
            if key is None:
                return None
            return jwt.decode(
                token,
                key,
                algorithms=["EdDSA"],
                issuer=_setting("IRONAUTH_ISSUER"),
                audience=_setting("IRONAUTH_AUDIENCE"),
                options={"require": ["exp", "iat", "iss", "aud", "sub", "client_id"]},
            )
        except jwt.InvalidTokenError:
            return None

    @classmethod
    def _key(cls, key_id: str) -> jwt.PyJWK | None:
        """Return a key by its id; the copy is renewed when it is old, or the key is new."""
        with cls._lock:
            now = time.monotonic()
            is_old = now - cls._fetched_at >= KEYS_S
            if (is_old or key_id not in cls._keys) and now - cls._tried_at >= REFETCH_S:
                cls._tried_at = now
                try:
                    cls._keys = _fetch_keys()
                    cls._fetched_at, is_old = now, False
                except (OSError, ValueError) as error:
                    if is_old:
                        raise Unavailable from error
            if is_old:  # tried a moment ago, in vain
                raise Unavailable
            return cls._keys.get(key_id)


class ByIntrospection(_Bearer):
    """Asks IronAuth, as a client made with ``--resource-server``, and believes the answer for ``CACHE_S``."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _known: ClassVar[OrderedDict[bytes, tuple[float, Mapping[str, Any]]]] = OrderedDict()

    def claims_of(self, token: str) -> Mapping[str, Any] | None:
        """Return what IronAuth says of an active token. Raises ``Unavailable`` when it cannot be asked."""
        digest = hashlib.sha256(token.encode()).digest()  # no token lies about in memory
        with self._lock:
            until, known = self._known.get(digest, (0.0, {}))
        if time.time() < until:
            return known
        said = _introspect(token)
        if not said.get("active") or said.get("aud") != _setting("IRONAUTH_AUDIENCE"):
            return None  # not kept: who invents tokens must not push out those that are good
        with self._lock:
            self._known[digest] = min(time.time() + CACHE_S, float(said["exp"])), said
            self._known.move_to_end(digest)
            while len(self._known) > CACHE_ENTRIES:
                self._known.popitem(last=False)
        return said


def _setting(name: str) -> Any:
    return getattr(settings, name)


def _fetch_keys() -> dict[str, jwt.PyJWK]:
    """Return the published Ed25519 keys by their ids: with others only ID tokens are signed."""
    address = f"{_setting('IRONAUTH_ISSUER')}/.well-known/jwks.json"
    with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:  # noqa: S310 - the address is a setting
        published = json.load(answer)["keys"]
    return {one["kid"]: jwt.PyJWK(one, algorithm="EdDSA") for one in published if one.get("crv") == "Ed25519"}


def _introspect(token: str) -> dict[str, Any]:
    """Return the answer of RFC 7662. Raises ``Unavailable``."""
    client_id, secret = (quote_plus(part) for part in _setting("IRONAUTH_CLIENT"))  # RFC 6749 §2.3.1
    question = urllib.request.Request(  # noqa: S310 - the address is a setting
        f"{_setting('IRONAUTH_ISSUER')}/oauth/introspect",
        data=urlencode({"token": token}).encode(),
        headers={"Authorization": f"Basic {base64.b64encode(f'{client_id}:{secret}'.encode()).decode()}"},
    )
    try:
        with urllib.request.urlopen(question, timeout=TIMEOUT_S) as answer:  # noqa: S310 - as above
            said: dict[str, Any] = json.load(answer)
    except (OSError, ValueError) as error:  # an HTTP error is an OSError: our secret is wrong, or it is overloaded
        raise Unavailable from error
    return said
