"""The address first and the password on a second page (IRONAUTH_SIGN_IN_FORM): what each page shows and keeps."""

import json
import re
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.email.tests.test_nobody_can_tell import EMAIL, KINDS, seen, settle, trail
from accounts.tests.authenticator import Authenticator
from accounts.users.models import User
from conftest import PASSWORD, bearer
from ironauth.infrastructure.hashing.pool import hash_pool
from tokens.clients.models import OAuthClient
from tokens.oauth.authorize import pages as authorize_pages
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, form_to, forms, is_page, send
from tokens.tests.browser import Member, Pair
from tokens.tests.second_factor import enrol

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

SIGNIN, PASSKEY, BY_EMAIL, CODE = "/oauth/signin", "/oauth/signin/passkey", "/oauth/signin/email", "/oauth/signin/code"
ASKS_PASSWORD = 'name="password"'


@pytest.fixture(autouse=True)
def _one_at_a_time(settings: Settings) -> None:
    settings.IRONAUTH_SIGN_IN_FORM = "identifier_first"


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """One of our own clients, which asks for no consent."""
    return (await sync_to_async(make_client)(trusted=True))[0]


async def test_address_then_password(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """The first page asks for the address alone, the second shows it and asks for the password, which signs in."""
    page = await authorize(api, client)
    assert is_page(page, 200, "Continue", "Wiki", 'autocomplete="username webauthn"')
    assert ASKS_PASSWORD not in page.text
    second = await send(api, page, SIGNIN, email=f" {member['email']} ")
    assert is_page(second, 200, ASKS_PASSWORD, "Not you?", f"<strong>{member['email']}</strong>", "Wiki")
    assert 'autocomplete="current-password webauthn"' in second.text
    assert 'autocomplete="username"' in second.text  # what a password manager stores the password with
    wrong = await send(api, second, SIGNIN, password="not the password at all")
    assert is_page(wrong, 401, ASKS_PASSWORD, "is wrong: check both", f"<strong>{member['email']}</strong>")
    assert is_page(await send(api, wrong, SIGNIN, password=""), 400, "Type your", member["email"])
    assert answered(await send(api, wrong, SIGNIN, password=PASSWORD))["code"]


async def test_the_pages_of_this_site_too(api: httpx.AsyncClient, member: Member) -> None:
    """``/account/signin`` asks in the same two steps, and goes on to where the person wanted to go."""
    page = await api.get("/account/signin?next=/shop")
    assert ASKS_PASSWORD not in page.text
    second = await send(api, page, SIGNIN, email=member["email"])
    gone = await send(api, second, SIGNIN, password=PASSWORD)
    assert (gone.status_code, gone.headers["location"]) == (303, "/shop")


async def test_not_you(api: httpx.AsyncClient, member: Member, client: OAuthClient) -> None:
    """It goes back to the first page, with nothing filled in, also where the application has named an address."""
    page = await authorize(api, client, login_hint="somebody@example.com")
    assert is_page(page, 200, ASKS_PASSWORD, "<strong>somebody@example.com</strong>")
    other = next(form for form in forms(page) if "other" in form.fields)
    first = await api.post(other.action, data=other.fields)
    assert is_page(first, 200, 'value=""', "Continue")
    assert ASKS_PASSWORD not in first.text
    assert "somebody@example.com" not in first.text
    second = await send(api, first, SIGNIN, email=member["email"])
    assert answered(await send(api, second, SIGNIN, password=PASSWORD))["code"]


@pytest.mark.parametrize("typed", ["", " ", "mia", "@", "a@b@c", "mia@example.com\x00", "x" * 300 + "@example.com"])
async def test_what_is_no_address(api: httpx.AsyncClient, client: OAuthClient, typed: str) -> None:
    """It is 400 on the first page, which keeps what was typed; a hint of the application does not take its place."""
    page = await authorize(api, client)
    answer = await send(api, page, SIGNIN, email=typed)
    assert is_page(answer, 400, "Type your e-mail address.")
    assert ASKS_PASSWORD not in answer.text
    if typed.isprintable():
        assert f'value="{typed}"' in answer.text
    hinted = await authorize(api, client, login_hint="somebody@example.com")
    request = form_to(hinted, SIGNIN).fields["request"]
    answer = await api.post(SIGNIN, data={"request": request, "email": typed})
    assert is_page(answer, 400, "Type your e-mail address.")
    assert "somebody@example.com" not in answer.text


async def test_markup_in_an_address_is_text(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """What is typed is shown as it is, and is no markup."""
    answer = await send(api, await authorize(api, client), SIGNIN, email="<b>@example.com")
    assert "<b>@" not in answer.text


async def test_the_address_is_in_no_url(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Neither the second page's address nor any form of it has the person's in it."""
    second = await send(api, await authorize(api, client), SIGNIN, email=EMAIL)
    assert second.url.path == SIGNIN
    assert not second.url.query
    assert all("mia" not in form.action for form in forms(second))
    assert not re.findall(r'(?:href|action|src)="[^"]*mia', second.text)


async def test_the_other_ways_in_know_the_address(
    api: httpx.AsyncClient, member: Member, client: OAuthClient, settings: Settings
) -> None:
    """The second page sends a code without asking for the address again, and a passkey that is refused keeps it."""
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    first = await authorize(api, client)
    assert is_page(await send(api, first, BY_EMAIL), 200, "Send me a code", 'value=""')
    second = await send(api, first, SIGNIN, email=member["email"])
    assert is_page(await send(api, second, BY_EMAIL), 200, "Check your e-mail", member["email"])
    refused = await send(api, second, PASSKEY, credential=json.dumps({}), challenge_token="x")
    assert is_page(refused, 401, "The passkey was not accepted", ASKS_PASSWORD, f"<strong>{member['email']}</strong>")
    assert ASKS_PASSWORD not in (await send(api, first, PASSKEY)).text


async def test_a_second_factor_comes_after_it(
    api: httpx.AsyncClient, member: Member, pair: Pair, client: OAuthClient
) -> None:
    """After the password; *Sign in as somebody else* begins with the address."""
    app, _ = await enrol(api, pair)
    second = await send(api, await authorize(api, client), SIGNIN, email=member["email"])
    factor = await send(api, second, SIGNIN, password=PASSWORD)
    assert is_page(factor, 200, "One more step")
    again = await api.post(SIGNIN, data={"request": form_to(factor, SIGNIN).fields["request"]})
    assert is_page(again, 200, "Continue")
    assert ASKS_PASSWORD not in again.text
    assert answered(await send(api, factor, CODE, code=app.code()))["code"]


async def test_a_rendered_page_is_of_its_setting(
    api: httpx.AsyncClient, client: OAuthClient, settings: Settings
) -> None:
    """The page that was rendered for one setting is not shown under the other, in either order."""
    authorize_pages._sign_in_page.cache_clear()
    texts = []
    for form in ("identifier_first", "both", "identifier_first", "both"):
        settings.IRONAUTH_SIGN_IN_FORM = form
        texts.append(ASKS_PASSWORD in (await authorize(api, client)).text)
    assert texts == [False, True, False, True]
    assert authorize_pages._sign_in_page.cache_info().misses == 2


async def test_both_at_once_asks_for_both(api: httpx.AsyncClient, client: OAuthClient, settings: Settings) -> None:
    """By default an address without a password is refused, as it was."""
    settings.IRONAUTH_SIGN_IN_FORM = "both"
    page = await authorize(api, client)
    assert is_page(await send(api, page, SIGNIN, email=EMAIL), 400, "Type your e-mail address and your password.")
    assert "Not you?" not in page.text


async def test_the_second_page_tells_nobody_who_has_an_account(
    api: httpx.AsyncClient,
    client: OAuthClient,
    settings: Settings,
    still_clock: float,
    statements: list[str],
    throttled: None,
) -> None:
    """For every kind of person: the same page, headers included, without a query on the way, a hash or an event.

    Then a wrong password: the same page, and one hash.
    """

    def make_user(**fields: Any) -> User:
        return User.objects.create_user(password=fields.pop("password", PASSWORD), **fields)

    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    transcripts: dict[str, Any] = {}
    for kind in KINDS:
        await User.objects.all().adelete()
        await sync_to_async(settle)(kind, make_user)
        first = await authorize(api, client)
        jobs, events, asked = hash_pool().stats().completed, await sync_to_async(trail)(), len(statements)
        second = await send(api, first, SIGNIN, email=EMAIL)
        assert is_page(second, 200, ASKS_PASSWORD)
        assert statements[asked:] == []
        assert hash_pool().stats().completed == jobs
        assert await sync_to_async(trail)() == events
        wrong = await send(api, second, SIGNIN, password="wrong horse battery 7")
        assert hash_pool().stats().completed == jobs + 1
        transcripts[kind] = (seen(second), seen(wrong))
    for kind, transcript in transcripts.items():
        assert transcript == transcripts["nobody"], kind


async def test_a_passkey_signs_in_on_either_page(
    api: httpx.AsyncClient, member: Member, pair: Pair, client: OAuthClient
) -> None:
    """What passkeys are suggested with is on both pages, each with a challenge of its own."""
    device = Authenticator()
    options = (await api.post("/api/v1/access/mfa/passkeys/options", json={}, headers=bearer(pair))).json()
    made = {"challenge_token": options["challenge_token"], "credential": device.create(options["publicKey"])}
    assert (await api.post("/api/v1/access/mfa/passkeys", json=made, headers=bearer(pair))).status_code == 201
    asked = (await api.post("/api/v1/access/signin/passkey/options")).json()["publicKey"]
    first = await authorize(api, client)
    second = await send(api, first, SIGNIN, email=member["email"])
    for page in (first, second):
        _host, token, challenge = page.text.split('data-autofill="')[1].split('"')[0].split()
        credential = json.dumps(device.get({**asked, "challenge": challenge}))
        assert answered(await send(api, page, PASSKEY, challenge_token=token, credential=credential))["code"]
    assert is_page(await by_password(api, second, member["email"], "wrong"), 401)
