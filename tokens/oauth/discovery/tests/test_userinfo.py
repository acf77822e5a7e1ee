"""What clients learn about people, and who may ask."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import Group
from joserfc import jwt
from joserfc.jwk import KeySet

from accounts.users.models import User
from conftest import bearer
from tokens.clients import registry as clients
from tokens.clients import subjects
from tokens.clients.models import OAuthClient
from tokens.oauth import id_tokens
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.sessions import access_token
from tokens.tests.browser import Member, Pair

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

USERINFO = "/oauth/userinfo"
#: What the scope profile stands for (OpenID Connect Core §5.1, §5.4), of Ann.
PROFILE = {
    "name": "Ann", "given_name": "Ann", "family_name": "Lee", "preferred_username": "ann", "zoneinfo": "Europe/Berlin",
    "locale": "de", "updated_at": 1_793_491_200,
}  # fmt: skip
CHALLENGE = 'Bearer realm="ironauth", resource_metadata="http://localhost:8000/.well-known/oauth-protected-resource"'


async def client(**fields: Any) -> OAuthClient:
    """Return a new client."""
    return (await sync_to_async(make_client)(**fields))[0]


def authorized(token: str) -> dict[str, str]:
    """Return the header that presents the token."""
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def ann(member: Member, signing_key: str) -> UUID:
    """Somebody with a name and a role."""
    user = await User.objects.aget(pk=member["id"])
    await User.objects.filter(pk=user.pk).aupdate(
        name="Ann", given_name="Ann", family_name="Lee", preferred_username="ann", zoneinfo="Europe/Berlin",
        language="de", updated_at=datetime(2026, 11, 1, tzinfo=UTC),
    )  # fmt: skip
    await user.groups.aadd(await Group.objects.acreate(name="editors"))
    return user.pk


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        ("openid", set()),
        ("openid profile", PROFILE.keys()),
        ("openid email", {"email", "email_verified"}),
        ("openid roles", {"roles"}),
        ("openid offline_access account", set()),
        ("email openid profile roles", {*PROFILE, "email", "email_verified", "roles"}),
    ],
)
async def test_claims_by_scope(api: httpx.AsyncClient, ann: UUID, member: Member, scope: str, told: set[str]) -> None:
    """Each scope tells what it names, and no other (OpenID Connect Core §5.4)."""
    everything = {**PROFILE, "email": member["email"], "email_verified": False, "roles": ["editors"]}
    token = await access_token(await client(), ann, scope)
    expected = {"sub": str(ann)} | {name: value for name, value in everything.items() if name in told}
    for answer in (
        await api.get(USERINFO, headers=authorized(token)),
        await api.post(USERINFO, headers=authorized(token)),
        await api.post(USERINFO, data={"access_token": token}),
    ):
        assert (answer.status_code, answer.json()) == (200, expected)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["access-control-allow-origin"] == "*"


async def test_without_openid(api: httpx.AsyncClient, ann: UUID, pair: Pair) -> None:
    """A token that was not given for signing in tells nobody who its person is, not even a first-party one."""
    plain = await access_token(await client(), ann, "profile email")
    for token in (plain, pair["access_token"]):
        answer = await api.get(USERINFO, headers=authorized(token))
        assert answer.status_code == 403
        assert answer.headers["www-authenticate"] == f'{CHALLENGE}, error="insufficient_scope", scope="openid"'
        assert answer.json()["error"] == "insufficient_scope"


async def test_no_credential(api: httpx.AsyncClient, ann: UUID) -> None:
    """Without a token: the bare challenge (RFC 6750 §3.1); cookies and the query do not count."""
    token = await access_token(await client(), ann, "openid")
    for answer in (
        await api.get(USERINFO),
        await api.get(USERINFO, params={"access_token": token}),
        await api.post(USERINFO, params={"access_token": token}),
        await api.get(USERINFO, headers={"Cookie": f"access_token={token}"}),
        await api.get(USERINFO, headers={"Authorization": "Basic YTpi"}),
        await api.request("GET", USERINFO, data={"access_token": token}),
        await api.post(USERINFO, json={"access_token": token}),
    ):
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, CHALLENGE)
        assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]  # a page of any origin reads it


async def test_malformed(api: httpx.AsyncClient, ann: UUID) -> None:
    """A malformed credential, and two at once, are 400 with the code in the challenge."""
    token = await access_token(await client(), ann, "openid")
    for answer in (
        await api.get(USERINFO, headers={"Authorization": "Bearer"}),
        await api.get(USERINFO, headers={"Authorization": f"Bearer {token}, Bearer {token}"}),
        await api.post(USERINFO, headers=authorized(token), data={"access_token": token}),
    ):
        assert answer.status_code == 400
        assert answer.headers["www-authenticate"] == 'Bearer realm="ironauth", error="invalid_request"'
        assert answer.json()["error"] == "invalid_request"
    twice = await api.post(USERINFO, content=f"access_token={token}&access_token={token}",
                           headers={"Content-Type": "application/x-www-form-urlencoded"})  # fmt: skip
    assert (twice.status_code, twice.json()["error"]) == (400, "invalid_request")


async def test_invalid_token(api: httpx.AsyncClient, ann: UUID) -> None:
    """Whatever is wrong with a token, the answer is the same."""
    row = await client()
    ended = await access_token(row, ann, "openid", cold=True)
    row.disabled_at = row.created_at
    await row.asave()
    for token in (ended, "a.b.c", "x" * 20_000, f"{ended[:-4]}AAAA"):
        answer = await api.post(USERINFO, data={"access_token": token})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == f'{CHALLENGE}, error="invalid_token"'
        assert answer.json()["error"] == "invalid_token"


async def test_warm_tokens_cost_no_query(
    api: httpx.AsyncClient,
    ann: UUID,
    statements: list[str],
) -> None:
    """A token this process knows costs none, one of another worker what its client and session cost: frozen."""
    row = await client()
    warm = await access_token(row, ann, "openid email")
    statements.clear()
    assert (await api.get(USERINFO, headers=authorized(warm))).status_code == 200
    assert statements == []
    cold = await access_token(row, ann, "openid email", cold=True)
    statements.clear()
    assert (await api.get(USERINFO, headers=authorized(cold))).status_code == 200
    assert len(statements) == 3


@pytest.mark.parametrize(("alg", "names"), [("ed25519", {"EdDSA", "Ed25519"}), ("RS256", {"RS256"})])
async def test_signed(api: httpx.AsyncClient, ann: UUID, rs256_key: str, alg: str, names: set[str]) -> None:
    """A client that has registered it gets a JWT, from here, for itself; it is no ID token, and no hint of one."""
    app = await client(userinfo_signed_response_alg=alg)
    shown = authorized(await access_token(app, ann, "openid email"))
    for answer in (await api.get(USERINFO, headers=shown), await api.post(USERINFO, headers=shown)):
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/jwt")
        assert answer.headers["cache-control"] == "no-store"
        keys = KeySet.import_key_set((await api.get("/.well-known/jwks.json")).json())
        told = jwt.decode(answer.text, keys, algorithms=list(names))
        assert told.header["alg"] in names
        assert told.claims["iss"] == settings.IRONAUTH_ISSUER
        assert told.claims["aud"] == str(app.pk)
        assert told.claims["sub"] == str(ann)
        assert told.claims["email"]
        assert not {"exp", "amr", "sid"} & told.claims.keys()
        assert await id_tokens.read_hint(answer.text) is None
    refused = await api.get(USERINFO, headers=authorized("x"))
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_token")


async def test_pairwise(api: httpx.AsyncClient, ann: UUID) -> None:
    """A pairwise client learns its own ``sub`` everywhere, and the public id nowhere."""
    row = await client(subject_type="pairwise")
    found = await clients.find(str(row.pk))
    assert found is not None
    token = await access_token(row, ann, "openid", cold=True)
    for _ in ("cold", "warm"):
        answer = await api.get(USERINFO, headers=authorized(token))
        assert answer.json() == {"sub": subjects.subject_of(found, ann)}
    verified = await api.get("/api/v1/access/verify", headers=authorized(token))
    assert verified.headers["x-auth-subject"] == subjects.subject_of(found, ann)
    assert str(ann) not in f"{verified.headers} {token}"
    assert subjects.subject_of(found, ann) != str(ann)


async def test_the_end_of_a_pairwise_session(api: httpx.AsyncClient, ann: UUID, member: Member, pair: Pair) -> None:
    """What ends everything of a person ends their pairwise tokens too, warm ones included."""
    warm = await access_token(await client(subject_type="pairwise"), ann, "openid")
    assert (await api.get(USERINFO, headers=authorized(warm))).status_code == 200
    assert (await api.post("/api/v1/access/logout-all", headers=bearer(pair))).status_code == 204
    assert (await api.get(USERINFO, headers=authorized(warm))).status_code == 401


async def test_never_reassigned(api: httpx.AsyncClient, ann: UUID, member: Member) -> None:
    """Who is deleted and comes back under the same address is somebody else (security-bar 49)."""
    row = await client()
    first = (await api.get(USERINFO, headers=authorized(await access_token(row, ann, "openid")))).json()["sub"]
    await User.objects.filter(pk=ann).adelete()
    again = await sync_to_async(User.objects.create_user)(email=member["email"])
    second = (await api.get(USERINFO, headers=authorized(await access_token(row, again.pk, "openid")))).json()["sub"]
    assert first != second


async def test_preflight(api: httpx.AsyncClient, signing_key: str) -> None:
    """A page of another origin may ask, with the header it needs for that."""
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "GET",
             "Access-Control-Request-Headers": "authorization"}  # fmt: skip
    answer = await api.options(USERINFO, headers=asked)
    assert answer.status_code == 204
    assert "Authorization" in answer.headers["access-control-allow-headers"]
    assert {"GET", "POST"} <= set(answer.headers["access-control-allow-methods"].split(", "))


async def test_pages_of_other_origins_can_read_why(api: httpx.AsyncClient, signing_key: str) -> None:
    """The challenge, which says whether to refresh or to ask for another scope (RFC 6750 §3)."""
    answer = await api.get(USERINFO, headers={"Origin": "https://app.example", **authorized("x")})
    assert (answer.status_code, "invalid_token" in answer.headers["www-authenticate"]) == (401, True)
    assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"].split(", ")
