"""Introspection that is asked again: the hot lane says what the view would say, before and after every change."""

import base64
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.test import override_settings
from pytest_django import Settings

from accounts.users.models import User
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.hot_lane import Question
from ironauth.tests.lanes import as_the_view, shown
from tokens.clients import units as client_units
from tokens.clients.assertion import TYPE
from tokens.clients.models import OAuthClient, OAuthClientSecret
from tokens.clients.tests.test_client_assertion import KEYS, assertion
from tokens.keys import units as key_units
from tokens.oauth.consent import units as consent_units
from tokens.oauth.models import Consent
from tokens.oauth.tests.apis import ORDERS, USERINFO, make_api
from tokens.oauth.tests.flow import INTROSPECT, REVOKE, TOKEN, Party, approve, basic
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.proofs import new_key, proof
from tokens.oauth.token import introspection
from tokens.resources.models import ApiResource
from tokens.tests.browser import ME, Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("orders")]

FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}
#: Whose token it is, and what it is for: each kind is remembered in its own way.
KINDS: Final = ("a person's", "for an API", "bound to a key", "a client's own")


@pytest.fixture
async def orders(transactional_db: None) -> ApiResource:
    """An API with scopes of its own."""
    return await sync_to_async(make_api)()


@pytest.fixture
async def shop(api: httpx.AsyncClient, signing_key: str) -> Party:
    """A client that gets tokens of every kind, and asks about them."""
    given = {"grants": ["authorization_code", "refresh_token", "client_credentials"],
             "scopes": ["email", "offline_access", "openid", "orders:read"]}  # fmt: skip
    return Party(api, *await sync_to_async(make_client)(name="Shop", **given))


@pytest.fixture
async def warehouse(api: httpx.AsyncClient, signing_key: str) -> Party:
    """The API, which asks about everybody's tokens for it, and for this server's own API."""
    given = {"resource_server": True, "serves": [ORDERS, "http://localhost:8000"]}
    return Party(api, *await sync_to_async(make_client)(name="Warehouse", **given))


async def token_of(kind: str, shop: Party, member: Member) -> str:
    """Return a token of this kind that the shop has got."""
    if kind == "a client's own":
        return str((await shop.post(TOKEN, grant_type="client_credentials")).json()["access_token"])
    user = await User.objects.aget(pk=member["id"])
    user.email_verified_at = clock.now()
    await user.asave()
    given: dict[str, Any] = {"resources": ORDERS, "scope": "openid orders:read"} if kind == "for an API" else {}
    code = await sync_to_async(approve)(shop.client, uuid.UUID(member["id"]), **given)
    headers = {"DPoP": proof(new_key(), "POST", TOKEN)} if kind == "bound to a key" else {}
    answer = await Party(shop.api, shop.client, shop.secret, headers).redeem(code)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


def part_of(token: str, number: int) -> Any:
    """Return the header or the payload."""
    text = token.split(".")[number]
    return json.loads(base64.urlsafe_b64decode(f"{text}{'=' * (-len(text) % 4)}"))


async def asked(party: Party, token: str, *, times: int = 3) -> httpx.Response:
    """Ask so often that the answer is repeated; all answers are those that the view gives."""
    return await as_the_view(lambda: party.post(INTROSPECT, token=token), times=times)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_question_asked_again_never_reaches_the_view(
    kind: str, shop: Party, warehouse: Party, member: Member, api_lane: list[str], statements: list[str]
) -> None:
    """By the token's client and by the API, however the form is written, and with the secret in the header."""
    token = await token_of(kind, shop, member)
    for party in (shop, warehouse):
        await _never_reaches_the_view(party, token, api_lane, statements)


async def _never_reaches_the_view(party: Party, token: str, api_lane: list[str], statements: list[str]) -> None:
    in_body = party.credentials()
    by_header = basic(in_body["client_id"], in_body["client_secret"])
    forms: list[tuple[dict[str, str], dict[str, str]]] = [
        ({**in_body, "token": token}, {}),
        ({"token": token, "token_type_hint": "access_token", **in_body}, {}),
        ({"token": token}, by_header),
        ({"token": token}, {**by_header, "Accept": "application/json"}),
    ]
    for data, headers in forms:
        answers = [await party.api.post(INTROSPECT, data=data, headers=headers) for _ in range(3)]
        assert answers[0].json()["active"] is True
        api_lane.clear()
        statements.clear()
        again = await party.api.post(INTROSPECT, data=data, headers=headers)
        assert (api_lane, statements) == ([], [])
        with override_settings(IRONAUTH_HOT_LANE=False):
            of_the_view = await party.api.post(INTROSPECT, data=data, headers=headers)
        assert {shown(answer)[:2] for answer in answers} == {shown(of_the_view)[:2]}
        assert shown(again) == shown(of_the_view)
        assert again.headers["x-request-id"] != of_the_view.headers["x-request-id"]


class Change:
    """What may change while answers are remembered: each method makes one change, with the product's own means."""

    def __init__(self, shop: Party, warehouse: Party, member: Member, tokens: list[str]) -> None:
        self.shop, self.warehouse, self.member, self.tokens = shop, warehouse, member, tokens

    async def _save(self, party: Party, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(party.client, name, value)
        await party.client.asave()

    async def address(self) -> None:
        user = await User.objects.aget(pk=self.member["id"])
        user.email = "somebody.else@example.com"
        await user.asave()

    async def deactivated(self) -> None:
        user = await User.objects.aget(pk=self.member["id"])
        user.is_active = False
        await user.asave()

    async def signed_out_everywhere(self) -> None:
        user = await User.objects.aget(pk=self.member["id"])
        user.session_epoch += 1
        await user.asave()

    async def revoked(self) -> None:
        for token in self.tokens:
            assert (await self.shop.post(REVOKE, token=token)).status_code == 200

    async def consent_withdrawn(self) -> None:
        given = {"user_id": uuid.UUID(self.member["id"]), "client_id": self.shop.client.pk}
        await Consent.objects.acreate(scope="openid", **given)
        assert await sync_to_async(consent_units.revoke)(**given)

    async def client_disabled(self) -> None:
        await sync_to_async(client_units.disable)(self.shop.client.pk)

    async def asker_disabled(self) -> None:
        await sync_to_async(client_units.disable)(self.warehouse.client.pk)

    async def secrets_rotated(self) -> None:
        for party in (self.shop, self.warehouse):
            await sync_to_async(client_units.rotate_secret)(party.client.pk, expire_old_in_s=0)

    async def scope_taken(self) -> None:
        await self._save(self.shop, scopes=["openid"])

    async def asker_no_api(self) -> None:
        await self._save(self.warehouse, resource_server=False)

    async def asker_another_api(self) -> None:
        await self._save(self.warehouse, serves=["https://other.example"])

    async def asker_shows_no_secret(self) -> None:
        await self._save(self.warehouse, auth_method=OAuthClient.AuthMethod.TLS)

    async def api_switched_off(self) -> None:
        orders = await ApiResource.objects.aget(identifier=ORDERS)
        orders.active = False
        await orders.asave()

    async def key_rotated(self) -> None:
        await sync_to_async(key_units.rotate)(at_once=True)

    async def key_dropped(self) -> None:
        await sync_to_async(key_units.drop)(part_of(self.tokens[0], 0)["kid"])


#: What the warehouse is told after a change: whether tokens are active, by kind where that is not all of them.
ENDS_PERSONS: Final = {"a client's own"}
STILL_ACTIVE: Final[dict[Callable[[Change], Awaitable[None]], set[str]]] = {
    Change.address: set(KINDS),
    Change.deactivated: ENDS_PERSONS,
    Change.signed_out_everywhere: ENDS_PERSONS,
    Change.revoked: set(),
    Change.consent_withdrawn: ENDS_PERSONS,
    Change.client_disabled: set(),
    Change.scope_taken: set(KINDS),
    Change.asker_no_api: set(),
    Change.asker_another_api: set(),
    Change.api_switched_off: set(KINDS) - {"for an API"},
    Change.key_rotated: set(KINDS),
    Change.key_dropped: set(),
}
REFUSED: Final = (Change.asker_disabled, Change.secrets_rotated, Change.asker_shows_no_secret)


@pytest.mark.parametrize("change", [*STILL_ACTIVE, *REFUSED], ids=lambda change: change.__name__)
async def test_after_a_change_the_answer_is_the_views(
    change: Callable[[Change], Awaitable[None]], shop: Party, warehouse: Party, member: Member
) -> None:
    """The question after any change is answered as the view answers it, and so is every later one."""
    tokens = {kind: await token_of(kind, shop, member) for kind in KINDS}
    for token in tokens.values():
        for party in (shop, warehouse):
            assert (await asked(party, token)).json()["active"] is True
    await change(Change(shop, warehouse, member, list(tokens.values())))
    for kind, token in tokens.items():
        told = await asked(warehouse, token, times=2)
        if change in REFUSED:
            assert (told.status_code, told.json()["error"]) == (401, "invalid_client"), kind
        else:
            assert told.json()["active"] is (kind in STILL_ACTIVE[change]), kind
        await asked(shop, token, times=2)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_expired_token_is_inactive(kind: str, shop: Party, member: Member) -> None:
    """In the second in which it ends, not one later."""
    token = await token_of(kind, shop, member)
    assert (await asked(shop, token)).json()["active"] is True
    left_s = part_of(token, 1)["exp"] - clock.unix()
    with clock.shifted(left_s - 0.5):
        assert (await shop.introspect(token))["active"] is True
    with clock.shifted(left_s):
        assert (await asked(shop, token)).json() == {"active": False}


async def test_a_secret_that_ends_is_refused_when_it_ends(shop: Party, member: Member) -> None:
    """Until then both secrets are remembered beside each other; the clock alone ends the older one."""
    token = await token_of("a person's", shop, member)
    await asked(shop, token)
    rotated = await sync_to_async(client_units.rotate_secret)(shop.client.pk, expire_old_in_s=60)
    new = Party(shop.api, shop.client, rotated)
    for party in (shop, new):
        assert (await asked(party, token)).json()["active"] is True
    [older] = [secret async for secret in OAuthClientSecret.objects.exclude(expires_at=None)]
    assert older.expires_at is not None
    left_s = older.expires_at.timestamp() - clock.unix()
    assert introspection.answer_to(_question(shop, token))[0] is not None
    with clock.shifted(left_s - 1):
        assert introspection.answer_to(_question(shop, token))[0] is not None
    with clock.shifted(left_s):
        assert introspection.answer_to(_question(shop, token))[0] is None
        assert (await shop.post(INTROSPECT, token=token)).status_code == 401
        assert introspection.answer_to(_question(new, token))[0] is not None


async def test_a_wrong_secret_is_refused_and_counted(
    throttled: None, shop: Party, member: Member, settings: Settings, api_lane: list[str]
) -> None:
    """Each time by the view, also where the right one is remembered; who has that is answered all the while."""
    settings.IRONAUTH_THROTTLE_BAD_REFRESHES = 2
    token = await token_of("a person's", shop, member)
    await asked(shop, token)
    wrong = Party(shop.api, shop.client, f"{shop.secret[:-1]}{'a' if shop.secret[-1] != 'a' else 'b'}")
    api_lane.clear()
    statuses = [(await wrong.post(INTROSPECT, token=token)).status_code for _ in range(4)]
    assert statuses == [401, 401, 429, 429]
    assert len(api_lane) == 4
    assert (await shop.introspect(token))["active"] is True
    assert len(api_lane) == 4


async def test_what_is_not_repeated(shop: Party, member: Member, api: httpx.AsyncClient, api_lane: list[str]) -> None:
    """A signed answer, one to a client with an assertion, one about a refresh token, one that is inactive."""
    token = await token_of("a person's", shop, member)
    await asked(shop, token)
    signed = {"Accept": "application/token-introspection+jwt"}
    data = {**shop.credentials(), "token": token}
    api_lane.clear()
    first, second = [await api.post(INTROSPECT, data=data, headers=signed) for _ in range(2)]
    assert {answer.headers["content-type"] for answer in (first, second)} == {"application/token-introspection+jwt"}
    code = await sync_to_async(approve)(shop.client, uuid.UUID(member["id"]))
    refresh_token = (await shop.redeem(code)).json()["refresh_token"]
    api_lane.clear()
    for text in (refresh_token, "x", f"{token[:-4]}AAAA"):
        for _ in range(3):
            await shop.introspect(text)
    assert len(api_lane) == 9


async def test_an_assertion_counts_once(api: httpx.AsyncClient, shop: Party, member: Member) -> None:
    """The very same bytes again are refused, as ever."""
    token = await token_of("a person's", shop, member)
    jwks = {"keys": [KEYS["ES256"].as_dict(private=False)]}
    bank, _ = await sync_to_async(make_client)(auth_method="private_key_jwt", jwks=jwks, resource_server=True)
    await asked(shop, token)
    data = {"client_assertion_type": TYPE, "client_assertion": assertion(str(bank.pk)), "token": token}
    answers = [await api.post(INTROSPECT, data=data) for _ in range(3)]
    assert answers[0].json()["active"] is True
    assert [answer.status_code for answer in answers] == [200, 401, 401]


@pytest.mark.parametrize("kind", KINDS[1:])
async def test_what_introspection_remembers_opens_nothing(
    kind: str, shop: Party, member: Member, api: httpx.AsyncClient
) -> None:
    """A token for another API, a bound one or a client's own is refused by this API after it was asked about."""
    token = await token_of(kind, shop, member)
    await asked(shop, token)
    for _ in range(3):
        for path in (ME, USERINFO):
            answer = await api.get(path, headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 401, path


async def test_the_answer_by_https_is_another(shop: Party, member: Member, settings: Settings) -> None:
    """Its head says for how long the host is asked by HTTPS alone (RFC 6797 §7.2), and that of http does not."""
    settings.SECURE_HSTS_SECONDS = 60
    token = await token_of("a person's", shop, member)
    data = {**shop.credentials(), "token": token}
    for _ in range(3):
        for scheme, says in (("http", False), ("https", True)):
            answer = await shop.api.post(f"{scheme}://testserver{INTROSPECT}", data=data)
            assert answer.json()["active"] is True
            assert ("strict-transport-security" in answer.headers) is says


async def test_unusual_requests_are_answered_alike(shop: Party, member: Member, api: httpx.AsyncClient) -> None:
    """Whatever is odd about a form, the lane gives the view's answer."""
    token = await token_of("a person's", shop, member)
    await asked(shop, token)
    given = shop.credentials()
    rest = f"&client_id={given['client_id']}&client_secret={given['client_secret']}"
    by_header = basic(given["client_id"], given["client_secret"])
    plain = f"token={token}{rest}"
    odd: dict[str, dict[str, Any]] = {
        "plain": {"content": plain, "headers": FORM},
        "token twice": {"content": f"{plain}&token={token}", "headers": FORM},
        "token twice, spelled otherwise": {"content": f"{plain}&t%6fken=x", "headers": FORM},
        "token at the end": {"content": f"{rest[1:]}&token={token}", "headers": FORM},
        "token in another parameter": {"content": f"x=token={token}{rest}", "headers": FORM},
        "longer name": {"content": f"xtoken={token}{rest}", "headers": FORM},
        "spelled otherwise": {"content": plain.replace(".", "%2E"), "headers": FORM},
        "a space behind": {"content": f"token={token}+{rest}", "headers": FORM},
        "secret twice": {"content": f"{plain}&client_secret=x", "headers": FORM},
        "two ways": {"content": plain, "headers": {**FORM, **by_header}},
        "another client's id": {"content": f"token={token}&client_id=x", "headers": {**FORM, **by_header}},
        "no secret": {"content": f"token={token}&client_id={given['client_id']}", "headers": FORM},
        "bearer": {"content": f"token={token}", "headers": {**FORM, "Authorization": f"Bearer {token}"}},
        "a cookie": {"content": plain, "headers": {**FORM, "Cookie": "a=b; a=c"}},
        "charset": {"content": plain, "headers": {"Content-Type": f"{FORM['Content-Type']};charset=utf-16"}},
        "JSON": {"content": plain, "headers": {"Content-Type": "application/json"}},
        "no type": {"content": plain},
        "no text": {"content": plain.encode() + b"&x=\xff", "headers": FORM},
        "long": {"content": f"{plain}&x={'x' * introspection.MAX_BODY}", "headers": FORM},
        "a query": {"content": plain, "headers": FORM, "params": {"token": "x"}},
        "foreign host": {"content": plain, "headers": {**FORM, "Host": "evil.example"}},
        "chunked": {"content": _parts(plain), "headers": FORM},
    }
    for name, request in odd.items():
        answers = []
        for hot in (True, True, True, False):
            if name == "chunked":
                request["content"] = _parts(plain)
            with override_settings(IRONAUTH_HOT_LANE=hot):
                answers.append(await api.post(INTROSPECT, **request))
        assert {_masked(answer) for answer in answers} == {_masked(answers[-1])}, name
    for method in ("GET", "PUT", "OPTIONS", "HEAD"):
        for hot in (True, False):
            with override_settings(IRONAUTH_HOT_LANE=hot):
                assert (await api.request(method, INTROSPECT)).status_code == (204 if method == "OPTIONS" else 405)


async def test_memory_is_bounded_and_holds_no_secret(shop: Party, member: Member, api_lane: list[str]) -> None:
    """A few questions about each token, each a digest that nobody else can make."""
    token = await token_of("a client's own", shop, member)
    for number in range(2 * introspection.MAX_QUESTIONS):
        for _ in range(2):
            await shop.post(INTROSPECT, token=token, token_type_hint=f"x{number}")
    [beside] = [entry.beside for entry in token_cache()._l1._aliases.values()]
    assert beside is not None
    assert len(beside) == introspection.MAX_QUESTIONS
    assert shop.secret not in repr(beside)
    assert token not in repr(beside)


async def test_nothing_is_kept_of_an_answer_during_which_something_ended(shop: Party, member: Member) -> None:
    """Whatever it was: the next question is asked of the view."""
    token = await token_of("a person's", shop, member)
    await shop.introspect(token)
    await shop.introspect(token)
    question = _question(shop, token)._replace(accept=b"text/plain")
    nothing, mark = introspection.answer_to(question)
    assert (nothing, mark is not None) == (None, True)
    token_cache().drop("somebody:else")
    introspection.keep(question, "answer", 6, mark or 0)
    nothing, mark = introspection.answer_to(question)
    assert nothing is None
    introspection.keep(question, "answer", 6, mark or 0)
    assert introspection.answer_to(question) == ("answer", None)


def _question(party: Party, token: str) -> Question:
    request = httpx.Request("POST", "http://testserver", data={**party.credentials(), "token": token})
    return Question(b"http", b"", b"*/*", FORM["Content-Type"].encode(), request.content)


def _masked(answer: httpx.Response) -> tuple[int, bytes]:
    """Return an answer without what names its request."""
    return answer.status_code, answer.content.replace(answer.headers["x-request-id"].encode(), b"")


async def _parts(text: str) -> Any:
    for part in (text[:50], text[50:]):
        yield part.encode()
