"""Sign-in by redirect: authorization code with PKCE, state, nonce and iss (RFC 9700 §2.1), for any framework."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import httpx

from ironauth_client.errors import SignInFailed
from ironauth_client.provider import Provider, Steps


@dataclass(frozen=True)
class Attempt:
    """One sign-in under way; the browser's session keeps it, and it is used once."""

    redirect_uri: str
    next_url: str = "/"
    state: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


def address(provider: Provider, attempt: Attempt, scope: str) -> Steps[str]:
    """Return where the browser is sent. Raises ``ProviderUnavailable``."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": provider.config.client_id,
        "redirect_uri": attempt.redirect_uri,
        "scope": scope,
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    endpoint = yield from provider.endpoint("authorization_endpoint")
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"


def redeem(provider: Provider, attempt: Attempt, told: Mapping[str, str]) -> Steps[dict[str, Any]]:
    """Return the tokens that the answer of the server stands for.

    Args:
        provider: The server.
        attempt: The attempt whose state the answer names.
        told: The query that the browser came back with.

    Raises:
        SignInFailed: The answer is another server's or attempt's, says no, or its code is not accepted.
        ProviderUnavailable: The server does not answer.
    """
    if not hmac.compare_digest(told.get("state", "").encode(), attempt.state.encode()):
        raise SignInFailed("this answer belongs to another sign-in")
    metadata = yield from provider.metadata()
    promised = metadata.get("authorization_response_iss_parameter_supported") is True
    if told.get("iss", None if promised else provider.config.issuer) != provider.config.issuer:  # RFC 9207
        raise SignInFailed("this answer is another server's")
    if "code" not in told:
        raise SignInFailed("the server or the person refused")
    form = {
        "grant_type": "authorization_code",
        "code": told["code"],
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": attempt.verifier,
        **provider.client_form(),
    }
    endpoint = yield from provider.endpoint("token_endpoint")
    answer = yield httpx.Request("POST", endpoint, data=form, headers=provider.client_auth())
    if answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED):
        raise SignInFailed("the server does not accept the code, or this client")
    tokens = answer.document()
    if not isinstance(tokens.get("id_token"), str):
        raise SignInFailed("the server sent no ID token")
    return tokens
