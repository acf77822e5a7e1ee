"""A request for an API that names no scope (RFC 6749 §3.3), and APIs that are open to applications of strangers."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from tokens.clients.models import OAuthClient
from tokens.oauth.device.tests.test_device import BEGIN, DEVICE_CODE
from tokens.oauth.models import DeviceGrant
from tokens.oauth.tests.apis import MAIL, ORDERS, make_api
from tokens.oauth.tests.flow import Party
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.test_agents import CALLBACK, NOTES, OTHER, registered, request
from tokens.oauth.tests.walk import VERIFIER, answered, authorize, by_password, is_page, request_of, say
from tokens.oauth.token.tests.test_token_code import said
from tokens.resources.models import ApiResource
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("rs256_key")]

OWN = "http://localhost:8000"


@pytest.fixture
async def shop(api: httpx.AsyncClient, signing_key: str) -> Party:
    """A client with scopes of two APIs and the one of everything here."""
    await sync_to_async(make_api)(scopes=["orders:read", "orders:write"])
    await sync_to_async(make_api)(MAIL, name="Mail", scopes=["mail:send"])
    scopes = ["account", "openid", "orders:read", "mail:send"]
    return Party(api, *await sync_to_async(make_client)(name="Shop", scopes=scopes))


async def test_all_that_the_client_may_have_there(api: httpx.AsyncClient, shop: Party, member: Member) -> None:
    """The page lists it, the token has it, and nothing of another API or of this server."""
    page = await authorize(api, shop.client, scope=None, resource=ORDERS)
    page = await by_password(api, page, member["email"])
    assert is_page(page, 200, "Orders", "orders:read")
    assert not any(scope in page.text for scope in ("mail:send", "orders:write"))
    token = (await shop.redeem(answered(await say(api, page, "allow"))["code"])).json()
    assert (token["scope"], said(token["access_token"])["aud"]) == ("openid orders:read", ORDERS)


@pytest.mark.parametrize("changes", [{"resource": OWN}, {}, {"resource": ORDERS, "scope": "mail:send"}])
async def test_else_it_is_said(api: httpx.AsyncClient, shop: Party, changes: dict[str, str]) -> None:
    """This server's own API has rights in it that nobody asks for by silence; and an API gives what it offers."""
    answer = await authorize(api, shop.client, **{"scope": None, **changes})
    assert answered(answer)["error"] == "invalid_scope"


async def test_a_client_without_any_of_its_scopes(api: httpx.AsyncClient, shop: Party) -> None:
    """There is no default then."""
    await OAuthClient.objects.filter(pk=shop.client.pk).aupdate(scopes=["mail:send"])
    assert answered(await authorize(api, shop.client, scope=None, resource=ORDERS))["error"] == "invalid_scope"


async def test_pushed_and_by_devices(api: httpx.AsyncClient, shop: Party) -> None:
    """The same rule at the other endpoints at which requests begin."""
    asked = {k: v for k, v in request_of(shop.client, scope=None, resource=ORDERS).items() if v is not None}
    assert (await shop.post("/oauth/par", **asked)).status_code == 201
    refused = await shop.post("/oauth/par", **{k: v for k, v in asked.items() if k != "resource"})
    assert refused.json()["error"] == "invalid_scope"
    given: dict[str, Any] = {"grants": [DEVICE_CODE], "scopes": ["orders:read", "mail:send"], "redirect_uris": []}
    tv = Party(api, *await sync_to_async(make_client)(name="Cinema", **given))
    assert (await tv.post(BEGIN)).json()["error"] == "invalid_scope"
    assert (await tv.post(BEGIN, resource=ORDERS)).status_code == 200
    row = await DeviceGrant.objects.aget()
    assert (row.scope, row.resources) == ("orders:read", ORDERS)


@pytest.fixture
def notes(settings: Settings) -> ApiResource:
    """An API that is open to applications of strangers, beside one that is not and has a scope of the same name."""
    settings.IRONAUTH_REGISTRATION = "open"
    settings.IRONAUTH_REGISTRATION_SCOPES = ["openid", "offline_access"]
    ApiResource.objects.create(identifier=OTHER, name="Other", scopes=["notes:read", "other:read"])
    return ApiResource.objects.create(
        identifier=NOTES, name="Notes", scopes=["notes:read", "notes:write"], for_self_registered=True
    )


async def granted(api: httpx.AsyncClient, client: dict[str, Any], member: Member, **changes: str) -> dict[str, Any]:
    """Return the tokens that a registered application gets."""
    page = await api.get("/oauth/authorize", params=request(client, **changes))
    page = await by_password(api, page, member["email"])
    assert is_page(page, 200, "unverified application", "Notes", "notes:read")
    given = {"grant_type": "authorization_code", "client_id": client["client_id"], "redirect_uri": CALLBACK,
             "code": answered(await say(api, page, "allow"), CALLBACK)["code"], "code_verifier": VERIFIER}  # fmt: skip
    answer = await api.post("/oauth/token", data=given)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def refreshed(api: httpx.AsyncClient, client: dict[str, Any], tokens: dict[str, Any]) -> dict[str, Any]:
    """Return the next tokens."""
    sent = {"grant_type": "refresh_token", "client_id": client["client_id"], "refresh_token": tokens["refresh_token"]}
    answer = await api.post("/oauth/token", data=sent)
    return dict(answer.json())


@pytest.mark.parametrize("scope", [None, "notes:read notes:write offline_access other:read"])
async def test_an_api_that_is_open_to_strangers(
    api: httpx.AsyncClient, notes: ApiResource, member: Member, scope: str | None
) -> None:
    """Its scopes and no others, as long as it is open."""
    client = await registered(api)
    tokens = await granted(api, client, member, **({"scope": scope} if scope else {}))
    has = set(tokens["scope"].split())
    assert {"notes:read", "notes:write"} <= has
    assert "other:read" not in has
    assert said(tokens["access_token"])["aud"] == NOTES
    tokens = await refreshed(api, client, tokens)
    assert "notes:read" in tokens["scope"].split()
    notes.for_self_registered = False
    await notes.asave()
    after = await refreshed(api, client, tokens)
    assert not {"notes:read", "notes:write"} & set(after["scope"].split())


@pytest.mark.parametrize(
    ("resources", "error"),
    [([OTHER], "invalid_scope"), ([NOTES, OTHER], "invalid_scope"), ([NOTES, OWN], "invalid_scope"),
     ([OWN], "invalid_scope"), ([], "invalid_scope")],
)  # fmt: skip
async def test_at_that_api_alone(api: httpx.AsyncClient, notes: ApiResource, resources: list[str], error: str) -> None:
    """Where another API has a scope of the same name, and at this server, it is not the client's to ask for."""
    client = await registered(api)
    asked = {**request(client, scope="notes:read"), "resource": resources}
    answer = await api.get("/oauth/authorize", params=asked)
    assert answered(answer, CALLBACK)["error"] == error


async def test_closed_at_first_and_to_clients_of_staff(api: httpx.AsyncClient, notes: ApiResource, shop: Party) -> None:
    """Nothing is open unless staff say so; a client of staff has what they gave it."""
    assert answered(await authorize(api, shop.client, scope="notes:read", resource=NOTES))["error"] == "invalid_scope"
    await ApiResource.objects.filter(pk=notes.pk).aupdate(for_self_registered=False)
    client = await registered(api)
    answer = await api.get("/oauth/authorize", params=request(client, scope="notes:read"))
    assert answered(answer, CALLBACK)["error"] == "invalid_scope"


async def test_registering_with_scopes_of_an_open_api_alone(api: httpx.AsyncClient, notes: ApiResource) -> None:
    """It is accepted, since the API gives them; those of a closed one are refused."""
    given = {"client_name": "Agent", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    for scope, status in (("notes:read", 201), ("other:read", 400)):
        assert (await api.post("/oauth/register", json={**given, "scope": scope})).status_code == status
