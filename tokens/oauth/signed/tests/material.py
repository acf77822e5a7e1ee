"""Clients that sign their requests, what they sign, and what they read of signed answers."""

import json
import secrets
from typing import Any, Final

import httpx
from joserfc import jws
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from ironauth.infrastructure.core import clock
from tokens.clients.assertion import TYPE
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.proofs import ISSUER, Key, proof
from tokens.oauth.tests.walk import AUTHORIZE, request_of
from tokens.tests.material import b64

PAR: Final = "/oauth/par"
KEYS: Final[dict[str, Key]] = {
    "EdDSA": OKPKey.generate_key("Ed25519", {"kid": "ed"}),
    "ES256": ECKey.generate_key("P-256", {"kid": "ec"}),
    "PS256": RSAKey.generate_key(2_048, {"kid": "rsa"}),
}
_KEY_OF: Final = {"Ed25519": "EdDSA", "RS256": "PS256"}
STRANGER: Final = ECKey.generate_key("P-256", {"kid": "ec"})
#: What a client of the profile is, as its preset has it.
FAPI: Final[dict[str, Any]] = {
    "profile": "fapi2-message-signing",
    "auth_method": "private_key_jwt",
    "require_par": True,
    "dpop": "required",
    "request_object_signing_alg": "ES256",
    "trusted": True,
}


def public_keys() -> dict[str, Any]:
    """Return the public halves as a client registers them."""
    return {"keys": [key.as_dict(private=False) for key in KEYS.values()]}


def make_bank(**changes: Any) -> OAuthClient:
    """Store a client of FAPI 2.0 Message Signing; one of our own, so that nobody is asked for consent."""
    return make_client(**{**FAPI, "jwks": public_keys(), **changes})[0]


def signed(claims: dict[str, Any] | bytes, *, alg: str = "ES256", key: Any = None, **header: Any) -> str:
    """Return a JWT, whatever is in it; a change of the header to ``...`` removes the member."""
    return _signed(claims, alg, key, header)


def signed_as(claims: dict[str, Any], **header: Any) -> str:
    """Return a JWT that ES256 has signed, with these members in its header, another ``alg`` too."""
    return _signed(claims, "ES256", None, header)


def _signed(claims: dict[str, Any] | bytes, alg: str, key: Any, header: dict[str, Any]) -> str:
    key = key or KEYS[_KEY_OF.get(alg, alg)]
    members = {"kid": key.kid, "typ": "oauth-authz-req+jwt", **header}
    members.setdefault("alg", alg)
    kept = {name: value for name, value in members.items() if value is not ...}
    body = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    text = f"{b64(json.dumps(kept).encode())}.{b64(body)}"
    signature = jws.JWSRegistry(algorithms=[alg]).get_alg(alg).sign(text.encode(), key)
    return f"{text}.{b64(signature)}"


def claims_of(client: OAuthClient, **changes: Any) -> dict[str, Any]:
    """Return what a good request object says; a change to None removes a member."""
    now = int(clock.unix())
    said = {"iss": str(client.pk), "aud": ISSUER, "nbf": now, "exp": now + 300, **request_of(client), **changes}
    return {name: value for name, value in said.items() if value is not None}


def request_object(client: OAuthClient, **changes: Any) -> str:
    """Return a request object of the client, signed by ES256."""
    return signed(claims_of(client, **changes))


def asserted(client: OAuthClient) -> dict[str, str]:
    """Return the parameters by which the client proves who it is."""
    now, client_id = int(clock.unix()), str(client.pk)
    said = {"iss": client_id, "sub": client_id, "aud": ISSUER, "exp": now + 60, "jti": secrets.token_urlsafe(16)}
    return {"client_assertion_type": TYPE, "client_assertion": signed(said, typ="JWT")}


async def push(api: httpx.AsyncClient, client: OAuthClient, text: str, **beside: str) -> httpx.Response:
    """Push a request object; ``beside``: further parameters."""
    return await api.post(PAR, data={**asserted(client), "request": text, **beside})


async def opened(api: httpx.AsyncClient, client: OAuthClient, pushed: httpx.Response, **more: str) -> httpx.Response:
    """Open what was pushed in a browser."""
    assert pushed.status_code == 201, pushed.text
    handle = {"client_id": str(client.pk), "request_uri": pushed.json()["request_uri"]}
    return await api.get(AUTHORIZE, params={**handle, **more})


async def redeemed(api: httpx.AsyncClient, client: OAuthClient, code: str, verifier: str) -> httpx.Response:
    """Exchange a code, with an assertion and a proof."""
    given = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier}
    form = {**asserted(client), **given, "redirect_uri": client.redirect_uris[0]}
    proven = {"DPoP": proof(STRANGER, "POST", "/oauth/token")}
    return await api.post("/oauth/token", data=form, headers=proven)


async def read(api: httpx.AsyncClient, text: str, *, typ: str) -> dict[str, Any]:
    """Return the claims of what this server has signed, by its published keys."""
    keys = KeySet.import_key_set((await api.get("/.well-known/jwks.json")).json())
    found = jws.deserialize_compact(text, keys, algorithms=["EdDSA", "Ed25519", "ES256", "RS256"])
    assert found.headers().get("typ", "") == typ
    return dict(json.loads(found.payload))
