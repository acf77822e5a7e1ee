"""Rich authorization requests (RFC 9396): what is asked for, what the person reads, what the tokens have."""

import json
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings
from structlog.testing import capture_logs

from accounts.audit.models import AuditEvent
from tokens.access.codec import MAX_TOKEN_BYTES
from tokens.clients.models import OAuthClient
from tokens.details.lists import MAX_BYTES
from tokens.details.models import DetailType
from tokens.keys import units as key_units
from tokens.keys.key_set import Family
from tokens.keys.store import key_store
from tokens.oauth.models import AuthorizationCode, Consent, DeviceGrant
from tokens.oauth.signed.tests.material import make_bank, push, request_object
from tokens.oauth.tests.apis import make_api, refused
from tokens.oauth.tests.flow import TOKEN, Party, approve
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, is_page, request_of, say
from tokens.oauth.token.tests.test_token_code import said
from tokens.sessions.models import Session
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

ERROR = "invalid_authorization_details"
PAYMENT: dict[str, Any] = {
    "words": "Pay {amount} to {creditor}",
    "members": {
        "amount": {"kind": "text", "required": True},
        "creditor": {"kind": "text", "required": True},
        "purpose": {"kind": "text"},
    },
}
PAY = {"type": "payment", "amount": "12.50 EUR", "creditor": "Zoé & Söhne"}
MORE = {**PAY, "amount": "12.51 EUR"}
READ = {"type": "statement"}
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"


def wanted(*details: dict[str, Any]) -> str:
    """Return the parameter."""
    return json.dumps(details)


@pytest.fixture
async def payment(transactional_db: None) -> DetailType:
    """A type with members that people read."""
    return await DetailType.objects.acreate(identifier="payment", **PAYMENT)


@pytest.fixture
async def statement(transactional_db: None) -> DetailType:
    """A type without members, that clients may have for themselves."""
    return await DetailType.objects.acreate(identifier="statement", words="See every statement", unattended=True)


@pytest.fixture
async def shop(api: httpx.AsyncClient, signing_key: str, payment: DetailType, statement: DetailType) -> Party:
    """A client that may ask for both."""
    return await a_client(api)


async def a_client(api: httpx.AsyncClient, **fields: Any) -> Party:
    given = {"name": "Shop", "authorization_details_types": ["payment", "statement"], **fields}
    return Party(api, *await sync_to_async(make_client)(**given))


async def granted(party: Party, member: Member, *details: dict[str, Any], **changes: Any) -> str:
    """Return a code for these details."""
    text = json.dumps(details, separators=(",", ":"), sort_keys=True, ensure_ascii=False) if details else ""
    given = {"details": text, "scope": "openid offline_access", **changes}
    return str(await sync_to_async(approve)(party.client, uuid.UUID(member["id"]), **given))


async def got(answer: httpx.Response) -> Any:
    """Return an answer's token response."""
    assert answer.status_code == 200, answer.text
    return answer.json()


async def told(party: Party, answer: Any) -> list[Any]:
    """Return the details of a token response, of its token and of the token's introspection, which agree."""
    found = answer.get("authorization_details", [])
    assert said(answer["access_token"]).get("authorization_details", []) == found
    assert (await party.introspect(answer["access_token"])).get("authorization_details", []) == found
    return list(found)


async def test_the_person_reads_it_and_the_token_has_it(api: httpx.AsyncClient, member: Member, shop: Party) -> None:
    """In words, escaped and set apart; the answer, the token and its introspection have it, the trail its type."""
    details = [{**PAY, "creditor": "<b>Zoé</b>", "purpose": "Rent"}, READ]
    page = await authorize(api, shop.client, authorization_details=wanted(*details))
    page = await by_password(api, page, member["email"])
    assert is_page(
        page, 200, "Pay <strong><bdi>12.50 EUR</bdi></strong> to <strong><bdi>&lt;b&gt;Zoé&lt;/b&gt;</bdi></strong>",
        '<span class="soft">purpose:</span> <strong><bdi>Rent</bdi></strong>', "See every statement", "filled in by",
    )  # fmt: skip
    code = answered(await say(api, page, "allow"))["code"]
    answer = await got(await shop.redeem(code))
    assert await told(shop, answer) == sorted(details, key=lambda one: one["type"])
    event = await AuditEvent.objects.aget(event="consent_given")
    assert event.details["authorization_details"] == ["payment", "statement"]
    assert "12.50" not in json.dumps(event.details)


@pytest.mark.parametrize("left_out", ["", "asked_for.html", "words"])
async def test_a_page_of_ones_own_that_leaves_them_out_asks_nobody(
    api: httpx.AsyncClient, member: Member, shop: Party, settings: Settings, tmp_path: Path, left_out: str
) -> None:
    """Nobody can allow what is not shown, a part of it either; a page with all of it is as good as ours."""
    shown = {
        "": '{% include "tokens/oauth/asked_for.html" %}',
        "asked_for.html": "",
        "words": "{% for one in details %}{% for name, it in one.rest %}{{ name }} {{ it }}{% endfor %}{% endfor %}",
    }[left_out]
    form = "{% include 'tokens/oauth/decision.html' %}"
    own = "{% extends 'tokens/oauth/base.html' %}{% block content %}" + shown + form + "{% endblock %}"
    (tmp_path / "tokens" / "oauth").mkdir(parents=True)
    (tmp_path / "tokens" / "oauth" / "consent.html").write_text(own)
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [str(tmp_path)]}]
    first = await authorize(api, shop.client, authorization_details=wanted({**PAY, "purpose": "Rent & heat"}))
    if left_out:
        with capture_logs() as lines:
            page = await by_password(api, first, member["email"])
        assert (page.status_code, "Allow" in page.text) == (500, False)
        assert "asked_for.html" in str(lines)
        return
    page = await by_password(api, first, member["email"])
    assert answered(await say(api, page, "allow"))["code"]


async def test_details_without_a_scope(api: httpx.AsyncClient, member: Member, shop: Party) -> None:
    """Details alone are enough, and give no scope; without either the request is refused as before."""
    page = await authorize(api, shop.client, scope=None, authorization_details=wanted(PAY))
    page = await by_password(api, page, member["email"])
    assert is_page(page, 200, "12.50 EUR")
    answer = await got(await shop.redeem(answered(await say(api, page, "allow"))["code"]))
    assert (answer["scope"], await told(shop, answer)) == ("", [PAY])
    assert answered(await authorize(api, shop.client, scope=None))["error"] == "invalid_scope"


async def test_people_are_asked_each_time(api: httpx.AsyncClient, member: Member, shop: Party) -> None:
    """Remembered consent covers no details, not even the same, and of trusted clients neither; silently nothing."""
    page = await authorize(api, shop.client, authorization_details=wanted(PAY))
    page = await by_password(api, page, member["email"])
    assert answered(await say(api, page, "allow"))["code"]
    assert answered(await authorize(api, shop.client))["code"]  # the scope is remembered
    for one in (PAY, MORE):
        assert is_page(await authorize(api, shop.client, authorization_details=wanted(one)), 200, one["amount"])
    silent = await authorize(api, shop.client, authorization_details=wanted(PAY), prompt="none")
    assert answered(silent)["error"] == "consent_required"
    ours = await a_client(api, name="Ours", trusted=True)
    assert answered(await authorize(api, ours.client))["code"]
    asked = await authorize(api, ours.client, authorization_details=wanted(PAY))
    assert is_page(asked, 200, "Pay ")
    assert answered(await say(api, asked, "allow"))["code"]
    assert await Consent.objects.filter(client=ours.client).acount() == 1
    assert answered(await say(api, page, "deny"))["error"] == "access_denied"


BAD = {
    "unknown type": wanted({"type": "nobody"}),
    "of another case": wanted({**PAY, "type": "Payment"}),
    "NUL in the type": wanted({**PAY, "type": "pay\x00"}),
    "empty list": "[]",
    "object": json.dumps(PAY),
    "text": "payment",
    "no JSON": "[{",
    "twice": '[{"type":"payment","amount":"1","creditor":"x","amount":"2"}]',
    "nested": wanted({**PAY, "purpose": [[[[[]]]]]}),
    "a member lacks": wanted({"type": "payment", "amount": "1"}),
    "another member": wanted({**PAY, "iban": "DE02"}),
    "a number": wanted({**PAY, "amount": 12.5}),
    "null": wanted({**PAY, "amount": None}),
    "turned around": wanted({**PAY, "creditor": "Zoé\u202e"}),
    "one good, one bad": wanted(READ, {"type": "nobody"}),
    "six": wanted(*({**PAY, "amount": str(n)} for n in range(6))),
    "long": wanted(*({**PAY, "purpose": str(n) + "x" * 198} for n in range(5))),
}


@pytest.mark.parametrize("case", BAD)
async def test_what_is_refused(api: httpx.AsyncClient, shop: Party, case: str) -> None:
    """By its own error, at the client's address, when it is pushed, and where a device or a client itself asks."""
    asked = await authorize(api, shop.client, authorization_details=BAD[case])
    assert answered(asked)["error"] == ERROR
    assert "Zo" not in answered(asked)["error_description"]
    pushed = await shop.post("/oauth/par", **request_of(shop.client, authorization_details=BAD[case]))
    await refused(pushed, ERROR)
    await OAuthClient.objects.filter(pk=shop.client.pk).aupdate(grants=[DEVICE_CODE, "client_credentials"])
    other = await a_client(api, name="Other", grants=[DEVICE_CODE, "client_credentials"])
    await refused(await other.post("/oauth/device_authorization", authorization_details=BAD[case]), ERROR)
    await refused(await other.post(TOKEN, grant_type="client_credentials", authorization_details=BAD[case]), ERROR)


async def test_a_type_of_another_client(api: httpx.AsyncClient, shop: Party, statement: DetailType) -> None:
    """It is refused as one that nobody has registered; switched off, or not registered at all, likewise."""
    other = await a_client(api, name="Other", authorization_details_types=["statement"])
    none = await a_client(api, name="None", authorization_details_types=[])
    refusals = [
        answered(await authorize(api, one.client, authorization_details=wanted(detail)))
        for one, detail in ((other, PAY), (none, PAY), (shop, {"type": "nobody"}))
    ]
    assert {(one["error"], one["error_description"]) for one in refusals} == {(ERROR, refusals[0]["error_description"])}
    assert "code" not in refusals[0]
    await sync_to_async(_switch_off)(statement)
    assert answered(await authorize(api, other.client, authorization_details=wanted(READ)))["error"] == ERROR


def _switch_off(row: DetailType) -> None:
    row.active = False
    row.save()


async def test_100_kb_are_refused(api: httpx.AsyncClient, shop: Party, member: Member) -> None:
    """Everywhere with a refusal of the client: no page and no token comes of it."""
    text = wanted({**PAY, "purpose": "x" * 100_000})
    asked = request_of(shop.client, authorization_details=text)
    assert (await api.post("/oauth/authorize", data=asked)).status_code == 413
    assert (await authorize(api, shop.client, authorization_details=text[:9_000])).status_code == 414
    code = await granted(shop, member, PAY)
    for answer in (
        await shop.post("/oauth/par", **request_of(shop.client, authorization_details=text)),
        await shop.redeem(code, authorization_details=text),
    ):
        assert answer.status_code in (400, 413), answer.text
    assert await told(shop, await got(await shop.redeem(code))) == [PAY]


async def test_twice_is_malformed(api: httpx.AsyncClient, shop: Party) -> None:
    """The parameter is sent once."""
    asked: Any = [*request_of(shop.client).items(), *(("authorization_details", wanted(READ)),) * 2]
    assert answered(await api.get("/oauth/authorize", params=asked))["error"] == "invalid_request"


async def test_less_but_never_more_at_the_token_endpoint(shop: Party, member: Member) -> None:
    """A code and a refresh token give whole objects that were granted; another one refuses, and uses nothing up."""
    code = await granted(shop, member, PAY, READ)
    for more in (wanted(MORE), wanted(PAY, MORE), wanted({**PAY, "purpose": "Rent"}), wanted({"type": "nobody"})):
        await refused(await shop.redeem(code, authorization_details=more), ERROR)
    await refused(await shop.redeem(code, authorization_details="[{"), ERROR)
    answer = await got(await shop.redeem(code, authorization_details=wanted(PAY)))
    assert await told(shop, answer) == [PAY]
    refresh = answer["refresh_token"]
    assert (await shop.introspect(refresh))["authorization_details"] == [PAY, READ]
    await refused(await shop.refresh(refresh, authorization_details=wanted(MORE)), ERROR)
    answer = await got(await shop.refresh(refresh))
    assert await told(shop, answer) == [PAY, READ]
    answer = await got(await shop.refresh(answer["refresh_token"], authorization_details=wanted(READ)))
    assert await told(shop, answer) == [READ]
    assert json.loads((await Session.objects.aget()).details) == [PAY, READ]


async def test_a_grant_without_details_gives_none(shop: Party, member: Member) -> None:
    """Nobody was asked about any: the token endpoint is not where one asks."""
    code = await granted(shop, member)
    await refused(await shop.redeem(code, authorization_details=wanted(READ)), ERROR)
    answer = await got(await shop.redeem(code))
    assert "authorization_details" not in answer
    assert await told(shop, answer) == []
    await refused(await shop.refresh(answer["refresh_token"], authorization_details=wanted(READ)), ERROR)


async def test_what_staff_have_taken_is_left_out(shop: Party, member: Member, statement: DetailType) -> None:
    """A type that is switched off, or not the client's any more, is in no new token; asked for, it is refused."""
    code = await granted(shop, member, PAY, READ)
    answer = await got(await shop.redeem(code))
    await sync_to_async(_switch_off)(statement)
    answer = await got(await shop.refresh(answer["refresh_token"]))
    assert await told(shop, answer) == [PAY]
    await refused(await shop.refresh(answer["refresh_token"], authorization_details=wanted(READ)), ERROR)
    shop.client.authorization_details_types = []
    await shop.client.asave()
    answer = await got(await shop.refresh(answer["refresh_token"]))
    assert await told(shop, answer) == []
    assert "authorization_details" not in await shop.introspect(answer["refresh_token"])


async def test_a_pushed_request_keeps_what_was_pushed(api: httpx.AsyncClient, member: Member, shop: Party) -> None:
    """Parameters beside the handle change nothing, and the token endpoint gives what the person has read."""
    pushed = await shop.post("/oauth/par", **request_of(shop.client, authorization_details=wanted(PAY)))
    handle = pushed.json()["request_uri"]
    asked = {"client_id": str(shop.client.pk), "request_uri": handle, "authorization_details": wanted(MORE)}
    page = await by_password(api, await api.get("/oauth/authorize", params=asked), member["email"])
    assert is_page(page, 200, "12.50 EUR")
    assert "12.51" not in page.text
    code = answered(await say(api, page, "allow"))["code"]
    await refused(await shop.redeem(code, authorization_details=wanted(MORE)), ERROR)
    assert await told(shop, await got(await shop.redeem(code))) == [PAY]


async def test_a_page_opened_before_a_type_was_taken(api: httpx.AsyncClient, member: Member, shop: Party) -> None:
    """A yes to it comes to nothing."""
    page = await authorize(api, shop.client, authorization_details=wanted(PAY))
    page = await by_password(api, page, member["email"])
    shop.client.authorization_details_types = ["statement"]
    await shop.client.asave()
    assert is_page(await say(api, page, "allow"), 400, "expired")
    assert not await AuthorizationCode.objects.aexists()


async def test_in_a_request_object(api: httpx.AsyncClient, payment: DetailType, signing_key: str) -> None:
    """As JSON, not as a text (RFC 9396 §2); a list that mixes kinds is refused as an object is."""
    bank = await sync_to_async(make_bank)(authorization_details_types=["payment"])
    good = await push(api, bank, request_object(bank, authorization_details=[PAY]))
    assert good.status_code == 201, good.text
    await refused(await push(api, bank, request_object(bank, authorization_details=[MORE, READ])), ERROR)
    for bad in ([PAY, "text"], [1], []):
        await refused(await push(api, bank, request_object(bank, authorization_details=bad)), "invalid_request_object")


async def test_a_client_for_itself(
    api: httpx.AsyncClient, payment: DetailType, statement: DetailType, signing_key: str
) -> None:
    """Only types that need no person; with details and no scope it has the details alone."""
    robot = await a_client(api, grants=["client_credentials"], scopes=["reports"])
    answer = await got(await robot.post(TOKEN, grant_type="client_credentials", authorization_details=wanted(READ)))
    assert (answer["scope"], await told(robot, answer)) == ("", [READ])
    both = {"scope": "reports", "authorization_details": wanted(READ)}
    assert (await got(await robot.post(TOKEN, grant_type="client_credentials", **both)))["scope"] == "reports"
    plain = await got(await robot.post(TOKEN, grant_type="client_credentials"))
    assert (plain["scope"], await told(robot, plain)) == ("reports", [])
    for bad in (wanted(PAY), wanted(READ, PAY)):
        await refused(await robot.post(TOKEN, grant_type="client_credentials", authorization_details=bad), ERROR)


async def test_on_a_device(api: httpx.AsyncClient, member: Member, payment: DetailType, signing_key: str) -> None:
    """The page of its code says them in words; the device gets what was allowed, less where it asks for less."""
    given = {"redirect_uris": [], "grants": [DEVICE_CODE, "refresh_token"], "trusted": True}
    tv = await a_client(api, **given)
    begun = await got(
        await tv.post("/oauth/device_authorization", scope="openid", authorization_details=wanted(PAY, MORE))
    )
    page = await api.post("/oauth/device", data={"user_code": begun["user_code"]})
    page = await by_password(api, page, member["email"])
    assert is_page(page, 200, "Pay <strong><bdi>12.50 EUR</bdi></strong>", "12.51 EUR")
    await say(api, page, "allow")
    poll = {"grant_type": DEVICE_CODE, "device_code": begun["device_code"]}
    await refused(await tv.post(TOKEN, **poll, authorization_details=wanted(READ)), ERROR)
    answer = await got(await tv.post(TOKEN, **poll, authorization_details=wanted(MORE)))
    assert await told(tv, answer) == [MORE]
    assert json.loads((await DeviceGrant.objects.aget()).details) == [PAY, MORE]
    event = await AuditEvent.objects.aget(event="consent_given")
    assert event.details["authorization_details"] == ["payment"]


async def test_nothing_is_passed_on(api: httpx.AsyncClient, shop: Party, member: Member) -> None:
    """A token got in exchange has none, and asking for some is refused."""
    shown = (await got(await shop.redeem(await granted(shop, member, PAY))))["access_token"]
    exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
    backend = await a_client(api, name="Backend", grants=[exchange])
    given = {
        "grant_type": exchange, "subject_token": shown,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }  # fmt: skip
    answer = await got(await backend.post(TOKEN, **given))
    assert "authorization_details" not in said(answer["access_token"])
    await refused(await backend.post(TOKEN, **given, authorization_details=wanted(PAY)), ERROR)


async def test_the_longest_token_is_read(
    api: httpx.AsyncClient, member: Member, payment: DetailType, signing_key: str
) -> None:
    """With the longest list, scope and audiences, signed by RSA, it stays below the bound of every token."""
    await sync_to_async(key_units.create_first_keys)(Family.RS256)
    key_store().forget()
    words = [f"{n}{'s' * 63}" for n in range(3)]
    names = [f"https://{n}.example/{'a' * 182}" for n in range(5)]
    for name in names:
        await sync_to_async(make_api)(name, scopes=words, signing_alg="RS256")
    scopes = [*words, "offline_access", "openid", "profile", "email", "roles"]
    party = await a_client(api, scopes=scopes)
    details = [{**PAY, "creditor": f"{n}ü", "purpose": "x" * 129} for n in range(5)]
    code = await granted(party, member, *details, scope=" ".join(sorted(scopes)), resources=" ".join(names))
    assert MAX_BYTES - 5 < len((await AuthorizationCode.objects.aget()).details.encode()) <= MAX_BYTES
    token = (await got(await party.redeem(code)))["access_token"]
    assert MAX_TOKEN_BYTES - 600 < len(token) < MAX_TOKEN_BYTES
    assert len(said(token)["aud"]) == 5
    assert (await party.introspect(token))["active"]


async def test_metadata(api: httpx.AsyncClient, signing_key: str, transactional_db: None) -> None:
    """The types that are registered and active; nothing at all without one."""
    member = "authorization_details_types_supported"
    assert member not in (await api.get("/.well-known/openid-configuration")).json()
    row = await DetailType.objects.acreate(identifier="payment", **PAYMENT)
    for path in ("openid-configuration", "oauth-authorization-server"):
        assert (await api.get(f"/.well-known/{path}")).json()[member] == ["payment"]
    await sync_to_async(_switch_off)(row)
    assert member not in (await api.get("/.well-known/openid-configuration")).json()


@pytest.mark.parametrize("left_out", [False, True])
async def test_a_page_of_ones_own_on_a_device(
    api: httpx.AsyncClient, member: Member, shop: Party, settings: Settings, tmp_path: Path, left_out: bool
) -> None:
    """The same holds for the page of a device's code."""
    shown = "" if left_out else '{% include "tokens/oauth/asked_for.html" %}'
    own = "{% extends 'tokens/oauth/base.html' %}{% block content %}Our page." + shown + "{% endblock %}"
    (tmp_path / "tokens" / "oauth").mkdir(parents=True)
    (tmp_path / "tokens" / "oauth" / "device_confirm.html").write_text(own)
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [str(tmp_path)]}]
    tv = await a_client(api, name="TV", redirect_uris=[], grants=[DEVICE_CODE, "refresh_token"], trusted=True)
    asked = {"scope": "openid", "authorization_details": wanted(PAY)}
    begun = await got(await tv.post("/oauth/device_authorization", **asked))
    first = await api.post("/oauth/device", data={"user_code": begun["user_code"]})
    with capture_logs() as lines:
        page = await by_password(api, first, member["email"])
    assert (page.status_code, "Our page." in page.text) == ((500, False) if left_out else (200, True))
    assert ("tokens/oauth/device_confirm.html" in str(lines)) is left_out
