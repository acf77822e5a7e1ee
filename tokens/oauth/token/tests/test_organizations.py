"""Organizations at applications: named by the request, told by tokens, and only with the scope for it."""

import uuid
from typing import Any

import httpx
import msgspec
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.organizations.models import Membership, Organization
from accounts.users.models import User
from ironauth.infrastructure.cache.two_level import token_cache
from tokens.access import codec
from tokens.keys.store import key_store
from tokens.oauth.models import AuthorizationCode
from tokens.oauth.tests.apis import ORDERS, make_api
from tokens.oauth.tests.flow import TOKEN, Party, approve
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, is_page, say
from tokens.sessions.models import Session
from tokens.tests.browser import VERIFY, Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

SCOPE = "offline_access openid organization"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS = "urn:ietf:params:oauth:token-type:access_token"
ABOUT = {"org_id", "org_name", "org_slug", "org_roles"}


@pytest.fixture
async def acme(member: Member) -> Organization:
    """An organization that the member administers, and whose owner is somebody else."""
    owner = await User.objects.acreate(email="owner@example.com", email_key="owner@example.com", password="")
    made = await Organization.objects.acreate(name="Acme Ltd", slug="acme")
    await Membership.objects.acreate(organization=made, user_id=owner.pk, role="owner")
    await Membership.objects.acreate(organization=made, user_id=member["id"], role="admin")
    return made


@pytest.fixture
async def shop(api: httpx.AsyncClient, signing_key: str) -> Party:
    """A trusted client that may know of organizations."""
    scopes = [*SCOPE.split(), "profile", "orders:read"]
    return Party(api, *await sync_to_async(make_client)(name="Shop", trusted=True, scopes=scopes))


async def granted(party: Party, member: Member, **changes: Any) -> dict[str, Any]:
    """Return the tokens for a code as the authorization endpoint makes it."""
    code = await sync_to_async(approve)(party.client, uuid.UUID(member["id"]), **{"scope": SCOPE, **changes})
    answer = await party.redeem(code)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def about(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the claims about an organization."""
    return {name: value for name, value in payload.items() if name in ABOUT}


async def userinfo(api: httpx.AsyncClient, tokens: dict[str, Any]) -> dict[str, Any]:
    """Return what userinfo says."""
    answer = await api.get("/oauth/userinfo", headers={"Authorization": f"Bearer {tokens['access_token']}"})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("by", ["pk", "slug"])
async def test_named_by_the_request(
    api: httpx.AsyncClient, shop: Party, member: Member, acme: Organization, by: str
) -> None:
    """Who signs in for an organization gets tokens of it: id token and userinfo name it, the access token its id."""
    everything = {"org_id": str(acme.pk), "org_name": "Acme Ltd", "org_slug": "acme", "org_roles": ["admin"]}
    page = await authorize(api, shop.client, scope=SCOPE, organization=str(getattr(acme, by)))
    code = answered(await by_password(api, page, member["email"]))["code"]
    tokens = (await shop.redeem(code)).json()
    assert about(codec.payload_of(tokens["id_token"])) == everything
    said = {"org_id": str(acme.pk), "org_roles": ["admin"]}
    assert about(codec.payload_of(tokens["access_token"])) == said
    for _ in range(2):
        assert about(await userinfo(api, tokens)) == everything
        assert about(await shop.introspect(tokens["access_token"])) == said
        token_cache().clear()  # as in another worker
    renewed = (await shop.refresh(tokens["refresh_token"])).json()
    assert about(codec.payload_of(renewed["access_token"])) == said
    assert about(codec.payload_of(renewed["id_token"])) == everything


@pytest.mark.parametrize("named", ["other", str(uuid.uuid4()), "acme2"])
async def test_no_member(api: httpx.AsyncClient, shop: Party, member: Member, acme: Organization, named: str) -> None:
    """The client of somebody who does not belong there hears `access_denied`; one that there is not sounds alike."""
    await Organization.objects.acreate(name="Other", slug="other")
    page = await authorize(api, shop.client, scope=SCOPE, organization=named)
    said = answered(await by_password(api, page, member["email"]))
    assert said["error"] == "access_denied"
    assert said["error_description"] == "The person belongs to no organization of this id or slug."
    silent = answered(await authorize(api, shop.client, scope=SCOPE, organization=named, prompt="none"))
    assert silent["error"] == "access_denied"
    assert not await AuthorizationCode.objects.aexists()
    assert answered(await authorize(api, shop.client, scope=SCOPE, organization="acme"))["code"]


async def test_nobody_is_probed(api: httpx.AsyncClient, member: Member, acme: Organization, signing_key: str) -> None:
    """A client that the person has allowed nothing learns of no membership: first they are asked, then it hears."""
    client, _ = await sync_to_async(make_client)(scopes=SCOPE.split())
    for named in ("acme", "other"):
        silent = answered(await authorize(api, client, scope=SCOPE, organization=named, prompt="none"))
        assert silent["error"] == "login_required"
    page = await authorize(api, client, scope=SCOPE, organization="other")
    page = await by_password(api, page, member["email"])
    assert is_page(page, 200, "See for which organisation you act, and your role there")
    for named in ("acme", "other"):
        silent = answered(await authorize(api, client, scope=SCOPE, organization=named, prompt="none"))
        assert silent["error"] == "consent_required"
    assert answered(await say(api, page, "allow"))["error"] == "access_denied"


@pytest.mark.parametrize(
    ("scope", "named", "error"),
    [("openid", "acme", "invalid_scope"), (SCOPE, "a" * 65, "invalid_request"), (SCOPE, "", None), (SCOPE, None, None)],
)
async def test_the_parameter(
    api: httpx.AsyncClient, shop: Party, acme: Organization, scope: str, named: str | None, error: str | None
) -> None:
    """It needs the scope, and is no longer than a name can be; an empty one is none (RFC 6749 §3.1)."""
    answer = await authorize(api, shop.client, scope=scope, organization=named)
    if error is None:
        assert answer.status_code == 200
    else:
        assert answered(answer)["error"] == error


async def test_off(api: httpx.AsyncClient, shop: Party, member: Member, acme: Organization, settings: Settings) -> None:
    """Where there are no organizations the parameter is one that nobody knows, and metadata offer nothing of them."""
    discovery = "/.well-known/openid-configuration"
    said = (await api.get(discovery)).json()
    assert "organization" in said["scopes_supported"]
    assert set(said["claims_supported"]) >= ABOUT
    settings.IRONAUTH_ORGANIZATIONS = "off"
    said = (await api.get(discovery)).json()
    assert "organization" not in said["scopes_supported"]
    assert not ABOUT & set(said["claims_supported"])
    page = await authorize(api, shop.client, scope="openid", organization="other")
    code = answered(await by_password(api, page, member["email"]))["code"]
    tokens = (await shop.redeem(code)).json()
    assert about(codec.payload_of(tokens["id_token"])) == {}


async def test_pushed(api: httpx.AsyncClient, shop: Party, member: Member, acme: Organization) -> None:
    """A pushed request names one as any other request does."""
    given = {
        "response_type": "code", "redirect_uri": shop.client.redirect_uris[0], "scope": SCOPE, "organization": "acme",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "code_challenge_method": "S256",
    }  # fmt: skip
    pushed = (await shop.post("/oauth/par", **given)).json()
    asked = {"client_id": str(shop.client.pk), "request_uri": pushed["request_uri"]}
    page = await api.get("/oauth/authorize", params=asked)
    assert answered(await by_password(api, page, member["email"]))["code"]
    assert (await AuthorizationCode.objects.aget()).organization_id == acme.pk
    refused = await shop.post("/oauth/par", **{**given, "scope": "openid"})
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_scope")


async def test_left_before_the_code_was_used(shop: Party, member: Member, acme: Organization) -> None:
    """A code for an organization that its person has left opens nothing, rather than a session without it."""
    code = await sync_to_async(approve)(shop.client, uuid.UUID(member["id"]), scope=SCOPE, organization_id=acme.pk)
    await Membership.objects.filter(user_id=member["id"]).adelete()
    answer = await shop.redeem(code)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert not await Session.objects.filter(client_id=str(shop.client.pk)).aexists()


async def test_switched_by_refresh(api: httpx.AsyncClient, shop: Party, member: Member, acme: Organization) -> None:
    """A refresh may name another one; where the person is no member, or the scope is missing, the token stays good."""
    first = await granted(shop, member)
    assert about(codec.payload_of(first["access_token"])) == {}
    refused = await shop.refresh(first["refresh_token"], organization="other")
    assert (refused.status_code, refused.json()["error"]) == (400, "access_denied")
    second = (await shop.refresh(first["refresh_token"], organization="acme")).json()
    assert about(codec.payload_of(second["access_token"]))["org_id"] == str(acme.pk)
    assert about(codec.payload_of(second["id_token"]))["org_slug"] == "acme"
    narrow = (await shop.refresh(second["refresh_token"], scope="openid")).json()
    assert about(codec.payload_of(narrow["access_token"])) == {}
    assert about(codec.payload_of(narrow["id_token"])) == {}
    other = await granted(shop, member, scope="offline_access openid")
    refused = await shop.refresh(other["refresh_token"], organization="acme")
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_scope")
    assert (await shop.refresh(other["refresh_token"])).status_code == 200


async def test_apis(api: httpx.AsyncClient, shop: Party, member: Member, acme: Organization) -> None:
    """A token for a registered API says it too; forward-auth and an exchange pass on what the token has."""
    await sync_to_async(make_api)()
    given = {"scope": f"{SCOPE} orders:read", "resources": ORDERS, "organization_id": acme.pk}
    tokens = await granted(shop, member, **given)
    assert about(codec.payload_of(tokens["access_token"])) == {"org_id": str(acme.pk), "org_roles": ["admin"]}
    header = {"Authorization": f"Bearer {tokens['access_token']}"}
    answer = await api.get(VERIFY, params={"resource": ORDERS}, headers=header)
    assert answer.headers["x-auth-organization"] == str(acme.pk)
    assert answer.headers["x-auth-organization-roles"] == "admin"
    agent = {"name": "Agent", "grants": [EXCHANGE], "serves": [ORDERS], "scopes": SCOPE.split(), "resources": [ORDERS]}
    service = Party(api, *await sync_to_async(make_client)(**agent))
    shown = {"subject_token": tokens["access_token"], "subject_token_type": ACCESS, "grant_type": EXCHANGE}
    for scope, told in (("organization", {"org_id", "org_roles"}), ("openid", set())):
        exchanged = await service.post(TOKEN, scope=scope, **shown)
        assert exchanged.status_code == 200, exchanged.text
        assert about(codec.payload_of(exchanged.json()["access_token"])).keys() == told


async def test_forward_auth_overwrites(api: httpx.AsyncClient, shop: Party, member: Member, settings: Settings) -> None:
    """Without an organization the two fields are there and empty, so that no caller's own get through. Off: none."""
    tokens = await granted(shop, member)
    header = {"Authorization": f"Bearer {tokens['access_token']}"}
    answer = await api.get(VERIFY, headers=header)
    assert answer.headers["x-auth-organization"] == answer.headers["x-auth-organization-roles"] == ""
    settings.IRONAUTH_ORGANIZATIONS = "off"
    token_cache().clear()
    assert "x-auth-organization" not in (await api.get(VERIFY, headers=header)).headers


@pytest.mark.parametrize(
    "change",
    [{"org_roles": ()}, {"org_id": None}, {"sid": None}, {"org_roles": ("owner",)}, {"org_id": uuid.uuid4()}],
)
async def test_a_token_that_says_something_else(
    api: httpx.AsyncClient, shop: Party, member: Member, acme: Organization, change: dict[str, Any], signing_key: str
) -> None:
    """Of our own keys, but not as the membership is: nobody is let in."""
    tokens = await granted(shop, member, organization_id=acme.pk)
    claims = msgspec.structs.replace(codec.claims_of(tokens["access_token"]), jti="another", **change)
    forged = codec.encode(claims, await key_store().signing())
    assert (await shop.introspect(forged)) == {"active": False}
    assert (await api.get(VERIFY, headers={"Authorization": f"Bearer {forged}"})).status_code == 401
