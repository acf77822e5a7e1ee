"""Clients that their document describes, from the first request to the end: asked about, stored, changed, ended."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from conftest import PASSWORD, bearer
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from tokens.access import codec
from tokens.clients import units as client_units
from tokens.clients.documents import addresses, fetching
from tokens.clients.documents import services as documents
from tokens.clients.documents.errors import DocumentRefused
from tokens.clients.documents.fetching import Document
from tokens.clients.fetched.fetching import Answer
from tokens.clients.models import OAuthClient
from tokens.oauth.models import Consent
from tokens.oauth.tests.walk import AUTHORIZE, CHALLENGE, VERIFIER, answered, by_password, is_page, say
from tokens.sessions.models import Session
from tokens.tests.browser import SIGNIN, Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("rs256_key")]

URL = "https://agent.example.com/client.json"
CALLBACK = "https://agent.example.com/cb"
SAID: dict[str, Any] = {
    "client_id": URL,
    "client_name": "Agent Smith",
    "redirect_uris": [CALLBACK, "http://127.0.0.1/cb"],
    "grant_types": ["authorization_code", "refresh_token"],
    "token_endpoint_auth_method": "none",
}


class Web:
    """What the documents' servers answer, and how often they are asked."""

    def __init__(self) -> None:
        self.documents: dict[str, dict[str, Any]] = {URL: dict(SAID)}
        self.keep_s = 3_600.0
        self.asked: list[str] = []
        self.known: list[bool] = []

    async def fetch(self, url: str, *, known: bool) -> Document:
        """Answer as ``fetching.fetch`` does."""
        self.asked.append(url)
        self.known.append(known)
        await asyncio.sleep(0)
        if url not in self.documents:
            raise DocumentRefused("status 404")
        body = json.dumps(self.documents[url]).encode()
        return Document(fetching.document_of(url, Answer(body, "application/json", 60)), self.keep_s)


@pytest.fixture
def web(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Web:
    """Documents switched on."""
    settings.IRONAUTH_CLIENT_DOCUMENTS = True
    found = Web()
    monkeypatch.setattr(fetching, "fetch", found.fetch)
    return found


def request(**changes: str | None) -> dict[str, str]:
    asked = {
        "client_id": URL, "redirect_uri": CALLBACK, "response_type": "code", "scope": "openid profile offline_access",
        "state": "s", "code_challenge": CHALLENGE, "code_challenge_method": "S256", **changes,
    }  # fmt: skip
    return {name: value for name, value in asked.items() if value is not None}


async def consent_page(api: httpx.AsyncClient, member: Member, **changes: str | None) -> httpx.Response:
    """Sign the member in on the way, and return the page that asks them."""
    page = await by_password(api, await api.get(AUTHORIZE, params=request(**changes)), member["email"])
    assert is_page(page, 200, "Agent Smith"), page.text
    return page


async def redeemed(api: httpx.AsyncClient, answer: httpx.Response, uri: str = CALLBACK) -> httpx.Response:
    code = answered(answer, uri)["code"]
    return await api.post("/oauth/token", data={"grant_type": "authorization_code", "code": code, "client_id": URL,
                                                "redirect_uri": uri, "code_verifier": VERIFIER})  # fmt: skip


async def test_off(
    api: httpx.AsyncClient, settings: Settings, signing_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it begins: no request goes out, and the metadata say nothing of it."""
    found = Web()
    monkeypatch.setattr(fetching, "fetch", found.fetch)
    assert is_page(await api.get(AUTHORIZE, params=request()), 400, "not known here")
    assert not found.asked
    assert "client_id_metadata_document_supported" not in (await api.get("/.well-known/openid-configuration")).json()


async def test_discovery(api: httpx.AsyncClient, web: Web, signing_key: str) -> None:
    """The metadata say that such clients are taken."""
    said = (await api.get("/.well-known/oauth-authorization-server")).json()
    assert said["client_id_metadata_document_supported"] is True


async def test_from_the_first_request_to_the_end(api: httpx.AsyncClient, web: Web, member: Member) -> None:
    """Nothing is stored before the person allows it; then they see it, its tokens work, and they end it."""
    page = await consent_page(api, member)
    assert is_page(page, 200, "<strong>agent.example.com</strong>", "unverified application", "has checked who made it")
    assert await OAuthClient.objects.acount() == 0
    tokens = (await redeemed(api, await say(api, page, "allow"))).json()
    row = await OAuthClient.objects.aget()
    assert (row.pk, row.document_url, row.origin, row.is_unverified) == (addresses.id_of(URL), URL, "document", True)
    assert codec.payload_of(tokens["id_token"])["aud"] == URL
    event = await AuditEvent.objects.aget(event="client_registered")
    assert event.details["document"] == URL
    again = await api.post("/oauth/token", data={"grant_type": "refresh_token", "client_id": URL,
                                                 "refresh_token": tokens["refresh_token"]})  # fmt: skip
    assert again.status_code == 200, again.text
    headers = {"Authorization": f"Bearer {again.json()['access_token']}"}
    assert (await api.get("/oauth/userinfo", headers=headers)).status_code == 200
    assert await Consent.objects.filter(client=row).acount() == 1
    assert web.asked == [URL]
    await sync_to_async(client_units.disable)(row.pk)
    assert is_page(await api.get(AUTHORIZE, params=request()), 400, "not known here")
    late = await api.post("/oauth/token", data={"grant_type": "refresh_token", "client_id": URL,
                                                "refresh_token": again.json()["refresh_token"]})  # fmt: skip
    assert (late.status_code, late.json()["error"]) == (401, "invalid_client")


async def test_opening_pages_stores_nothing(api: httpx.AsyncClient, web: Web, signing_key: str) -> None:
    """A thousand addresses that strangers invent leave no row, whether they have a document or not."""
    for at in range(20):
        url = f"https://agent.example.com/{at}.json"
        if at % 2:
            web.documents[url] = {**SAID, "client_id": url}
        await api.get(AUTHORIZE, params=request(client_id=url))
    assert len(web.asked) == 20
    assert await OAuthClient.objects.acount() == 0


async def test_asked_again_each_time(api: httpx.AsyncClient, web: Web, member: Member) -> None:
    """What was allowed before does not skip the page of an unverified client; one that staff have verified, it does."""
    await say(api, await consent_page(api, member), "allow")
    assert is_page(await api.get(AUTHORIZE, params=request()), 200, "unverified application")
    await sync_to_async(client_units.verify)(addresses.id_of(URL))
    assert "code" in answered(await api.get(AUTHORIZE, params=request()), CALLBACK)


async def test_it_is_no_matter_for_redis(
    api: httpx.AsyncClient, web: Web, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What staff have made of it may have a key that pairwise subjects are made with, as any client."""
    told: list[str] = []

    async def get(key: str, *_args: object, **_kwargs: object) -> None:
        told.append(key)

    always = SimpleNamespace(pays=lambda: True, answered=lambda *_: None, loaded=lambda _: None)
    l2 = SimpleNamespace(share=lambda key, _entry: told.append(key), get=get, clear=lambda: None, asking=always)
    monkeypatch.setattr(token_cache(), "_l2", l2)
    assert await documents.find(URL) is not None
    assert {key.partition(":")[0] for key in told} == {"cd"}  # the document, which anybody can read


async def test_a_verified_one_has_the_threads_of_known_clients(
    api: httpx.AsyncClient, web: Web, member: Member
) -> None:
    """Servers of strangers that hang do not end it; before staff verify it, and disabled, it is a stranger itself."""
    web.keep_s = 60
    await say(api, await consent_page(api, member), "allow")
    id_of_row = addresses.id_of(URL)
    steps = (client_units.verify, client_units.disable)
    for at, step in enumerate(steps, start=1):
        await sync_to_async(step)(id_of_row)
        with clock.shifted(61 * at):
            await api.get(AUTHORIZE, params=request())
    assert web.known == [False, True, False]


async def test_silent(api: httpx.AsyncClient, web: Web, member: Member) -> None:
    """prompt=none gets a code only where the person has allowed that before, and never to this machine."""
    page = await consent_page(api, member)
    silent = request(prompt="none")
    assert answered(await api.get(AUTHORIZE, params=silent), CALLBACK)["error"] == "consent_required"
    await say(api, page, "allow")
    assert "code" in answered(await api.get(AUTHORIZE, params=silent), CALLBACK)
    here = request(prompt="none", redirect_uri="http://127.0.0.1:4711/cb")
    refused = answered(await api.get(AUTHORIZE, params=here), "http://127.0.0.1:4711/cb")
    assert refused["error"] == "consent_required"
    more = request(prompt="none", scope="openid email")
    assert answered(await api.get(AUTHORIZE, params=more), CALLBACK)["error"] == "consent_required"


async def test_another_address_takes_effect(api: httpx.AsyncClient, web: Web, member: Member) -> None:
    """Once its headers' time is over the document is fetched again, and what it says now is what counts."""
    web.keep_s = 60
    await say(api, await consent_page(api, member), "allow")
    web.documents[URL]["redirect_uris"] = ["https://agent.example.com/new"]
    assert is_page(await api.get(AUTHORIZE, params=request()), 200)
    with clock.shifted(61):
        assert is_page(await api.get(AUTHORIZE, params=request()), 400, "redirect_uri")
        page = await api.get(AUTHORIZE, params=request(redirect_uri="https://agent.example.com/new"))
        assert is_page(page, 200, "Agent Smith")
        await say(api, page, "allow")
    assert (await OAuthClient.objects.aget()).redirect_uris == ["https://agent.example.com/new"]
    assert len(web.asked) == 2


@pytest.mark.parametrize(
    ("changes", "still"),
    [
        ({"grant_types": ["authorization_code"]}, True),
        ({"redirect_uris": ["http://127.0.0.1/cb", CALLBACK]}, True),
        ({"client_name": "Agent Smith, Your Bank"}, False),
        ({"logo_uri": "https://bank.example/logo.png"}, False),
        ({"policy_uri": "https://bank.example/policy"}, False),
        ({"tos_uri": "https://bank.example/terms"}, False),
        ({"redirect_uris": [CALLBACK, "https://evil.example/cb"]}, False),
    ],
)
async def test_a_document_that_says_another_is_looked_at_anew(
    api: httpx.AsyncClient, web: Web, member: Member, changes: dict[str, Any], still: bool
) -> None:
    """What staff have verified is what people are shown: another name, picture or address is a stranger's."""
    web.keep_s = 60
    await say(api, await consent_page(api, member), "allow")
    await sync_to_async(client_units.verify)(addresses.id_of(URL))
    web.documents[URL].update(changes)
    with clock.shifted(61):
        page = await api.get(AUTHORIZE, params=request(prompt="consent"))
        assert is_page(page, 200, "Agent Smith")
        assert ("unverified application" in page.text) is not still
        assert (await OAuthClient.objects.aget()).verified_at is not None  # nobody has allowed it anything as that
        await say(api, page, "allow")
    assert ((await OAuthClient.objects.aget()).verified_at is not None) is still
    events = [one async for one in AuditEvent.objects.filter(event="client_changed")]
    assert any("verified_at" in one.details["fields"] for one in events) is not still


async def test_a_document_that_says_the_old_again(api: httpx.AsyncClient, web: Web, member: Member) -> None:
    """As long as nobody has allowed the other anything, staff's word holds for what they have looked at."""
    web.keep_s = 60
    await say(api, await consent_page(api, member), "allow")
    await sync_to_async(client_units.verify)(addresses.id_of(URL))
    for at, name in enumerate(("Agent Smith, Your Bank", "Agent Smith"), start=1):
        web.documents[URL]["client_name"] = name
        with clock.shifted(61 * at):
            answer = await api.get(AUTHORIZE, params=request())
            assert is_page(answer, 200, "unverified application") if at == 1 else answered(answer, CALLBACK)["code"]


async def test_verified_while_another_is_allowed(api: httpx.AsyncClient, web: Web, member: Member) -> None:
    """Whichever is first: a client that is verified is the one that staff have looked at."""
    web.keep_s = 60
    await say(api, await consent_page(api, member), "allow")
    web.documents[URL]["client_name"] = "Agent Smith, Your Bank"
    with clock.shifted(61):
        page = await api.get(AUTHORIZE, params=request())
        await asyncio.gather(
            say(api, page, "allow"), database().write(client_units.verify, addresses.id_of(URL)),
        )  # fmt: skip
    row, verified = await OAuthClient.objects.aget(), await AuditEvent.objects.aget(event="client_verified")
    assert row.name == "Agent Smith, Your Bank"
    assert (row.verified_at is not None) is (verified.details["name"] == row.name)


async def test_a_document_that_is_gone(api: httpx.AsyncClient, web: Web, member: Member) -> None:
    """Its client can do nothing more once the document's time is over: the row alone stands for nobody."""
    web.keep_s = 60
    tokens = (await redeemed(api, await say(api, await consent_page(api, member), "allow"))).json()
    web.documents.clear()
    with clock.shifted(61):
        answer = await api.post("/oauth/token", data={"grant_type": "refresh_token", "client_id": URL,
                                                      "refresh_token": tokens["refresh_token"]})  # fmt: skip
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_the_row_is_no_name(api: httpx.AsyncClient, web: Web, member: Member) -> None:
    """The id of its row names no client in a request: a document that is gone would live on in it."""
    await say(api, await consent_page(api, member), "allow")
    by_row = str(addresses.id_of(URL))
    assert is_page(await api.get(AUTHORIZE, params=request(client_id=by_row)), 400, "not known here")
    answer = await api.post("/oauth/token", data={"grant_type": "refresh_token", "client_id": by_row,
                                                  "refresh_token": "x"})  # fmt: skip
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_a_refused_document_is_let_rest(api: httpx.AsyncClient, web: Web, signing_key: str) -> None:
    """It is asked for again after ten seconds, not at once."""
    web.documents.clear()
    for _ in range(3):
        assert is_page(await api.get(AUTHORIZE, params=request()), 400, "not known here")
    assert len(web.asked) == 1
    web.documents[URL] = SAID
    with clock.shifted(11):
        assert (await api.get(AUTHORIZE, params=request())).status_code == 200


async def test_one_request_for_all(api: httpx.AsyncClient, web: Web, signing_key: str) -> None:
    """Who asks for the same document at the same time waits for the one request under way."""
    answers = await asyncio.gather(*(api.get(AUTHORIZE, params=request()) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len(web.asked) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uris": []},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": ["http://agent.example.com/cb"]},
        {"redirect_uris": [CALLBACK + "#x"]},
        {"redirect_uris": ["https://me@agent.example.com/cb"]},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"token_endpoint_auth_method": "client_secret_post"},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"client_name": "\u202eknab"},
        {"scope": "account"},
        {"grant_types": ["client_credentials"]},
    ],
)
async def test_a_document_that_no_client_may_have(
    api: httpx.AsyncClient, web: Web, signing_key: str, changes: dict[str, Any]
) -> None:
    """What is refused of a registration is refused of a document."""
    web.documents[URL].update(changes)
    assert is_page(await api.get(AUTHORIZE, params=request()), 400, "not known here")


async def test_bounded_in_number(api: httpx.AsyncClient, web: Web, settings: Settings, member: Member) -> None:
    """Beyond IRONAUTH_REGISTRATION_MOST nobody can allow another one, and nothing of it is stored."""
    settings.IRONAUTH_REGISTRATION_MOST = 1
    await say(api, await consent_page(api, member), "allow")
    other = "https://other.example.com/client.json"
    web.documents[other] = {**SAID, "client_id": other, "redirect_uris": [CALLBACK]}
    page = await api.get(AUTHORIZE, params=request(client_id=other))
    assert is_page(await say(api, page, "allow"), 503)
    assert (await OAuthClient.objects.acount(), await Consent.objects.acount()) == (1, 1)


async def test_counted(api: httpx.AsyncClient, web: Web, settings: Settings, signing_key: str, throttled: None) -> None:
    """So many documents are fetched for one network in an hour; what is known costs nothing."""
    settings.IRONAUTH_THROTTLE_REGISTRATIONS = 2
    for at in range(2):
        await api.get(AUTHORIZE, params=request(client_id=f"https://agent.example.com/{at}"))
    assert is_page(await api.get(AUTHORIZE, params=request()), 429)
    assert len(web.asked) == 2


async def test_pushed_before_anybody_allowed_it(api: httpx.AsyncClient, web: Web, member: Member) -> None:
    """A pushed request would be a row of a client that has none; after the first consent it is taken."""
    answer = await api.post("/oauth/par", data=request())
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    await say(api, await consent_page(api, member), "allow")
    pushed = await api.post("/oauth/par", data=request())
    assert pushed.status_code == 201, pushed.text
    page = await api.get(AUTHORIZE, params={"client_id": URL, "request_uri": pushed.json()["request_uri"]})
    assert is_page(page, 200, "unverified application")


async def test_the_hint(api: httpx.AsyncClient, web: Web, member: Member) -> None:
    """Its ID token names it by its address, and is a hint for it and for signing out."""
    tokens = (await redeemed(api, await say(api, await consent_page(api, member), "allow"))).json()
    hinted = request(id_token_hint=tokens["id_token"], prompt="none")
    assert "code" in answered(await api.get(AUTHORIZE, params=hinted), CALLBACK)
    page = await api.get("/oauth/logout", params={"id_token_hint": tokens["id_token"], "client_id": URL})
    assert page.status_code == 200, page.text


async def test_the_person_ends_it(api: httpx.AsyncClient, web: Web, member: Member) -> None:
    """Their list of applications names its document and says that it is unverified; removing it ends its sessions."""
    await redeemed(api, await say(api, await consent_page(api, member), "allow"))
    row = await OAuthClient.objects.aget()
    assert await Session.objects.filter(client_id=str(row.pk), revoked_at=None).acount() == 1
    mine = (await api.post(SIGNIN, json={"email": member["email"], "password": PASSWORD})).json()
    listed = (await api.get("/api/v1/access/consents", headers=bearer(mine))).json()
    assert [(one["client_id"], one["name"], one["unverified"], one["document"]) for one in listed] == [
        (str(row.pk), "Agent Smith", True, URL)
    ]
    ended = await api.delete(f"/api/v1/access/consents/{row.pk}", headers=bearer(mine))
    assert ended.status_code == 204
    assert not await Session.objects.filter(client_id=str(row.pk), revoked_at=None).aexists()
