"""A fake IronAuth server for tests of your own: a key pair, its JWKS, tokens, and no network.

``transport`` serves discovery, keys and introspection to ``Client`` and ``AsyncClient`` alike.
"""

import base64
import hashlib
import json
import secrets
from time import time
from typing import Any

import httpx
from joserfc import jws
from joserfc.jwk import ECKey, Key, OKPKey

from ironauth_client import jose
from ironauth_client.config import ID_ALGORITHMS, Config
from ironauth_client.dpop import TYP
from ironauth_client.tokens import LOGOUT_EVENT

ISSUER = "https://id.example.test"


class FakeIssuer:
    """A server that signs whatever a test wants to have signed; revoked tokens are in ``revoked``."""

    def __init__(self, issuer: str = ISSUER, client_id: str = "client") -> None:
        self.issuer, self.client_id = issuer, client_id
        self.keys: list[OKPKey] = []
        self.revoked: set[str] = set()
        self.requests: list[httpx.Request] = []
        self.rotate()

    @property
    def transport(self) -> httpx.MockTransport:
        """What an httpx client sends its requests through, instead of the network."""
        return httpx.MockTransport(lambda request: self.answer(request))  # noqa: PLW0108 - a test may replace it

    def config(self, **changes: Any) -> Config:
        """Return a configuration for this server."""
        given = {"issuer": self.issuer, "client_id": self.client_id, "client_secret": "secret"}
        return Config(**{**given, **changes})

    def rotate(self, *, keep: bool = False) -> None:
        """Sign with another key from now on; the older keys are shown no more unless ``keep``."""
        self.keys = [OKPKey.generate_key("Ed25519", auto_kid=True), *(self.keys if keep else [])]

    def jwks(self) -> dict[str, Any]:
        """Return the public key set."""
        return {"keys": [{**key.as_dict(private=False), "use": "sig"} for key in self.keys]}

    def access_token(self, *, header: dict[str, Any] | None = None, **changes: Any) -> str:
        """Return an access token; a change of None leaves the claim out."""
        claims = {"aud": self.issuer, "client_id": self.client_id, "scope": "read", "roles": [], **changes}
        return self.sign(claims, {"typ": "at+jwt", **(header or {})})

    def id_token(self, *, nonce: str, **changes: Any) -> str:
        """Return an ID token for the client."""
        return self.sign({"aud": self.client_id, "nonce": nonce, **changes}, {})

    def logout_token(self, **changes: Any) -> str:
        """Return a logout token for the client."""
        return self.sign({"aud": self.client_id, "events": {LOGOUT_EVENT: {}}, **changes}, {"typ": "logout+jwt"})

    def sign(self, claims: dict[str, Any], header: dict[str, Any]) -> str:
        """Return claims, on top of those that every token has, signed by the newest key."""
        now = int(time())
        given = {"iss": self.issuer, "sub": "person-1", "iat": now, "exp": now + 600, "jti": secrets.token_urlsafe(16)}
        key = self.keys[0]
        return _signed({**given, **claims}, {"alg": "EdDSA", "kid": key.kid, **header}, key)

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Return the answer to a request."""
        self.requests.append(request)
        path = request.url.path
        if path == "/.well-known/openid-configuration":
            names = {"jwks_uri": "jwks", "introspection_endpoint": "introspect", "token_endpoint": "token"}
            names["authorization_endpoint"] = "authorize"
            endpoints = {name: f"{self.issuer}/{path}" for name, path in names.items()}
            return httpx.Response(200, json={"issuer": self.issuer, **endpoints})
        if path == "/jwks":
            return httpx.Response(200, json=self.jwks())
        if path == "/introspect":
            token = dict(httpx.QueryParams(request.content.decode()))["token"]
            return httpx.Response(200, json={"active": token not in self.revoked})
        return httpx.Response(404)


class FakeHolder:
    """A client that has a key for DPoP: ``thumbprint`` goes into ``access_token(cnf={"jkt": …})``."""

    def __init__(self) -> None:
        self.key = ECKey.generate_key("P-256")
        self.thumbprint = self.key.thumbprint()

    def proof(self, token: str, method: str, url: str, *, header: dict[str, Any] | None = None, **changes: Any) -> str:
        """Return a proof for a request; a change of None leaves the claim out."""
        ath = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
        given = {"jti": secrets.token_urlsafe(16), "htm": method, "htu": url, "iat": int(time()), "ath": ath}
        jwk = self.key.as_dict(private=False)
        return _signed({**given, **changes}, {"typ": TYP, "alg": "ES256", "jwk": jwk, **(header or {})}, self.key)


def _signed(claims: dict[str, Any], header: dict[str, Any], key: Key) -> str:
    said = {name: value for name, value in claims.items() if value is not None}
    head = {name: value for name, value in header.items() if value is not None}
    return jws.serialize_compact(head, json.dumps(said), key, registry=jose.registry(ID_ALGORITHMS))
