"""Resource indicators (RFC 8707): what a token is for, and that one shown to another API opens nothing."""

import base64
import json
import uuid
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from conftest import bearer
from tokens.clients.models import OAuthClient
from tokens.oauth.models import AuthorizationCode, Consent
from tokens.oauth.tests.apis import MAIL, ORDERS, USERINFO, is_active, make_api, refused
from tokens.oauth.tests.flow import TOKEN, Party, approve
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, is_page, request_of, say
from tokens.oauth.token.tests.test_token_code import said
from tokens.resources.models import ApiResource
from tokens.sessions.models import Session
from tokens.tests.browser import ME, VERIFY, Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

SCOPES = ["openid", "profile", "offline_access", "orders:read", "mail:send", "shared"]
BOTH = f"{ORDERS} {MAIL}"


@pytest.fixture
async def orders(transactional_db: None) -> ApiResource:
    """An API with scopes of its own."""
    return await sync_to_async(make_api)()


@pytest.fixture
async def mail(transactional_db: None) -> ApiResource:
    """Another one."""
    return await sync_to_async(make_api)(MAIL, name="Mail", scopes=["mail:send", "shared"])


@pytest.fixture
async def shop(api: httpx.AsyncClient, signing_key: str) -> Party:
    """A client that may have the scopes of both."""
    return await a_client(api)


async def a_client(api: httpx.AsyncClient, **fields: Any) -> Party:
    given = {"name": "Shop", "scopes": SCOPES, **fields}
    return Party(api, *await sync_to_async(make_client)(**given))


async def granted(party: Party, member: Member, resources: str = ORDERS, scope: str = " ".join(sorted(SCOPES))) -> str:
    """Return a code for these APIs."""
    given: dict[str, Any] = {"resources": resources, "scope": scope}
    return str(await sync_to_async(approve)(party.client, uuid.UUID(member["id"]), **given))


async def got(party: Party, member: Member, resources: str = ORDERS, **parameters: str) -> Any:
    """Return the tokens of a grant for these APIs."""
    answer = await party.redeem(await granted(party, member, resources), **parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_person_is_asked_by_name_and_the_token_is_for_that_api(
    api: httpx.AsyncClient, member: Member, shop: Party, orders: ApiResource, mail: ApiResource
) -> None:
    """The page names the API, the scopes are its own, ``aud`` is the API; asking for another asks again."""
    page = await authorize(api, shop.client, scope="openid orders:read mail:send", resource=ORDERS)
    page = await by_password(api, page, member["email"])
    assert is_page(page, 200, "Orders", ORDERS, "orders:read")
    assert "mail:send" not in page.text
    code = answered(await say(api, page, "allow"))["code"]
    answer = (await shop.redeem(code, resource=ORDERS)).json()
    claims = said(answer["access_token"])
    assert (claims["aud"], claims["scope"], answer["scope"]) == (ORDERS, "openid orders:read", "openid orders:read")
    consent = await Consent.objects.aget()
    assert (consent.scope, consent.resources) == ("", {ORDERS: "openid orders:read"})
    again = await authorize(api, shop.client, scope="openid orders:read", resource=ORDERS)
    assert answered(again)["code"]
    for asked in ({"resource": MAIL}, {"resource": None}):
        other = await authorize(api, shop.client, scope="openid", **asked)
        assert is_page(other, 200, "Allow")


async def test_several_are_one_token_for_all_or_none(
    api: httpx.AsyncClient, member: Member, shop: Party, orders: ApiResource, mail: ApiResource
) -> None:
    """Repeated, each is named; one that is not registered refuses the request, and a text with a space is no URI."""
    page = await api.get("/oauth/authorize", params=_asking(shop, [ORDERS, MAIL]))
    page = await by_password(api, page, member["email"])
    assert is_page(page, 200, ORDERS, MAIL, "mail:send", "orders:read")
    code = answered(await say(api, page, "allow"))["code"]
    claims = said((await shop.redeem(code)).json()["access_token"])
    assert (claims["aud"], claims["scope"]) == ([ORDERS, MAIL], "mail:send openid orders:read")
    assert (await Consent.objects.aget()).resources == {ORDERS: "openid orders:read", MAIL: "mail:send openid"}
    for bad in (
        [ORDERS, "https://nobody.example"],
        [BOTH],
        ["orders"],
        [f"{ORDERS}#x"],
        [f"{ORDERS}/"],
        [ORDERS] + [MAIL] + [f"{MAIL}/{n}" for n in range(4)],
    ):
        told = answered(await api.get("/oauth/authorize", params=_asking(shop, bad)))
        assert told["error"] == "invalid_target", bad


def _asking(party: Party, resources: list[str]) -> Any:
    asked = request_of(party.client, scope="openid orders:read mail:send")
    return [*asked.items(), *(("resource", one) for one in resources)]


async def test_a_refused_target_uses_nothing_up(
    shop: Party, member: Member, orders: ApiResource, mail: ApiResource
) -> None:
    """A code and a refresh token may be narrowed, and shown for another API they are as good as before."""
    code = await granted(shop, member, BOTH)
    await refused(await shop.redeem(code, resource="https://nobody.example"))
    narrow = await shop.redeem(code, resource=MAIL)
    answer = narrow.json()
    assert narrow.status_code == 200, narrow.text
    claims = said(answer["access_token"])
    assert (claims["aud"], claims["scope"]) == (MAIL, "mail:send offline_access openid profile shared")
    await refused(await shop.refresh(answer["refresh_token"], resource="https://nobody.example"))
    await refused(await shop.refresh(answer["refresh_token"], resource="http://localhost:8000"))
    wide = (await shop.refresh(answer["refresh_token"])).json()
    assert said(wide["access_token"])["aud"] == [ORDERS, MAIL]
    one = (await shop.refresh(wide["refresh_token"], resource=ORDERS)).json()
    assert said(one["access_token"])["aud"] == ORDERS
    assert (await Session.objects.aget()).resources == BOTH


async def test_a_grant_for_nothing_named_gives_no_api(shop: Party, member: Member, orders: ApiResource) -> None:
    """Nobody was asked about the API; our own audience may be named."""
    code = await granted(shop, member, "")
    await refused(await shop.redeem(code, resource=ORDERS))
    answer = await shop.redeem(code, resource="http://localhost:8000/")
    assert said(answer.json()["access_token"])["aud"] == "http://localhost:8000"


async def test_an_api_that_is_switched_off_gets_no_more_tokens(
    shop: Party, member: Member, orders: ApiResource
) -> None:
    """Neither by a code nor by a refresh token, and both are good once it is back."""
    tokens = await got(shop, member)
    code = await granted(shop, member)
    orders.active = False
    await orders.asave()
    await refused(await shop.redeem(code))
    await refused(await shop.refresh(tokens["refresh_token"]))
    orders.active = True
    await orders.asave()
    assert (await shop.redeem(code)).status_code == 200
    assert (await shop.refresh(tokens["refresh_token"])).status_code == 200


@pytest.mark.parametrize("path", [ME, VERIFY, USERINFO, "/api/v1/access/sessions"])
async def test_a_token_for_an_api_opens_nothing_here(
    api: httpx.AsyncClient, shop: Party, gateway: Party, member: Member, orders: ApiResource, path: str
) -> None:
    """Not even once introspection has looked at it, and with our own audience beside the API's it opens userinfo."""
    token = (await got(shop, member))["access_token"]
    for _ in range(2):
        answer = await api.get(path, headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 401
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        assert (await shop.introspect(token))["aud"] == ORDERS
    both = (await got(shop, member, f"{ORDERS} http://localhost:8000"))["access_token"]
    assert said(both)["aud"] == [ORDERS, "http://localhost:8000"]
    answer = await api.get(path, headers={"Authorization": f"Bearer {both}"})
    assert answer.status_code == {USERINFO: 200, VERIFY: 204}.get(path, 403), answer.text


async def test_a_resource_server_sees_the_tokens_for_it_alone(
    api: httpx.AsyncClient, shop: Party, gateway: Party, member: Member, orders: ApiResource, mail: ApiResource
) -> None:
    """One that is no registered API sees those for none; a client sees its own."""
    ours = await a_client(api, name="Orders API", resource_server=True, serves=[ORDERS])
    theirs = await a_client(api, name="Mail API", resource_server=True, serves=[MAIL])
    claimed = await a_client(api, name="No API", serves=[ORDERS])
    for resources, seen in ((ORDERS, [ours]), (BOTH, [ours, theirs]), ("", [gateway])):
        token = (await got(shop, member, resources))["access_token"]
        for party in (ours, theirs, gateway, claimed):
            assert await is_active(party, token) is any(one is party for one in seen), (resources, party.client.name)
        assert await is_active(shop, token)


async def test_introspection_hears_that_an_api_is_switched_off(
    shop: Party, member: Member, orders: ApiResource
) -> None:
    """Of a person's token and of a client's own, within the bound of a revocation; and that a session has ended."""
    token = (await got(shop, member))["access_token"]
    assert await is_active(shop, token)
    orders.active = False
    await orders.asave()
    assert not await is_active(shop, token)
    orders.active = True
    await orders.asave()
    assert await is_active(shop, token)
    await Session.objects.all().adelete()
    assert not await is_active(shop, token)


async def test_a_client_by_itself(
    api: httpx.AsyncClient, signing_key: str, orders: ApiResource, mail: ApiResource
) -> None:
    """It has the API's scopes alone, names as many as there are, and what it may have is read now."""
    robot = await a_client(api, grants=["client_credentials"], scopes=["orders:read", "mail:send"], redirect_uris=[])
    plain = (await robot.post(TOKEN, grant_type="client_credentials")).json()
    assert (said(plain["access_token"])["aud"], plain["scope"]) == ("http://localhost:8000", "mail:send orders:read")
    one = (await robot.post(TOKEN, grant_type="client_credentials", resource=ORDERS)).json()
    assert (said(one["access_token"])["aud"], one["scope"]) == (ORDERS, "orders:read")
    assert await is_active(robot, one["access_token"])
    await refused(await robot.post(TOKEN, grant_type="client_credentials", resource="https://nobody.example"))
    wrong = await robot.post(TOKEN, grant_type="client_credentials", resource=ORDERS, scope="mail:send")
    await refused(wrong, "invalid_scope")
    await orders.adelete()
    assert not await is_active(robot, one["access_token"])


async def test_a_restricted_client(
    api: httpx.AsyncClient, signing_key: str, member: Member, orders: ApiResource, mail: ApiResource
) -> None:
    """It gets tokens for its API without naming it, and for no other one, our own neither."""
    narrow = await a_client(api, resources=[ORDERS], trusted=True)
    page = await authorize(api, narrow.client, scope="openid orders:read")
    code = answered(await by_password(api, page, member["email"]))["code"]
    tokens = (await narrow.redeem(code)).json()
    assert said(tokens["access_token"])["aud"] == ORDERS
    for other in (MAIL, "http://localhost:8000"):
        assert answered(await authorize(api, narrow.client, resource=other))["error"] == "invalid_target"
    await refused(await narrow.redeem(await granted(narrow, member, "")))
    await refused(await narrow.redeem(await granted(narrow, member, MAIL)))
    await OAuthClient.objects.filter(pk=narrow.client.pk).aupdate(resources=[MAIL])
    await (await OAuthClient.objects.aget(pk=narrow.client.pk)).asave()
    await refused(await narrow.refresh(tokens["refresh_token"]))
    unsaid = await a_client(api, resources=[ORDERS, MAIL])
    assert answered(await authorize(api, unsaid.client))["error"] == "invalid_target"


async def test_its_algorithm_and_its_lifetime(
    api: httpx.AsyncClient, signing_key: str, rs256_key: str, shop: Party, member: Member, settings: Settings
) -> None:
    """RS256 for an API that verifies nothing else, never longer than it says, and never together with Ed25519."""
    await sync_to_async(make_api)(signing_alg="RS256", access_token_s=120)
    await sync_to_async(make_api)(MAIL, name="Mail")
    answer = await got(shop, member)
    token = answer["access_token"]
    header = await _header(token)
    assert (header["alg"], header["typ"], header["kid"]) == ("RS256", "at+jwt", rs256_key)
    assert answer["expires_in"] == 120
    assert (await shop.introspect(token))["aud"] == ORDERS
    assert (await api.get(ME, headers=bearer({"access_token": token}))).status_code == 401
    code = await granted(shop, member, BOTH)
    await refused(await shop.redeem(code))
    assert (await shop.redeem(code, resource=MAIL)).json()["expires_in"] == settings.IRONAUTH_ACCESS_TOKEN_S


async def _header(token: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(token.split(".", maxsplit=1)[0] + "=="))


async def test_a_revoked_token_ends_its_session(shop: Party, member: Member, orders: ApiResource) -> None:
    """Whichever audience it is for."""
    tokens = await got(shop, member)
    assert (await shop.post("/oauth/revoke", token=tokens["access_token"])).status_code == 200
    assert not await is_active(shop, tokens["access_token"])
    await refused(await shop.refresh(tokens["refresh_token"]), "invalid_grant")


async def test_a_pushed_request_names_several(
    api: httpx.AsyncClient, shop: Party, member: Member, orders: ApiResource, mail: ApiResource
) -> None:
    """Each comes out as it went in; a bad one is refused at once."""
    body = [*_asking(shop, [ORDERS, MAIL]), ("client_secret", shop.secret)]
    answer = await _post(api, "/oauth/par", body)
    assert answer.status_code == 201, answer.text
    handle = {"client_id": str(shop.client.pk), "request_uri": answer.json()["request_uri"]}
    page = await by_password(api, await api.get("/oauth/authorize", params=handle), member["email"])
    assert answered(await say(api, page, "allow"))["code"]
    assert (await AuthorizationCode.objects.aget()).resources == BOTH
    await refused(await _post(api, "/oauth/par", [*body, ("resource", "https://nobody.example")]))


async def _post(api: httpx.AsyncClient, path: str, pairs: list[tuple[str, str]]) -> httpx.Response:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return await api.post(path, content=urlencode(pairs), headers=headers)


async def test_a_device(api: httpx.AsyncClient, signing_key: str, member: Member, orders: ApiResource) -> None:
    """Its person reads which API it is for, and the tokens are for that one."""
    grant = "urn:ietf:params:oauth:grant-type:device_code"
    tv = await a_client(api, grants=[grant, "refresh_token"], redirect_uris=[])
    await refused(await tv.post("/oauth/device_authorization", scope="openid", resource="https://nobody.example"))
    begun = (await tv.post("/oauth/device_authorization", scope="openid orders:read mail:send", resource=ORDERS)).json()
    page = await by_password(
        api, await api.post("/oauth/device", data={"user_code": begun["user_code"]}), member["email"]
    )
    assert is_page(page, 200, "Orders", ORDERS)
    await say(api, page, "allow")
    await refused(await tv.post(TOKEN, grant_type=grant, device_code=begun["device_code"], resource=MAIL))
    answer = (await tv.post(TOKEN, grant_type=grant, device_code=begun["device_code"])).json()
    assert (said(answer["access_token"])["aud"], answer["scope"]) == (ORDERS, "openid orders:read")


EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


async def exchanged(party: Party, token: str, **parameters: str) -> httpx.Response:
    shown = {"subject_token": token, "subject_token_type": "urn:ietf:params:oauth:token-type:access_token"}
    return await party.post(TOKEN, grant_type=EXCHANGE, **shown, **parameters)


async def an_actor(api: httpx.AsyncClient, **fields: Any) -> Party:
    given = {"grants": [EXCHANGE], "redirect_uris": [], "scopes": ["openid", "orders:read", "mail:send", "shared"]}
    return await a_client(api, **{**given, **fields})


async def test_an_exchange_stays_within_the_audience(
    api: httpx.AsyncClient, shop: Party, member: Member, orders: ApiResource, mail: ApiResource
) -> None:
    """A token for an API is exchanged by that one alone, for itself; for another one only where staff say so."""
    token = (await got(shop, member))["access_token"]
    stranger = await an_actor(api, serves=[MAIL], resource_server=True)
    await refused(await exchanged(stranger, token), "invalid_request")
    server = await an_actor(api, serves=[ORDERS], resource_server=True)
    answer = (await exchanged(server, token)).json()
    claims = said(answer["access_token"])
    assert (claims["aud"], claims["scope"], claims["act"]["sub"]) == (
        ORDERS, "openid orders:read shared", str(server.client.pk),
    )  # fmt: skip
    for other in (MAIL, "http://localhost:8000", f"{ORDERS} {MAIL}", "https://nobody.example"):
        await refused(await exchanged(server, token, resource=other))
    await refused(await exchanged(server, token, audience=MAIL))
    goes_on = await an_actor(api, serves=[ORDERS], resource_server=True, resources=[MAIL])
    onward = (await exchanged(goes_on, token, resource=MAIL)).json()
    assert (said(onward["access_token"])["aud"], onward["scope"]) == (MAIL, "openid shared")
    assert await is_active(goes_on, onward["access_token"])
    told = (
        AuditEvent.objects.filter(event="token_exchanged").order_by("pk").values_list("details__resources", flat=True)
    )
    assert [one async for one in told] == [[ORDERS], [MAIL]]


async def test_an_exchange_of_our_own_audience(
    api: httpx.AsyncClient, shop: Party, member: Member, orders: ApiResource, mail: ApiResource
) -> None:
    """Such a token stands for all that its person has allowed; from several it may be narrowed."""
    actor = await an_actor(api)
    ours = (await got(shop, member, ""))["access_token"]
    plain = (await exchanged(actor, ours)).json()
    assert said(plain["access_token"])["aud"] == "http://localhost:8000"
    one = (await exchanged(actor, ours, audience=ORDERS)).json()
    assert (said(one["access_token"])["aud"], one["scope"]) == (ORDERS, "openid orders:read shared")
    await refused(await exchanged(actor, ours, resource=ORDERS, scope="mail:send"), "invalid_scope")
    holder = await a_client(api, grants=["authorization_code", EXCHANGE])
    both = (await got(holder, member, BOTH))["access_token"]
    narrow = (await exchanged(holder, both, resource=MAIL)).json()
    assert said(narrow["access_token"])["aud"] == MAIL


async def test_how_often_the_database_is_asked(
    shop: Party, member: Member, orders: ApiResource, statements: list[str]
) -> None:
    """A grant that names no API asks nothing about any; one that does, once. What was introspected before, nothing."""

    async def asked(resources: str) -> list[str]:
        code = await granted(shop, member, resources)
        statements.clear()
        assert (await shop.redeem(code)).status_code == 200
        return [one for one in statements if "apiresource" in one]

    assert await asked("") == []
    assert len(await asked(ORDERS)) == 1
    token = (await got(shop, member))["access_token"]
    assert await is_active(shop, token)
    statements.clear()
    assert await is_active(shop, token)
    assert statements == []
