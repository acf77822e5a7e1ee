"""No token but a genuine one gets a person's data: published attacks and mutations of a live token, through HTTP."""

import base64
import json
from typing import Any

import httpx
import pytest

from conftest import bearer
from tokens.tests.test_vectors import wycheproof

pytestmark = pytest.mark.django_db(transaction=True)


def encode(part: dict[str, Any] | bytes) -> str:
    """Return unpadded base64url of JSON or bytes."""
    raw = part if isinstance(part, bytes) else json.dumps(part, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode(part: str) -> dict[str, Any]:
    """Return the JSON object of a token's segment."""
    return dict(json.loads(base64.urlsafe_b64decode(part + "==")))


async def status_of(api: httpx.AsyncClient, token: str) -> int:
    """Return what /me answers to this bearer token."""
    answer = await api.get("/api/v1/access/me", headers={b"Authorization": f"Bearer {token}".encode()})
    return answer.status_code


@pytest.mark.parametrize("name", ["json_web_signature_test.json", "json_web_crypto_test.json"])
async def test_no_wycheproof_token_passes(api: httpx.AsyncClient, signing_key: str, name: str) -> None:
    """Every JWS of Project Wycheproof, the valid ones too, is refused by this server: 401, or 400 if malformed."""
    for _, case in wycheproof(name):
        token = case["jws"] if "jws" in case else case["jwe"]
        if isinstance(token, dict):  # the JSON serialization, which is no bearer token either
            token = json.dumps(token)
        assert await status_of(api, token) in {400, 401}, case["tcId"]


def mutations(token: str) -> dict[str, str]:
    """Return tokens made from a live one, each with one thing wrong."""
    header_text, payload_text, signature = token.split(".")
    header, payload = decode(header_text), decode(payload_text)

    def with_header(**changes: Any) -> str:
        return f"{encode({**header, **changes})}.{payload_text}.{signature}"

    def with_payload(**changes: Any) -> str:
        return f"{header_text}.{encode({**payload, **changes})}.{signature}"

    last = "A" if signature[-1] != "A" else "Q"
    return {
        "alg none": f"{encode({**header, 'alg': 'none'})}.{payload_text}.",
        "alg None": f"{encode({**header, 'alg': 'None'})}.{payload_text}.",
        "alg HS256": with_header(alg="HS256"),
        "alg RS256": with_header(alg="RS256"),
        "alg of other case": with_header(alg="eddsa"),
        "kid path": with_header(kid="../../../../dev/null"),
        "kid sql": with_header(kid="' OR 1=1 --"),
        "kid url": with_header(kid="http://127.0.0.1:9/jwks"),
        "kid long": with_header(kid="k" * 2_000),
        "kid null": with_header(kid=None),
        "jku": with_header(jku="http://127.0.0.1:9/jwks.json"),
        "x5u": with_header(x5u="http://127.0.0.1:9/cert.pem"),
        "jwk": with_header(jwk={"kty": "OKP", "crv": "Ed25519", "x": encode(b"\0" * 32)}),
        "crit": with_header(crit=["exp"]),
        "crit empty": with_header(crit=[]),
        "typ JWT": with_header(typ="JWT"),
        "other user": with_payload(sub="00000000-0000-7000-8000-000000000000"),
        "later exp": with_payload(exp=payload["exp"] + 3_600),
        "other audience": with_payload(aud="https://elsewhere.example"),
        "no signature": f"{header_text}.{payload_text}.",
        "no dots": header_text + payload_text + signature,
        "one dot": f"{header_text}.{payload_text}",
        "three dots": f"{token}.{signature}",
        "empty": "..",
        "signature changed": f"{header_text}.{payload_text}.{signature[:-1]}{last}",
        "signature of zeros": f"{header_text}.{payload_text}.{encode(bytes(64))}",
        "signature short": f"{header_text}.{payload_text}.{signature[:-4]}",
        "padding": f"{token}==",
        "standard alphabet": token.replace("-", "+").replace("_", "/") + "+",
        "space inside": f"{header_text} .{payload_text}.{signature}",
        "5 levels": f"{token}.{signature}.{signature}",
    }


async def test_mutations_of_a_live_token_are_refused(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """Each mutation is 400 or 401, before and after the genuine token is in the cache; the genuine one stays good."""
    for warm in (False, True):
        if warm:
            assert await status_of(api, pair["access_token"]) == 200
        for name, token in mutations(pair["access_token"]).items():
            assert await status_of(api, token) in {400, 401}, (name, warm)
    assert (await api.get("/api/v1/access/me", headers=bearer(pair))).status_code == 200


async def test_token_kinds_are_never_exchanged(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """A refresh token is no access token, and an access token is no refresh token (RFC 8725 §3.12)."""
    assert await status_of(api, pair["refresh_token"]) == 401
    answer = await api.post("/api/v1/access/refresh", json={"refresh_token": pair["access_token"]})
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_refresh_token")


async def test_no_answer_holds_a_private_key(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """No response body has a member ``d``: JWKS, discovery documents, errors or data."""
    for path in ("/.well-known/jwks.json", "/api/v1/access/me", "/health", "/api/v1/access/sessions"):
        answer = await api.get(path, headers=bearer(pair))
        assert '"d"' not in answer.text
