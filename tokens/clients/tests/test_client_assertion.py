"""Clients that sign who they are: for this issuer alone, shortly, once, and by their own keys."""

import asyncio
import base64
import json
import secrets
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from structlog.testing import capture_logs

from ironauth.infrastructure.core import clock
from tokens.clients import assertion as client_assertion
from tokens.clients.assertion import TYPE, AssertionRefused
from tokens.clients.keys import may_have_signed
from tokens.clients.models import OAuthClient
from tokens.clients.profiles import PROFILES
from tokens.oauth.tests.flow import TOKEN, Party, basic
from tokens.oauth.tests.material import make_client

pytestmark = [pytest.mark.django_db(transaction=True)]

KEYS: dict[str, Any] = {
    "Ed25519": OKPKey.generate_key("Ed25519", {"kid": "ed"}),
    "ES256": ECKey.generate_key("P-256", {"kid": "ec"}),
    "RS256": RSAKey.generate_key(2_048, {"kid": "rsa"}),
}
STRANGER = ECKey.generate_key("P-256", {"kid": "ec"})
Sign = Callable[..., str]


@pytest.fixture
async def bank(api: httpx.AsyncClient, signing_key: str) -> Party:
    """A client with a key of each kind."""
    jwks = {"keys": [key.as_dict(private=False) for key in KEYS.values()]}
    given = {"auth_method": "private_key_jwt", "jwks": jwks, "grants": ["client_credentials"], "scopes": ["reports"]}
    client, secret = await sync_to_async(make_client)(**given)
    return Party(api, client, secret)


def assertion(client_id: str, *, key: Any = None, header: dict[str, Any] | None = None, **changes: Any) -> str:
    """Return an assertion as a client makes it; a change to ``...`` removes the claim or header."""
    now = int(clock.unix())
    claims = {
        "iss": client_id, "sub": client_id, "aud": settings.IRONAUTH_ISSUER, "iat": now, "exp": now + 60,
        "jti": secrets.token_urlsafe(16), **changes,
    }  # fmt: skip
    fields = {"alg": "ES256", "kid": "ec", "typ": "JWT", **(header or {})}
    kept, said = ({k: v for k, v in given.items() if v is not ...} for given in (fields, claims))
    return jws.serialize_compact(kept, json.dumps(said).encode(), key or KEYS["ES256"], algorithms=[kept["alg"]])


async def asked(party: Party, signed: str, **more: str) -> httpx.Response:
    """Ask for a token with an assertion and nothing else."""
    given = {"client_assertion_type": TYPE, "client_assertion": signed, "grant_type": "client_credentials", **more}
    return await party.api.post(TOKEN, data=given)


@pytest.mark.parametrize(
    ("alg", "key"),
    [("EdDSA", "Ed25519"), ("Ed25519", "Ed25519"), ("ES256", "ES256"), ("RS256", "RS256"), ("PS256", "RS256")],
)
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
async def test_every_algorithm_of_the_clients_keys(bank: Party, alg: str, key: str) -> None:
    """Each works with the key's name, without it, and with the client named beside it."""
    client_id = str(bank.client.pk)
    for kid in (KEYS[key].kid, ...):
        signed = assertion(client_id, key=KEYS[key], header={"alg": alg, "kid": kid})
        assert (await asked(bank, signed, client_id=client_id)).status_code == 200


@pytest.mark.parametrize("named", ["EdDSA", "Ed25519", ""])
@pytest.mark.parametrize(("alg", "key"), [("EdDSA", "Ed25519"), ("Ed25519", "Ed25519"), ("ES256", "ES256")])
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_the_two_names_of_one_signature(named: str, alg: str, key: str) -> None:
    """A key that is registered under one name verifies the other, and nothing else (RFC 9864)."""
    registered = {**KEYS["Ed25519"].as_dict(private=False), "alg": named}
    signed = assertion("bank", key=KEYS[key], header={"alg": alg, "kid": "ed"})
    given: dict[str, Any] = {"client_id": "bank", "jwks": {"keys": [registered]}, "profile": PROFILES["fapi2"]}
    if key == "Ed25519":
        client_assertion.verified(signed, **given)
        return
    with pytest.raises(AssertionRefused) as refused:
        client_assertion.verified(signed, **given)
    assert refused.value.cause == "key"


@pytest.mark.parametrize(("named", "alg", "good"), [("PS256", "PS256", True), ("PS256", "RS256", False)])
def test_other_names_stand_for_themselves(named: str, alg: str, good: bool) -> None:
    """A key of RSA that names one algorithm does not verify the other."""
    assert may_have_signed({**KEYS["RS256"].as_dict(private=False), "alg": named}, alg) is good


@pytest.mark.parametrize(
    "header", [{"typ": ...}, {"typ": "jwt"}, {"typ": "application/jwt"}, {"typ": "client-authentication+jwt"}]
)
async def test_names_of_the_type(bank: Party, header: dict[str, Any]) -> None:
    """An assertion may leave its type out, or call itself what it is."""
    assert (await asked(bank, assertion(str(bank.client.pk), header=header))).status_code == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": []},
        {"aud": ["http://localhost:8000"] * 2},
        {"aud": ["http://localhost:8000", "https://other.example"]},
        {"aud": ["https://other.example"]},
        {"aud": ["http://localhost:8000/oauth/par"]},
        {"aud": [["http://localhost:8000"]]},
        {"aud": {"http://localhost:8000": 1}},
        {"aud": "http://localhost:8000/oauth/token/"},
        {"aud": ["http://localhost:8000", "http://localhost:8000/oauth/token"]},
        {"aud": "http://localhost:8000/"},
        {"aud": ...},
        {"iss": "someone"},
        {"iss": ...},
        {"jti": ...},
        {"jti": ""},
        {"jti": 7},
        {"exp": ...},
        {"exp": 1},
        {"exp": "later"},
        {"nbf": 4_000_000_000},
        {"iat": 4_000_000_000},
        {"key": STRANGER},
        {"key": KEYS["Ed25519"], "header": {"alg": "Ed25519"}},
        {"key": OctKey.import_key("s" * 32), "header": {"alg": "HS256"}},
        {"header": {"kid": "rsa"}},
        {"header": {"kid": "unknown"}},
        {"header": {"typ": "at+jwt"}},
        {"header": {"typ": "logout+jwt"}},
        {"header": {"jwk": STRANGER.as_dict(private=False)}, "key": STRANGER},
    ],
)
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
async def test_what_proves_nothing(bank: Party, changes: dict[str, Any]) -> None:
    """Another audience, one beside ours, no end, a foreign key or type: 401, the one body (security-bar 53)."""
    answer = await asked(bank, assertion(str(bank.client.pk), **changes))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert "www-authenticate" not in answer.headers


def test_a_client_signs_for_itself_alone() -> None:
    """What one client has signed for another, or another for it, is refused, though a key of the set has signed it."""
    jwks = {"keys": [KEYS["ES256"].as_dict(private=False)]}
    assert client_assertion.verified(assertion("a"), client_id="a", jwks=jwks, profile=PROFILES["oauth2.1"]).expires_at
    for text in (assertion("b"), assertion("a", iss="b"), assertion("a", sub="b")):
        with pytest.raises(AssertionRefused, match="client"):
            client_assertion.verified(text, client_id="a", jwks=jwks, profile=PROFILES["oauth2.1"])


AUDIENCES = [["http://localhost:8000"], "http://localhost:8000/oauth/token", ["http://localhost:8000/oauth/token"]]


@pytest.mark.parametrize("aud", AUDIENCES)
async def test_a_list_of_one_and_the_token_endpoint(bank: Party, aud: Any) -> None:
    """RFC 7519 §4.1.3 and RFC 7523 §3 let libraries write it so; it is used once, as every assertion is."""
    signed = assertion(str(bank.client.pk), aud=aud)
    assert (await asked(bank, signed)).status_code == 200
    assert (await asked(bank, signed)).status_code == 401


@pytest.mark.parametrize("aud", AUDIENCES)
async def test_fapi2_knows_one_audience(bank: Party, aud: Any) -> None:
    """FAPI 2.0 §5.3.2.1: the issuer as one text."""
    await OAuthClient.objects.filter(pk=bank.client.pk).aupdate(profile="fapi2")
    assert (await asked(bank, assertion(str(bank.client.pk), aud=aud))).status_code == 401
    assert (await asked(bank, assertion(str(bank.client.pk)))).status_code == 200


@pytest.mark.parametrize(
    ("alg", "profile", "status"),
    [("RS256", "oauth2.1", 200), ("RS256", "fapi2", 401), ("PS256", "fapi2", 200), ("EdDSA", "fapi2", 200)],
)
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
async def test_what_fapi2_signs_by(bank: Party, alg: str, profile: str, status: int) -> None:
    """FAPI 2.0 §5.4: no RS256, also where the registered key names no algorithm."""
    await OAuthClient.objects.filter(pk=bank.client.pk).aupdate(profile=profile)
    key = KEYS["Ed25519" if alg == "EdDSA" else "RS256"]
    signed = assertion(str(bank.client.pk), key=key, header={"alg": alg, "kid": key.kid})
    assert (await asked(bank, signed)).status_code == status


@pytest.mark.parametrize("alg", [[], {}, None, 1, "none"])
async def test_algorithms_that_are_none(bank: Party, alg: object) -> None:
    """Of whichever type: a stranger knows the client's id, and gets no more than a refusal."""
    _, payload, signature = assertion(str(bank.client.pk)).split(".")
    head = base64.urlsafe_b64encode(json.dumps({"alg": alg}).encode()).rstrip(b"=").decode()
    assert (await asked(bank, f"{head}.{payload}.{signature}")).status_code == 401


async def test_what_else_a_key_says_means_nothing(api: httpx.AsyncClient, signing_key: str) -> None:
    """However malformed: a set that was stored with it works by the keys' numbers."""
    jwks = {"keys": [{**KEYS["ES256"].as_dict(private=False), "x5c": 5, "key_ops": ["verify", "encrypt"]}]}
    given = {"auth_method": "private_key_jwt", "jwks": jwks, "grants": ["client_credentials"], "scopes": ["reports"]}
    party = Party(api, *await sync_to_async(make_client)(**given))
    assert (await asked(party, assertion(str(party.client.pk)))).status_code == 200
    assert (await asked(party, assertion(str(party.client.pk), key=STRANGER))).status_code == 401


@pytest.mark.parametrize("text", ["x", "a.b.c", "é.é.é", "x" * 9_000, ".".join(["e30"] * 3), "W10.W10.W10"])
async def test_texts_that_are_no_assertion(bank: Party, text: str) -> None:
    """Whatever it is, it is 401."""
    assert (await asked(bank, text)).status_code == 401


@pytest.mark.parametrize(("life_s", "good"), [(3_600 + 50, True), (3_600 + 70, False), (2, True), (-1, False)])
async def test_the_end_is_bounded(bank: Party, life_s: int, good: bool) -> None:
    """An hour, and a minute for clocks that differ; not after its end."""
    signed = assertion(str(bank.client.pk), exp=int(clock.unix()) + life_s)
    assert (await asked(bank, signed)).status_code == (200 if good else 401)


async def test_once(bank: Party, api: httpx.AsyncClient) -> None:
    """Twenty at once: one gets in (CVE-2020-15222). Another client's assertion of the same jti is another one."""
    signed = assertion(str(bank.client.pk), jti="same")
    answers = await asyncio.gather(*(asked(bank, signed) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200, *[401] * 19]
    given = {"auth_method": "private_key_jwt", "jwks": bank.client.jwks, "grants": ["client_credentials"]}
    other, _ = await sync_to_async(make_client)(**given)
    assert (await asked(bank, assertion(str(other.pk), jti="same"))).status_code == 200
    assert (await asked(bank, assertion(str(bank.client.pk), jti="same"))).status_code == 401


async def test_one_way_at_a_time(bank: Party, robot: Party) -> None:
    """Beside a header or secret, or without its type, it is invalid_request; for another client's name 401."""
    client_id = str(bank.client.pk)
    own = {"grant_type": "client_credentials", "client_assertion": assertion(client_id)}
    both = [
        await asked(bank, assertion(client_id), client_secret="x"),
        await bank.api.post(TOKEN, data=own),
        await bank.api.post(TOKEN, data={**own, "client_assertion_type": TYPE}, headers=basic(client_id, "x")),
    ]
    assert [answer.status_code for answer in both] == [400] * 3
    assert {answer.json()["error"] for answer in both} == {"invalid_request"}
    assert (await asked(bank, assertion(client_id), client_id=str(robot.client.pk))).status_code == 401
    assert (await asked(bank, assertion(client_id), client_assertion_type="urn:x")).status_code == 401


STILL = 1_800_000_000  # unix seconds


@pytest.mark.parametrize(
    ("cause", "changes"),
    [
        ("audience", {"aud": "https://other.example"}),
        ("expiry", {"exp": 1}),
        ("expiry", {"exp": STILL}),
        ("expiry", {"exp": STILL + 3_600 + 61}),
        ("jti", {"jti": ""}),
        ("claims", {"jti": ...}),
        ("claims", {"aud": [7]}),
        ("audience", {"aud": ["http://localhost:8000", "https://other.example"]}),
        ("key", {"key": STRANGER}),
        ("key", {"header": {"kid": "unknown"}}),
        ("client", {"iss": "someone"}),
        ("iat", {"iat": STILL + 61}),
        ("nbf", {"nbf": STILL + 61}),
        ("typ", {"header": {"typ": "at+jwt"}}),
        ("alg", {"key": OctKey.import_key("s" * 32), "header": {"alg": "HS256"}}),
        ("unknown", {"sub": "nobody", "iss": "nobody"}),
    ],
)
@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
async def test_the_log_has_the_cause(
    bank: Party, monkeypatch: pytest.MonkeyPatch, cause: str, changes: dict[str, Any]
) -> None:
    """A refusal is logged once, with the client and the one check that failed, and without the assertion."""
    monkeypatch.setattr(clock, "_source", lambda: float(STILL))
    signed = assertion(str(bank.client.pk), **changes)
    with capture_logs() as lines:
        assert (await asked(bank, signed)).status_code == 401
    refusals = [line for line in lines if line["event"] == "client_refused"]
    assert [line["cause"] for line in refusals] == [cause]
    assert refusals[0]["client_id"] == (None if cause == "unknown" else str(bank.client.pk))
    assert not any(part in str(lines) for part in signed.split("."))


async def test_the_log_tells_a_used_assertion_and_one_that_cannot_be_read(bank: Party) -> None:
    """The second use is ``used``; a text without a payload is ``payload``, another type ``assertion_type``."""
    signed = assertion(str(bank.client.pk))
    assert (await asked(bank, signed)).status_code == 200
    with capture_logs() as lines:
        await asked(bank, signed)
        await asked(bank, "a.b.c")
        await asked(bank, assertion(str(bank.client.pk)), client_assertion_type="urn:x")
        await asked(bank, assertion(str(bank.client.pk)), client_id="another")
    causes = [line["cause"] for line in lines if line["event"] == "client_refused"]
    assert causes == ["used", "payload", "assertion_type", "client"]


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_what_stands_for_a_used_assertion() -> None:
    """It is the client's alone, and is kept until the assertion has ended."""
    now, jwks = int(clock.unix()), {"keys": [KEYS["ES256"].as_dict(private=False)]}
    given = [
        client_assertion.verified(
            assertion(name, jti="same", exp=now + 60), client_id=name, jwks=jwks, profile=PROFILES["oauth2.1"]
        )
        for name in ("one", "one", "two")
    ]
    assert given[0].id == given[1].id != given[2].id
    assert given[0].expires_at == now + 61


@pytest.mark.parametrize(
    ("header", "named", "cause"),
    [
        ({"alg": "RS256", "kid": "rsa"}, "RS256", ""),
        ({"alg": "RS256", "kid": "rsa"}, "PS256", "key"),
        ({"alg": "RS256", "kid": "rsa", "crit": ["exp"], "exp": 1}, "RS256", "alg"),
        ({"alg": "RS256", "kid": "rsa", "b64": True}, "RS256", "alg"),
    ],
)
def test_a_key_for_one_algorithm_and_extensions(header: dict[str, Any], named: str, cause: str) -> None:
    """A key that names an algorithm signs by no other; extensions that change what is signed are refused."""
    jwks = {"keys": [{**KEYS["RS256"].as_dict(private=False), "alg": named}]}
    claims = {"iss": "c", "sub": "c", "aud": settings.IRONAUTH_ISSUER, "exp": int(clock.unix()) + 60, "jti": "j"}
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims)
    )
    signer = jws.JWSRegistry.algorithms["RS256"]
    signature = signer.sign(f"{head}.{body}".encode(), KEYS["RS256"])
    text = f"{head}.{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    with pytest.raises(AssertionRefused, match=cause) if cause else nullcontext():
        client_assertion.verified(text, client_id="c", jwks=jwks, profile=PROFILES["oauth2.1"])


async def test_only_clients_that_sign(bank: Party, robot: Party) -> None:
    """A client with a secret cannot sign, and one that signs has no secret, nor is it public."""
    assert (await asked(robot, assertion(str(robot.client.pk)))).status_code == 401
    named = {"grant_type": "client_credentials", "client_id": str(bank.client.pk)}
    for body in (named, {**named, "client_secret": "x"}):
        assert (await bank.api.post(TOKEN, data=body)).status_code == 401
