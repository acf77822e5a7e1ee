"""Offline verification of access tokens, against a fake issuer."""

import ast
import hashlib
import hmac
import json
import re
import time
from base64 import urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from ironauth_client import AsyncClient, Client, Config, InsufficientScope, InvalidToken, ProviderUnavailable
from ironauth_client.testing import FakeIssuer


def test_the_package_is_written_for_its_oldest_python() -> None:
    """Nothing in it needs more than Python 3.11, which its metadata name."""
    package = Path(__file__).parents[1]
    named = re.findall(r'requires-python = ">=3\.(\d+)"', (package / "pyproject.toml").read_text(encoding="utf-8"))
    assert named == ["11"]
    modules = list((package / "ironauth_client").rglob("*.py"))
    for module in modules:
        ast.parse(module.read_text(encoding="utf-8"), feature_version=(3, 11))
    assert len(modules) > 20
    with pytest.raises(SyntaxError):
        ast.parse("type A = int", feature_version=(3, 11))


@pytest.fixture
def issuer() -> FakeIssuer:
    return FakeIssuer()


def client(issuer: FakeIssuer, **changes: Any) -> Client:
    return Client(issuer.config(**changes), transport=issuer.transport)


def test_a_good_token_is_accepted(issuer: FakeIssuer) -> None:
    """Its claims are there, and the key set was fetched once for two tokens."""
    with client(issuer) as verifier:
        claims = verifier.verify(issuer.access_token(scope="read write", roles=["editor"], sid="s"), scopes=["write"])
        assert (claims.subject, claims.client_id, claims.session_id) == ("person-1", "client", "s")
        assert (claims.scopes, claims.roles) == (frozenset({"read", "write"}), ("editor",))
        assert (claims.organization_id, claims.organization_roles) == ("", ())
        acting = verifier.verify(issuer.access_token(org_id="o-1", org_roles=["owner"]))
        assert (acting.organization_id, acting.organization_roles) == ("o-1", ("owner",))
    assert [request.url.path for request in issuer.requests] == ["/.well-known/openid-configuration", "/jwks"]


async def test_async_code_accepts_and_refuses_the_same(issuer: FakeIssuer) -> None:
    """The async client accepts a good token, refuses a revoked one and another audience's."""
    verifier = AsyncClient(issuer.config(), transport=issuer.transport)
    token = issuer.access_token()
    assert (await verifier.verify(token, scopes=["read"])).subject == "person-1"
    with pytest.raises(InvalidToken, match="audience"):
        await verifier.verify(issuer.access_token(aud="https://other.example"))
    issuer.revoked.add(token)
    with pytest.raises(InvalidToken, match="revoked"):
        await verifier.verify(token, revocation=True)
    await verifier.aclose()


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"iss": "https://other.example"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "https://other.example"}, "audience"),
        ({"aud": ["https://other.example"]}, "audience"),
        ({"aud": None}, "audience"),
        ({"exp": None}, "exp"),
        ({"exp": True}, "exp"),
        ({"exp": "9999999999"}, "exp"),
        ({"exp": float("inf")}, "exp"),
        ({"iat": None}, "iat"),
        ({"iat": 4_000_000_000}, "not valid yet"),
        ({"nbf": 4_000_000_000}, "not valid yet"),
        ({"sub": None}, "sub"),
        ({"sub": 7}, "sub"),
        ({"jti": None}, "jti"),
        ({"client_id": None}, "client_id"),
        ({"scope": ["read"]}, "scope"),
        ({"roles": "editor"}, "roles"),
        ({"org_roles": "owner"}, "org_roles"),
        ({"org_id": 7}, "org_id"),
        ({"cnf": {"x5t#S256": "a"}}, "bound"),
        ({"act": {"sub": "a", "kind": "staff"}}, "acts as the person"),
        ({"act": "a"}, "acts as the person"),
    ],
)
def test_a_wrong_claim_is_refused(issuer: FakeIssuer, claims: dict[str, Any], why: str) -> None:
    """Signature and type are right, one claim is not; a list of audiences with the right one is accepted."""
    with client(issuer) as verifier:
        verifier.verify(issuer.access_token(aud=["https://other.example", issuer.issuer]))
        with pytest.raises(InvalidToken, match=why):
            verifier.verify(issuer.access_token(**claims))


def test_expiry_has_a_leeway_and_an_end(issuer: FakeIssuer) -> None:
    """A token that expired 9 s ago passes with a leeway of 10 s, one that expired 10 s ago does not."""
    now = 2_000_000_000
    with client(issuer, clock=lambda: now, leeway_s=10) as verifier:
        verifier.verify(issuer.access_token(iat=now - 600, exp=now - 9))
        with pytest.raises(InvalidToken, match="expired"):
            verifier.verify(issuer.access_token(iat=now - 600, exp=now - 10))


@pytest.mark.parametrize("typ", ["JWT", None, "logout+jwt", "dpop+jwt", 7])
def test_another_type_is_refused(issuer: FakeIssuer, typ: object) -> None:
    """An ID token or a logout token is no access token; the type may be written as a media type."""
    with client(issuer) as verifier:
        verifier.verify(issuer.access_token(header={"typ": "application/at+JWT"}))
        with pytest.raises(InvalidToken, match=r"type|not a signed"):
            verifier.verify(crafted(issuer, {"typ": typ}))


def crafted(issuer: FakeIssuer, header: dict[str, Any], signed_by: bytes | None = None) -> str:
    """Return a token with another header, its signature left as it was, or made by HMAC, or empty."""
    _, claims, signature = issuer.access_token().split(".")
    whole = {"alg": "EdDSA", "typ": "at+jwt", "kid": issuer.keys[0].kid, **header}
    head = urlsafe_b64encode(json.dumps(whole).encode()).rstrip(b"=").decode()
    if signed_by is not None:
        mac = hmac.digest(signed_by, f"{head}.{claims}".encode(), hashlib.sha256)
        signature = urlsafe_b64encode(mac).rstrip(b"=").decode()
    return f"{head}.{claims}.{signature}"


def test_other_algorithms_are_refused(issuer: FakeIssuer) -> None:
    """None, HS256 keyed with the public key, and an algorithm that is not among those that were asked for."""
    public = issuer.keys[0].as_pem(private=False)
    with client(issuer) as verifier:
        for token in (
            crafted(issuer, {"alg": "HS256"}, public),
            crafted(issuer, {"alg": "none"}),
            crafted(issuer, {"alg": "none"}).rpartition(".")[0] + ".",
            crafted(issuer, {"alg": "ES256"}),
            crafted(issuer, {"alg": ["EdDSA"]}),
        ):
            with pytest.raises(InvalidToken):
                verifier.verify(token)
    with client(issuer, algorithms=("Ed25519",)) as verifier, pytest.raises(InvalidToken, match="algorithm"):
        verifier.verify(issuer.access_token())


def test_a_changed_token_is_refused(issuer: FakeIssuer) -> None:
    """Another header under the old signature, an unknown critical member, no token at all, one of 9 KiB."""
    with client(issuer) as verifier:
        verifier.verify(issuer.access_token())
        for token in (
            crafted(issuer, {"x": 1}),
            crafted(issuer, {"crit": ["x"], "x": 1}),
            "",
            "a.b",
            "a.b.c",
            "ä.b.c",
            issuer.access_token(long="x" * 9_000),
            crafted(issuer, {"kid": 7}),
        ):
            with pytest.raises(InvalidToken):
                verifier.verify(token)


def test_keys_rotate(issuer: FakeIssuer) -> None:
    """An unknown kid fetches the key set, at most once in 30 s; then a key that is gone is no longer accepted."""
    now = [time.time()]
    with client(issuer, clock=lambda: now[0], keys_s=3_000) as verifier:
        old = issuer.access_token()
        verifier.verify(old)
        issuer.rotate()
        new = issuer.access_token()
        for _ in range(3):
            with pytest.raises(InvalidToken, match="unknown key"):
                verifier.verify(new)
        assert fetches(issuer) == 1
        now[0] += 30
        verifier.verify(new)
        assert fetches(issuer) == 2
        with pytest.raises(InvalidToken, match="unknown key"):
            verifier.verify(old)


def fetches(issuer: FakeIssuer) -> int:
    return sum(request.url.path == "/jwks" for request in issuer.requests)


def test_a_server_that_is_away_is_not_needed_for_an_hour() -> None:
    """Known keys serve on until ``stale_s`` has passed, then tokens are refused with 503, as at a first start."""
    now, issuer, away = [time.time()], FakeIssuer(), [False]

    def answer(request: httpx.Request) -> httpx.Response:
        if away[0]:
            raise httpx.ReadTimeout("slow", request=request)
        return issuer.answer(request)

    verifier = Client(issuer.config(clock=lambda: now[0], leeway_s=4_000), transport=httpx.MockTransport(answer))
    token = issuer.access_token()
    verifier.verify(token)
    away[0] = True
    now[0] += 3_599
    verifier.verify(token)
    now[0] += 1
    with pytest.raises(ProviderUnavailable):
        verifier.verify(token)
    verifier.close()
    fresh = Client(issuer.config(), transport=httpx.MockTransport(answer))
    with pytest.raises(ProviderUnavailable):
        fresh.verify(token)
    fresh.close()


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(302, headers={"Location": "https://elsewhere.example"}),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"issuer": "https://other.example"}),
        httpx.Response(200, json={"issuer": "https://id.example.test", "jwks_uri": "http://id.example.test/jwks"}),
        httpx.Response(200, content=b"[" * 300_000),
    ],
)
def test_an_answer_that_is_none_is_refused(issuer: FakeIssuer, answer: httpx.Response) -> None:
    """No redirect is followed, no other issuer's metadata is taken, and no address that leaves https."""
    body = answer.content
    transport = httpx.MockTransport(lambda _: httpx.Response(answer.status_code, content=body, headers=answer.headers))
    verifier = Client(issuer.config(), transport=transport)
    with pytest.raises(ProviderUnavailable):
        verifier.verify(issuer.access_token())
    verifier.close()


def test_a_scope_that_is_missing_is_another_error(issuer: FakeIssuer) -> None:
    """It is answered 403 insufficient_scope, not 401."""
    with client(issuer) as verifier, pytest.raises(InsufficientScope) as refused:
        verifier.verify(issuer.access_token(scope="readwrite"), scopes=["read"])
    assert (refused.value.status, refused.value.code) == (403, "insufficient_scope")


def test_an_introspection_is_remembered_for_its_bound(issuer: FakeIssuer) -> None:
    """A revoked token passes for less than ``introspection_s``; memory is bounded by ``introspections``."""
    now = [time.time()]
    with client(issuer, clock=lambda: now[0], introspections=2) as verifier:
        token = issuer.access_token()
        verifier.verify(token, revocation=True)
        assert issuer.requests[-1].headers["Authorization"].startswith("Basic ")
        issuer.revoked.add(token)
        now[0] += 9
        verifier.verify(token, revocation=True)
        now[0] += 1
        with pytest.raises(InvalidToken, match="revoked"):
            verifier.verify(token, revocation=True)
        issuer.revoked.clear()
        for _ in range(2):
            verifier.verify(issuer.access_token(), revocation=True)
        verifier.verify(token, revocation=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://id.example.com"},
        {"issuer": "id.example.com"},
        {"algorithms": ()},
        {"algorithms": ("HS256",)},
        {"leeway_s": -1},
        {"keys_s": 0},
        {"keys_s": 4_000},
    ],
)
def test_a_wrong_configuration_is_refused(wrong: dict[str, Any]) -> None:
    """Plain http is for this machine alone, HMAC is never among the algorithms, and times are in their ranges."""
    assert Config(issuer="http://localhost:8000").expected_audience == "http://localhost:8000"
    with pytest.raises(ValueError, match="must"):
        Config(**{"issuer": "https://id.example.com", **wrong})


def test_memory_of_introspections_is_bounded_with_many_threads(issuer: FakeIssuer) -> None:
    """Eight threads that push each other's introspections out get their answers, and the bound holds."""
    with client(issuer, introspections=2) as verifier, ThreadPoolExecutor(8) as pool:
        tokens = [issuer.access_token() for _ in range(64)]
        assert all(said["active"] for said in pool.map(verifier.introspect, tokens))
        assert len(verifier.provider._introspections) == 2
