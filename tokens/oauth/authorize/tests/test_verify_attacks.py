"""The link of a sign-up's message against strangers, second clicks, changed clients, and what a client demands."""

import base64
import json
import re
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock, constant_time
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from tokens.clients.models import OAuthClient
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.tests.test_verify_link import (
    AGAIN,
    CODE,
    EMAIL,
    FORGOT,
    SIGNIN,
    VERIFY,
    is_proved,
    link,
    message,
    sign_up,
)
from tokens.oauth.models import MailedPage
from tokens.oauth.tests.flow import Party
from tokens.oauth.tests.material import REDIRECT_URI, make_client, make_public_client
from tokens.oauth.tests.walk import answered, authorize, by_password, form_to, forms, is_page, request_of, send
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.sign_in.tests.test_kept_devices import app, keep, keeps  # noqa: F401 - fixtures
from tokens.tests.browser import Member
from tokens.tests.second_factor import App

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

EVIL = "https://evil.example/callback"
CONTINUE = re.compile(r"^http://localhost:8000(/oauth/continue\?token=\S{64})$", re.MULTILINE)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_time, "STEP_S", 0.001)  # times are the business of other tests


@pytest.fixture
def proof_required(settings: Settings) -> None:
    """Addresses are to be confirmed before anybody signs in."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """One of our own clients, which asks for no consent."""
    return (await sync_to_async(make_client)(trusted=True))[0]


@pytest.fixture
async def stranger(transactional_db: None) -> OAuthClient:
    """A client that has registered itself, under a name of its choice."""
    return await sync_to_async(make_public_client)(
        name="Your Bank", redirect_uris=[EVIL], profile="agent", origin=OAuthClient.Origin.REGISTERED
    )


def elsewhere(api: httpx.AsyncClient) -> None:
    """Go on in another browser."""
    api.cookies.clear()


# ------------------------------------------------------------------------------------ clients that nobody has checked
@pytest.mark.usefixtures("proof_required")
async def test_a_strangers_client_is_not_ours_to_name(api: httpx.AsyncClient, stranger: OAuthClient) -> None:
    """Who gets a message because of it hears neither its name nor its address from us; a checked one's they do."""
    await sign_up(api, await authorize(api, stranger, redirect_uri=EVIL))
    there = await link()
    elsewhere(api)
    page = await api.get(there)
    done = await send(api, page, VERIFY, password=PASSWORD)
    assert is_page(done, 200, "Thank you", "/account/signin")
    for shown in (page, done):
        assert "Your Bank" not in shown.text
        assert "evil.example" not in shown.text + shown.headers["content-security-policy"]
    assert await is_proved()


async def test_nor_after_a_reset(api: httpx.AsyncClient, stranger: OAuthClient) -> None:
    """The message for a new password has such a page, too."""
    await sync_to_async(User.objects.create_user)(EMAIL, PASSWORD, email_verified_at=clock.now())
    await send(api, await authorize(api, stranger, redirect_uri=EVIL), FORGOT, send="1", email=EMAIL)
    text = await sync_to_async(message)("reset_password")
    found = re.search(r"http://localhost:8000(/oauth/reset\?token=\S+)", text)
    assert found is not None
    elsewhere(api)
    page = await api.get(found[1])
    done = await send(api, page, "/oauth/reset", new_password="seven amber kites over Lyon")
    assert is_page(done, 200, "Your password was changed", "/account/signin")
    for shown in (page, done):
        assert "Your Bank" not in shown.text
        assert "evil.example" not in shown.text + shown.headers["content-security-policy"]


@pytest.mark.usefixtures("proof_required")
async def test_before_a_password_is_typed_it_is_said(api: httpx.AsyncClient, stranger: OAuthClient) -> None:
    """In the browser that has come from it, each page on the way says that nobody has checked it, and its host."""
    first = await authorize(api, stranger, redirect_uri=EVIL)
    waits = await sign_up(api, first)
    pages = [first, waits, await send(api, first, AGAIN), await send(api, first, FORGOT), await api.get(await link())]
    pages += [await send(api, page, at, send="1", email=EMAIL) for page, at in ((pages[2], AGAIN), (pages[3], FORGOT))]
    for page in pages:
        assert is_page(page, 200, "Unverified application", "<strong>evil.example</strong>")


# -------------------------------------------------------------------------------------------- clients that have changed
@pytest.mark.usefixtures("proof_required")
@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("change", [{"redirect_uris": ["https://new.example.com/cb"]}, {"scopes": ["openid"]}])
async def test_a_client_that_was_changed(
    api: httpx.AsyncClient, client: OAuthClient, where: str, change: dict[str, Any]
) -> None:
    """The address of before gets no answer and no link; the person confirms theirs all the same."""
    await sign_up(api, await authorize(api, client, scope="openid email"))
    there = await link()
    for name, value in change.items():
        setattr(client, name, value)
    await sync_to_async(client.save)()
    if where == "elsewhere":
        elsewhere(api)
    page = await api.get(there)
    assert "request" not in form_to(page, VERIFY).fields
    done = await send(api, page, VERIFY, password=PASSWORD)
    assert is_page(done, 200, "Thank you")
    assert "app.example.com" not in page.text + done.text
    assert await is_proved()
    assert not await Session.objects.aexists()


# --------------------------------------------------------------------------------------------------- a second click
@pytest.mark.usefixtures("proof_required")
async def test_a_second_click_leads_on(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Who opens a used link later signs in on the page that they get; another browser has none."""
    await sign_up(api, await authorize(api, client))
    there = await link()
    page = await api.get(there)
    mine = dict(api.cookies)
    assert answered(await send(api, page, VERIFY, password=PASSWORD))["code"]
    api.cookies.clear()
    api.cookies.update(mine)
    with clock.shifted(WITHIN_S):
        for again in (await send(api, page, VERIFY, password=PASSWORD), await api.get(there)):
            assert is_page(again, 400, "used before", "sign in", client.name, EMAIL)
    assert answered(await by_password(api, again, EMAIL))["code"]
    for others in ({}, {authorization_state.cookie_name(): authorization_state.new_browser()}):
        api.cookies.clear()
        api.cookies.update(others)
        assert is_page(refused := await api.get(there), 400, "used before")
        assert client.name not in refused.text
        assert EMAIL not in refused.text


@pytest.mark.usefixtures("proof_required")
async def test_a_token_that_names_a_page_is_not_enough(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """A forged token with the id of a page that waits confirms nothing, and shows the page's own browser its page."""
    await sign_up(api, await authorize(api, client))
    there = await link()
    forged = there[:-8] + ("A" * 8 if not there.endswith("A" * 8) else "B" * 8)
    shown = await api.get(forged)
    assert is_page(shown, 400, "used before", client.name)
    assert is_page(await api.post(VERIFY, data={"token": forged[-64:], "password": PASSWORD}), 400)
    assert not await is_proved()
    elsewhere(api)
    assert client.name not in (await api.get(forged)).text


@pytest.mark.usefixtures("proof_required")
async def test_what_is_kept_signs_nobody_in(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """The stored page has neither the sealed sign-up nor what a right password has left."""
    await sign_up(api, await authorize(api, client))
    row = await MailedPage.objects.aget()
    state = authorization_state.restored(row.page)
    assert state is not None
    assert (state.sign_up, state.mfa_token, state.methods) == ("", "", ())
    assert state.code_id == row.pk


# --------------------------------------------------------------------------------------------- what a client demands
@pytest.mark.parametrize("asks", [{}, {"acr_values": "aal2"}, {"prompt": "login"}, {"max_age": "0"}])
async def test_a_code_is_asked_for_once(
    api: httpx.AsyncClient,
    client: OAuthClient,
    member: Member,
    app: App,  # noqa: F811
    settings: Settings,
    asks: dict[str, str],
) -> None:
    """The code that confirms signs in as well, whatever the client wants: it is a proof of now, of no kept device."""
    await keep(api, member, app.code())
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    await User.objects.filter(email=member["email"]).aupdate(email_verified_at=None)
    first = await authorize(api, client, **asks)
    await send(api, first, AGAIN, send="1", email=member["email"])
    with clock.shifted(60):
        page = await api.get(await link(member["email"]))
        answer = await send(api, page, VERIFY, password=PASSWORD, code=app.code())
        assert await is_proved(member["email"])
        assert answered(answer)["code"]
        session = await Session.objects.filter(client_id=SSO_CLIENT).alatest("created_at")
        assert (session.amr, str(session.user_id)) == ("pwd otp mfa", member["id"])
        assert clock.now() - session.authenticated_at < timedelta(seconds=10)


# ------------------------------------------------------------------------------- an account that is there already
async def continuing() -> str:
    """Return the link in the message that tells of an account."""
    text = await sync_to_async(message)("account_exists")
    found = CONTINUE.search(text)
    assert found is not None
    assert "/account/" not in text
    return found[1]


@pytest.mark.usefixtures("proof_required")
async def test_an_account_that_is_there_goes_on(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """The message leads to the sign-in at the client, in the browser that asked alone, and confirms nothing."""
    await sync_to_async(User.objects.create_user)(EMAIL, PASSWORD)
    waits = await sign_up(api, await authorize(api, client))
    there, mine = await continuing(), dict(api.cookies)
    page = await api.get(there)
    assert is_page(page, 200, client.name, EMAIL)
    token = there[-64:]
    assert is_page(await api.post(VERIFY, data={"token": token, "password": PASSWORD}), 400, "used before")
    assert not await is_proved()
    await User.objects.filter(email=EMAIL).aupdate(email_verified_at=clock.now())
    assert answered(await by_password(api, page, EMAIL))["code"]
    for others in ({}, {authorization_state.cookie_name(): authorization_state.new_browser()}):
        api.cookies.clear()
        api.cookies.update(others)
        away = await api.get(there)
        assert (away.status_code, away.headers["location"]) == (303, "/account/signin")
    api.cookies.clear()
    api.cookies.update(mine)
    assert is_page(await send(api, waits, CODE, code="000000"), 401)
    with clock.shifted(authorization_state.LIFE_S + 1):
        away = await api.get(there)
    assert (away.status_code, away.headers["location"]) == (303, "/account/signin")


@pytest.mark.parametrize("token", ["", "x", "A" * 64, "\0" * 64, "ä" * 64])
async def test_no_such_page(api: httpx.AsyncClient, transactional_db: None, token: str) -> None:
    """What names no page leads to the sign-in of one's own account."""
    away = await api.get("/oauth/continue", params={"token": token})
    assert (away.status_code, away.headers["location"]) == (303, "/account/signin")


@pytest.mark.usefixtures("proof_required")
async def test_the_sign_in_there_is_a_form(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """GET signs nobody in and uses nothing up; the form's code of before is done with."""
    await sync_to_async(User.objects.create_user)(EMAIL, PASSWORD, email_verified_at=clock.now())
    await sign_up(api, await authorize(api, client))
    there = await continuing()
    pages = [await api.get(there) for _ in range(2)]
    assert not await Session.objects.aexists()
    assert all(form.action != CODE for page in pages for form in forms(page))
    assert answered(await send(api, pages[1], SIGNIN, email=EMAIL, password=PASSWORD), REDIRECT_URI)["code"]


# ----------------------------------------------------------------------------------------- what the client has asked
@pytest.mark.usefixtures("proof_required")
async def test_the_code_needs_its_verifier(api: httpx.AsyncClient, transactional_db: None) -> None:
    """The challenge has come across the message, and so has the client's state; a wrong verifier uses the code up."""
    made, secret = await sync_to_async(make_client)(trusted=True)
    party = Party(api, made, secret)
    await sign_up(api, await authorize(api, made))
    told = answered(await send(api, await api.get(await link()), VERIFY, password=PASSWORD))
    assert told["state"] == request_of(made)["state"]
    wrong = await party.redeem(told["code"], code_verifier="w" * 43)
    assert (wrong.status_code, wrong.json()["error"]) == (400, "invalid_grant")


@pytest.mark.usefixtures("proof_required")
async def test_the_nonce_comes_back(api: httpx.AsyncClient, transactional_db: None) -> None:
    """Across the message, too; and ``auth_time`` is when the password was typed at the link's page."""
    made, secret = await sync_to_async(make_client)(trusted=True)
    began = int(clock.unix())
    await sign_up(api, await authorize(api, made, nonce="n-1", prompt="login", max_age="5"))
    with clock.shifted(600):
        told = answered(await send(api, await api.get(await link()), VERIFY, password=PASSWORD))
        party = Party(api, made, secret)
        got = await party.redeem(told["code"])
        assert (await party.redeem(told["code"])).json()["error"] == "invalid_grant"
    claims = claims_of(got.raise_for_status().json()["id_token"])
    assert claims["nonce"] == "n-1"
    assert began + 600 <= claims["auth_time"] <= began + 660


def claims_of(id_token: str) -> Any:
    """Return what an ID token says; the client verifies it."""
    return json.loads(base64.urlsafe_b64decode(id_token.split(".")[1] + "=="))


@pytest.mark.usefixtures("proof_required")
async def test_a_pushed_request_is_answered_once(api: httpx.AsyncClient, transactional_db: None) -> None:
    """By the link or by the page it began on, not by both; and its handle opens nothing afterwards."""
    made, secret = await sync_to_async(make_client)(trusted=True)
    handle = (await api.post("/oauth/par", data=request_of(made, client_secret=secret))).json()["request_uri"]
    asked = {"client_id": str(made.pk), "request_uri": handle}
    first = await api.get("/oauth/authorize", params=asked)
    await sign_up(api, first)
    assert answered(await send(api, await api.get(await link()), VERIFY, password=PASSWORD))["code"]
    assert is_page(await by_password(api, first, EMAIL), 400, "was used before")
    assert is_page(await api.get("/oauth/authorize", params=asked), 400, "was used before")


@pytest.mark.usefixtures("proof_required")
async def test_two_tabs(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Each link leads on from its own sign-up, whichever was opened last; the one of a tab is no other tab's."""
    other = (await sync_to_async(make_client)(name="Shop", redirect_uris=["https://shop.example/cb"], trusted=True))[0]
    await sign_up(api, await authorize(api, client), "first@example.com")
    await sign_up(api, await authorize(api, other, redirect_uri="https://shop.example/cb"), "second@example.com")
    pages = [await api.get(await link(email)) for email in ("first@example.com", "second@example.com")]
    assert [client.name in page.text for page in pages] == [True, False]
    mixed = {**form_to(pages[0], VERIFY).fields, "request": form_to(pages[1], VERIFY).fields["request"]}
    done = await api.post(VERIFY, data={**mixed, "password": PASSWORD})
    assert is_page(done, 200, "Thank you")
    assert answered(await send(api, pages[1], VERIFY, password=PASSWORD), "https://shop.example/cb")["code"]
