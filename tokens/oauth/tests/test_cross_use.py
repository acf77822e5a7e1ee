"""Every kind of token at every place that takes another kind: refused (security-bar 26, 27, 29)."""

import base64
import hashlib
import hmac
import json
import uuid
from typing import Any, NamedTuple

import httpx
import pytest
from asgiref.sync import sync_to_async

from accounts.users.models import User
from conftest import bearer
from tokens.clients import registry as clients
from tokens.clients import units as client_units
from tokens.clients.models import OAuthClient
from tokens.keys.key_set import Family
from tokens.keys.store import key_store
from tokens.keys.units import create_first_keys
from tokens.oauth.logout import delivery as logout_delivery
from tokens.oauth.logout.tests.test_logout import tokens_of
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.oauth.tests.walk import VERIFIER, answered, authorize
from tokens.tests.browser import Member, Pair

pytestmark = [pytest.mark.django_db(transaction=True)]

ME = "/api/v1/access/me"
SCOPE = "openid profile offline_access account"


class Everything(NamedTuple):
    """A client that may do everything, and every kind of token there is of one person."""

    client: OAuthClient
    secret: str
    kinds: dict[str, str]


@pytest.fixture
async def everything(api: httpx.AsyncClient, member: Member, pair: Pair, signing_key: str) -> Everything:
    """What a person and their clients hold, each freshly made."""
    fields: dict[str, Any] = {"trusted": True, "scopes": SCOPE.split()}
    row, secret = await sync_to_async(make_client)(**fields)
    kinds = {"first-party access token": pair["access_token"], "first-party refresh token": pair["refresh_token"]}
    found = await tokens_of(api, row, secret, member, SCOPE)
    kinds |= {name.replace("_", " "): found[name] for name in ("access_token", "refresh_token", "id_token")}
    for family in (Family.ES256, Family.RS256):
        await sync_to_async(create_first_keys)(family)
        key_store().forget()
        other, other_secret = await sync_to_async(make_client)(**fields, id_token_alg=family.value)
        kinds[f"id token {family}"] = (await tokens_of(api, other, other_secret, member, SCOPE))["id_token"]
    client = await clients.find(str(row.pk))
    assert client is not None
    kinds["logout token"] = await logout_delivery.mint(
        client=client, user_id=uuid.UUID(member["id"]), session_id=uuid.uuid4()
    )
    kinds["code"] = answered(await authorize(api, row, scope=SCOPE))["code"]
    answer = answered(await authorize(api, row, scope=SCOPE, response_mode="jwt", prompt="none"))
    kinds["authorization response"] = answer["response"]
    kinds["client secret"] = secret
    kinds["cookie"] = api.cookies["sso"]
    return Everything(row, secret, kinds)


async def test_bearer(api: httpx.AsyncClient, everything: Everything) -> None:
    """At the API only access tokens count, at userinfo only those with the scope openid."""
    cookies, api.cookies = api.cookies, httpx.Cookies()
    good = {
        ME: {"first-party access token", "access token"},
        "/api/v1/access/verify": {"first-party access token", "access token"},
        "/oauth/userinfo": {"access token"},
    }
    for address, accepted in good.items():
        for kind, token in everything.kinds.items():
            status = (await api.get(address, headers=bearer({"access_token": token}))).status_code
            assert (status in {200, 204}) is (kind in accepted), (address, kind, status)
            assert status in {200, 204, 400, 401, 403}, (address, kind, status)
    api.cookies = cookies


async def test_refresh(api: httpx.AsyncClient, everything: Everything) -> None:
    """A refresh token of one client is none of another one's, and nothing else is a refresh token."""
    for kind, token in everything.kinds.items():
        answer = await api.post("/api/v1/access/refresh", json={"refresh_token": token})
        assert (answer.status_code == 200) is (kind == "first-party refresh token"), (kind, answer.text)
    for kind, token in everything.kinds.items():
        asked = {"grant_type": "refresh_token", "refresh_token": token}
        answer = await api.post("/oauth/token", data=asked, auth=(str(everything.client.pk), everything.secret))
        assert (answer.status_code == 200) is (kind == "refresh token"), (kind, answer.text)
        assert answer.status_code in {200, 400}


async def test_code(api: httpx.AsyncClient, everything: Everything) -> None:
    """Only a code is a code."""
    for kind, token in everything.kinds.items():
        asked = {"grant_type": "authorization_code", "code": token, "redirect_uri": REDIRECT_URI,
                 "code_verifier": VERIFIER}  # fmt: skip
        answer = await api.post("/oauth/token", data=asked, auth=(str(everything.client.pk), everything.secret))
        assert (answer.status_code == 200) is (kind == "code"), (kind, answer.text)


async def test_introspection(api: httpx.AsyncClient, everything: Everything) -> None:
    """A client's own access and refresh tokens are active; an ID token and all else are not (security-bar 46)."""
    for kind, token in everything.kinds.items():
        answer = await api.post(
            "/oauth/introspect", data={"token": token}, auth=(str(everything.client.pk), everything.secret)
        )
        assert answer.json()["active"] is (kind in {"access token", "refresh token"}), kind


async def test_hint(api: httpx.AsyncClient, everything: Everything) -> None:
    """Only an ID token speaks for a person who signs out."""
    api.cookies = httpx.Cookies()
    for kind, token in everything.kinds.items():
        asked = {"id_token_hint": token, "client_id": str(everything.client.pk)}
        answer = await api.get("/oauth/logout", params=asked)
        assert answer.status_code == (400 if kind in {"id token ES256", "id token RS256"} else 200), kind
        page = await api.get(ME, headers=bearer({"access_token": everything.kinds["access token"]}))
        assert page.status_code == 200, kind  # with offline_access and account: it outlives the SSO session


async def test_a_new_password(api: httpx.AsyncClient, member: Member, everything: Everything) -> None:
    """Changed through an application, the session that follows is the application's, and ends with it."""
    api.cookies = httpx.Cookies()
    holder = bearer({"access_token": everything.kinds["access token"]})
    body = {"current_password": member["password"], "new_password": "quite another pass phrase 7"}
    answer = await api.post("/api/v1/access/password", json=body, headers=holder)
    assert answer.status_code == 200, answer.text
    pair = answer.json()
    assert (await api.get(ME, headers=bearer(pair))).status_code == 200
    asked = {"refresh_token": pair["refresh_token"]}
    assert (await api.post("/api/v1/access/refresh", json=asked)).status_code == 401
    asked["grant_type"] = "refresh_token"
    answer = await api.post("/oauth/token", data=asked, auth=(str(everything.client.pk), everything.secret))
    assert answer.status_code == 200, answer.text
    await sync_to_async(client_units.disable)(everything.client.pk)
    for token in (pair, answer.json()):
        assert (await api.get(ME, headers=bearer(token))).status_code == 401


def mutated(token: str, jwks: list[dict[str, str]]) -> dict[str, str]:
    """Return tokens that a published key, rather than a private one, has made of a genuine one; and others."""
    header, payload, signature = token.split(".")
    said = json.loads(base64.urlsafe_b64decode(header + "=="))
    made = {}
    for key in jwks:
        for alg in ("HS256", "HS512"):
            head = _encoded({**said, "alg": alg, "kid": key["kid"], "typ": "at+jwt"})
            for name in ("x", "n"):
                if name in key:
                    secret = base64.urlsafe_b64decode(key[name] + "==")
                    digest = hashlib.sha256 if alg == "HS256" else hashlib.sha512
                    mac = hmac.digest(secret, f"{head}.{payload}".encode(), digest)
                    made[f"{alg} by {key['kty']} {name}"] = f"{head}.{payload}.{_text(mac)}"
        for alg in ("EdDSA", "Ed25519", "ES256", "RS256", "none"):
            for forged in ("AA", _text(bytes(64)), _text(bytes(256)), signature):
                head = _encoded({**said, "alg": alg, "kid": key["kid"], "typ": "at+jwt"})
                if (head, forged) != (header, signature):
                    made[f"{alg} naming {key['alg']} {forged[:4]}"] = f"{head}.{payload}.{forged}"
    for name, value in (
        ("jwk", jwks[0]), ("jku", "http://127.0.0.1:9/jwks"), ("x5u", "http://127.0.0.1:9/"), ("x5c", ["AA"]),
        ("typ", "JWT"), ("typ", "logout+jwt"), ("crit", ["exp"]),
        ("kid", "../../../dev/null"), ("kid", "' OR 1=1--"), ("kid", ""), ("kid", None), ("kid", 7),
    ):  # fmt: skip
        made[f"{name} {value}"] = f"{_encoded({**said, name: value})}.{payload}.{signature}"
    return made


async def test_the_servers_own_tokens_changed(api: httpx.AsyncClient, everything: Everything) -> None:
    """Nothing made from a genuine token and the published keys is one, at any endpoint (security-bar 26, 27)."""
    api.cookies = httpx.Cookies()
    jwks = (await api.get("/.well-known/jwks.json")).json()["keys"]
    assert {key["kty"] for key in jwks} == {"OKP", "EC", "RSA"}
    for kind in ("access token", "id token", "id token RS256"):
        made = mutated(everything.kinds[kind], jwks)
        assert len(made) > 50
        for name, token in made.items():
            for address in (ME, "/oauth/userinfo"):
                status = (await api.get(address, headers=bearer({"access_token": token}))).status_code
                assert status in {400, 401}, (kind, name, address, status)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _encoded(part: dict[str, Any]) -> str:
    return _text(json.dumps(part, separators=(",", ":")).encode())


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ME), ("PATCH", ME), ("DELETE", ME), ("GET", "/api/v1/access/sessions"), ("GET", "/api/v1/users")],
)
async def test_a_token_for_less_than_the_account(
    api: httpx.AsyncClient, member: Member, signing_key: str, method: str, path: str
) -> None:
    """What an application got to know a person by opens nothing of the account here, with or without their rights."""
    await User.objects.filter(pk=member["id"]).aupdate(is_superuser=True, is_staff=True)
    row, secret = await sync_to_async(make_client)(trusted=True, scopes=SCOPE.split())
    found = await tokens_of(api, row, secret, member, "openid profile")
    api.cookies = httpx.Cookies()
    answer = await api.request(method, path, json={"name": "Mallory"}, headers=bearer(found))
    assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
    assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
    assert (await User.objects.aget(pk=member["id"])).name != "Mallory"
