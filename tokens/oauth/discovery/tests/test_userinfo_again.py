"""Userinfo that is asked again: the hot lane says what the view would say, before and after every change."""

from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import UUID

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group

from accounts.users.models import User
from conftest import bearer
from ironauth.infrastructure.core import clock
from ironauth.tests.lanes import as_the_view
from tokens.access.credentials import access_name
from tokens.clients import units as client_units
from tokens.clients.models import OAuthClient
from tokens.keys import units as key_units
from tokens.keys.models import SigningKey
from tokens.oauth.consent import units as consent_units
from tokens.oauth.models import Consent
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.sessions import access_token
from tokens.sessions.models import Session
from tokens.tests.browser import ME, Member, Pair

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

USERINFO: Final = "/oauth/userinfo"
SCOPE: Final = "openid profile email roles"


@pytest.fixture
async def client(signing_key: str) -> OAuthClient:
    """A client that may know everything."""
    return (await sync_to_async(make_client)(scopes=SCOPE.split()))[0]


@pytest.fixture
async def token(client: OAuthClient, member: Member) -> str:
    """What it got for the member."""
    return await access_token(client, UUID(member["id"]), SCOPE)


async def asked(api: httpx.AsyncClient, **request: Any) -> httpx.Response:
    """Ask so often that the answer is repeated; all answers are those that the view gives."""
    given = {"method": "GET", "url": USERINFO, **request}
    return await as_the_view(lambda: api.request(**given))


async def test_a_known_token_never_reaches_the_view(
    api: httpx.AsyncClient, token: str, member: Member, api_lane: list[str], statements: list[str]
) -> None:
    """The answer is the view's to the byte, with a request id of its own."""
    first = await asked(api, headers={"Authorization": f"Bearer {token}"})
    assert (first.status_code, first.json()["email"]) == (200, member["email"])
    api_lane.clear()
    statements.clear()
    again = await api.get(USERINFO, headers={"Authorization": f"Bearer {token}", "X-Request-ID": "mine"})
    assert (again.content, again.headers["x-request-id"]) == (first.content, "mine")
    assert (api_lane, statements) == ([], [])


async def test_unusual_requests_are_answered_alike(api: httpx.AsyncClient, token: str, pair: Pair) -> None:
    """A cookie is no credential here, a form is read, and a token without the scope openid tells nobody."""
    good = {"Authorization": f"Bearer {token}"}
    cookie = {"Cookie": f"{access_name()}={pair['access_token']}"}
    assert (await asked(api, headers=good)).status_code == 200
    await asked(api, url=ME, headers=cookie)
    for request, status in (
        ({"headers": cookie}, 401),
        ({"headers": {"Cookie": f"{access_name()}={token}"}}, 401),
        ({"headers": {**good, **cookie}}, 200),
        ({"headers": {**good, "Cookie": "a=b; a=c"}}, 200),
        ({"headers": bearer(pair)}, 403),
        ({"headers": good, "params": {"scope": "none"}}, 200),
        ({"headers": good, "params": {"access_token": "x"}}, 200),
        ({"headers": {**good, "Origin": "https://app.example"}}, 200),
        ({"headers": {**good, "Accept": "application/jwt"}}, 200),
        ({"headers": {"Authorization": f"DPoP {token}"}}, 401),
        ({"headers": {"Authorization": f"Bearer {token}, Bearer {token}"}}, 400),
        ({"method": "POST", "data": {"access_token": token}}, 200),
        ({"method": "POST", "headers": good}, 200),
        ({"method": "HEAD", "headers": good}, 200),
        ({"method": "PUT", "headers": good}, 405),
    ):
        assert (await asked(api, **request)).status_code == status, request


async def test_signed_answers_are_not_repeated(
    api: httpx.AsyncClient, client: OAuthClient, token: str, rs256_key: str, api_lane: list[str]
) -> None:
    """A client that changes to signed ones gets them at once, each from the view: their key may be dropped."""
    headers = {"Authorization": f"Bearer {token}"}
    assert (await asked(api, headers=headers)).headers["content-type"] == "application/json"
    client.userinfo_signed_response_alg = "RS256"
    await sync_to_async(client.save)()
    api_lane.clear()
    for _ in range(3):
        answer = await api.get(USERINFO, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/jwt")
    assert api_lane == [USERINFO] * 3


class Change:
    """What may change while the answer is remembered, made with the product's own means."""

    def __init__(self, api: httpx.AsyncClient, client: OAuthClient, member: Member, pair: Pair) -> None:
        self.api, self.client, self.member, self.pair = api, client, member, pair

    async def name(self) -> None:
        assert (await self.api.patch(ME, json={"name": "Mia Two"}, headers=bearer(self.pair))).status_code == 200

    async def address_proved(self) -> None:
        user = await User.objects.aget(pk=self.member["id"])
        user.email_verified_at = clock.now()
        await user.asave()

    async def role(self) -> None:
        user = await User.objects.aget(pk=self.member["id"])
        await user.groups.aadd(await Group.objects.acreate(name="editors"))

    async def scope_taken(self) -> None:
        self.client.scopes = ["openid"]
        await self.client.asave()

    async def signed_out_everywhere(self) -> None:
        answer = await self.api.post("/api/v1/access/logout-all", headers=bearer(self.pair))
        assert answer.status_code == 204

    async def session_deleted(self) -> None:
        await Session.objects.filter(client_id=self.client.pk).adelete()

    async def consent_withdrawn(self) -> None:
        given = {"user_id": UUID(self.member["id"]), "client_id": self.client.pk}
        await Consent.objects.acreate(scope="openid", **given)
        assert await sync_to_async(consent_units.revoke)(**given)

    async def deactivated(self) -> None:
        user = await User.objects.aget(pk=self.member["id"])
        user.is_active = False
        await user.asave()

    async def client_disabled(self) -> None:
        await sync_to_async(client_units.disable)(self.client.pk)

    async def key_dropped(self) -> None:
        kid = await SigningKey.objects.values_list("kid", flat=True).aget(state=SigningKey.State.ACTIVE)
        await sync_to_async(key_units.drop)(kid)


TOLD: Final[dict[Callable[[Change], Awaitable[None]], tuple[int, dict[str, Any]]]] = {
    Change.name: (200, {"name": "Mia Two"}),
    Change.address_proved: (200, {"email_verified": True}),
    Change.role: (200, {"roles": ["editors"]}),
    Change.scope_taken: (200, {}),
    Change.signed_out_everywhere: (401, {"error": "invalid_token"}),
    Change.session_deleted: (401, {"error": "invalid_token"}),
    Change.consent_withdrawn: (401, {"error": "invalid_token"}),
    Change.deactivated: (401, {"error": "invalid_token"}),
    Change.client_disabled: (401, {"error": "invalid_token"}),
    Change.key_dropped: (401, {"error": "invalid_token"}),
}


@pytest.mark.parametrize("change", TOLD, ids=lambda change: change.__name__)
async def test_after_a_change_the_answer_is_the_views(
    change: Callable[[Change], Awaitable[None]],
    api: httpx.AsyncClient,
    client: OAuthClient,
    token: str,
    member: Member,
    pair: Pair,
) -> None:
    """The question after any change is answered as the view answers it, and so is every later one."""
    headers = {"Authorization": f"Bearer {token}"}
    before = (await asked(api, headers=headers)).json()
    status, said = TOLD[change]
    assert {name: before.get(name) for name in said} != said or not said
    await change(Change(api, client, member, pair))
    after = await asked(api, headers=headers)
    assert after.status_code == status
    assert {name: after.json()[name] for name in said} == said


async def test_an_expired_token_is_refused(api: httpx.AsyncClient, token: str) -> None:
    """After the ten minutes that it lives, whatever is remembered."""
    headers = {"Authorization": f"Bearer {token}"}
    assert (await asked(api, headers=headers)).status_code == 200
    with clock.shifted(601):
        assert (await asked(api, headers=headers)).status_code == 401
