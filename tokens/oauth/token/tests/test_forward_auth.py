"""Forward-auth in front of a registered API: the proxy names it, and tokens for it alone pass."""

import uuid
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from conftest import bearer
from tokens.oauth.tests.apis import MAIL, ORDERS, make_api
from tokens.oauth.tests.flow import TOKEN, Party, approve
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.proofs import new_key, proof
from tokens.resources.models import ApiResource
from tokens.sessions.models import Session
from tokens.tests.browser import VERIFY, Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

OWN = "http://localhost:8000"
SCOPE = "mail:send openid orders:read"


@pytest.fixture
async def shop(api: httpx.AsyncClient, signing_key: str) -> Party:
    """A client that may have the scopes of two APIs."""
    await sync_to_async(make_api)()
    await sync_to_async(make_api)(MAIL, name="Mail", scopes=["mail:send"])
    return Party(api, *await sync_to_async(make_client)(name="Shop", scopes=SCOPE.split()))


async def token_for(party: Party, member: Member, resources: str, **sent: Any) -> str:
    """Return an access token of a grant for these APIs."""
    given: dict[str, Any] = {"resources": resources, "scope": SCOPE}
    code = await sync_to_async(approve)(party.client, uuid.UUID(member["id"]), **given)
    answer = await party.redeem(code, **sent)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


async def status(api: httpx.AsyncClient, token: str, *resources: str, **query: str) -> int:
    """Return what a proxy that names these APIs is told."""
    asked: Any = [*(("resource", one) for one in resources), *query.items()]
    answer = await api.get(VERIFY, params=asked, headers={"Authorization": f"Bearer {token}"})
    return answer.status_code


async def test_each_api_takes_its_own_tokens(api: httpx.AsyncClient, shop: Party, member: Member) -> None:
    """In any order and however often it was asked before: what is remembered for one API never serves another."""
    tokens = {name: await token_for(shop, member, name) for name in (ORDERS, MAIL, "", f"{ORDERS} {MAIL}")}
    good = {ORDERS: {ORDERS}, MAIL: {MAIL}, "": {OWN}, f"{ORDERS} {MAIL}": {ORDERS, MAIL}}
    for _ in range(3):
        for name, token in tokens.items():
            for at in (ORDERS, MAIL, OWN):
                assert await status(api, token, at) == (204 if at in good[name] else 401), (name, at)
            assert await status(api, token) == (204 if name == "" else 401), name


async def test_it_says_who_is_there(api: httpx.AsyncClient, shop: Party, member: Member) -> None:
    """The headers are the token's; a scope that it lacks is 403 with its name."""
    token = await token_for(shop, member, ORDERS)
    answer = await api.get(VERIFY, params={"resource": ORDERS}, headers={"Authorization": f"Bearer {token}"})
    assert (answer.headers["x-auth-subject"], answer.headers["x-auth-scope"]) == (member["id"], "openid orders:read")
    assert await status(api, token, ORDERS, scope="orders:read") == 204
    assert await status(api, token, ORDERS, scope="mail:send") == 403


async def test_more_than_one_is_every_one(api: httpx.AsyncClient, shop: Party, member: Member) -> None:
    """A parameter that a caller could add makes the question stricter only; one that names nothing lets nobody in."""
    one, both = await token_for(shop, member, ORDERS), await token_for(shop, member, f"{ORDERS} {MAIL}")
    assert [await status(api, token, ORDERS, MAIL) for token in (one, both)] == [401, 204]
    for bad in ("", " ", "orders", "https://nobody.example", f"{ORDERS}/", "\N{LATIN SMALL LETTER A WITH DIAERESIS}"):
        assert await status(api, one, bad) == 401, bad


@pytest.mark.parametrize("resources", [ORDERS, f"{ORDERS} {OWN}"])
async def test_what_ends_it(api: httpx.AsyncClient, shop: Party, member: Member, resources: str) -> None:
    """An API that is switched off, and a session that is over; also of a token that is for this server too."""
    token = await token_for(shop, member, resources)
    assert await status(api, token, ORDERS) == await status(api, token, ORDERS) == 204
    orders = await ApiResource.objects.aget(identifier=ORDERS)
    for active, told in ((False, 401), (True, 204)):
        orders.active = active
        await orders.asave()
        assert await status(api, token, ORDERS) == told
    session = await Session.objects.aget(client_id=str(shop.client.pk))
    await session.adelete()
    assert await status(api, token, ORDERS) == 401


async def test_our_own_pages_open_no_other_api(api: httpx.AsyncClient, shop: Party, pair: dict[str, Any]) -> None:
    """A token of somebody who signed in here is for this server; without a credential it is 401."""
    for _ in range(2):
        assert (await api.get(VERIFY, headers=bearer(pair))).status_code == 204
        assert await status(api, pair["access_token"], ORDERS) == 401
        assert await status(api, pair["access_token"], OWN) == 204
    assert (await api.get(VERIFY, params={"resource": ORDERS})).status_code == 401


async def test_only_bearers_with_a_person(api: httpx.AsyncClient, shop: Party, member: Member) -> None:
    """A client's own token, and one that is bound to a key: the proxy cannot judge the proof."""
    robot = Party(api, *await sync_to_async(make_client)(
        name="Robot", grants=["client_credentials"], scopes=["orders:read"], redirect_uris=[]))  # fmt: skip
    for resource in (ORDERS, OWN):
        own = (await robot.post(TOKEN, grant_type="client_credentials", resource=resource)).json()["access_token"]
        assert await status(api, own, resource) == 401
    key = new_key()
    code = await sync_to_async(approve)(shop.client, uuid.UUID(member["id"]), resources=ORDERS, scope=SCOPE)
    shop.headers = {"DPoP": proof(key, "POST", TOKEN)}
    bound = (await shop.redeem(code)).json()
    assert bound["token_type"] == "DPoP"
    assert await status(api, bound["access_token"], ORDERS) == 401
