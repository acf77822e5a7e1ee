"""A sign-up that is sent twice by one double click: the second answer is the page that the first one got."""

import asyncio
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.own_account import services as own_account
from accounts.own_account.services import SignedUp
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.http import second_clicks
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from tokens.clients.models import OAuthClient
from tokens.oauth.authorize.tests.test_another_message import code_id_of
from tokens.oauth.authorize.tests.test_sign_up_pages import CODE, NEW, SIGNUP
from tokens.oauth.authorize.tests.test_sign_up_pages import EMAIL as BY_EMAIL
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, form_to, is_page, send
from tokens.sessions.models import Session
from tokens.tests.browser import Member

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """One of our own clients, which asks for no consent."""
    return (await sync_to_async(make_client)(trusted=True))[0]


@pytest.fixture
def required(settings: Settings) -> None:
    """Addresses have to be proved."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"


async def kinds() -> list[str]:
    """Return the kinds of the messages, in order."""
    return [one.kind async for one in OutgoingMail.objects.order_by("pk")]


async def right_code() -> str:
    """Return the code of the newest message to somebody who has signed up."""
    row = await EmailToken.objects.filter(user__isnull=False).order_by("-created_at").afirst()
    assert row is not None
    return email_tokens.code(row)


@pytest.mark.usefixtures("required")
@pytest.mark.parametrize("again", [False, True])
async def test_the_code_of_the_first_is_right(api: httpx.AsyncClient, client: OAuthClient, again: bool) -> None:
    """On the page of the second click, and on that of another message; nobody is told that the address is taken."""
    form = await send(api, await authorize(api, client), SIGNUP)
    await send(api, form, SIGNUP, **NEW)
    second = await send(api, form, SIGNUP, **NEW)
    assert is_page(second, 200, "Check your e-mail", "new@example.com")
    assert await kinds() == ["verify_email"]
    if again:
        second = await send(api, second, CODE, again="1")
        assert is_page(second, 200, "Another message is on its way")
    assert answered(await send(api, second, CODE, code=await right_code()))["code"]
    assert (await User.objects.aget(email="new@example.com")).email_verified_at is not None


@pytest.mark.parametrize("apart_s", [0.0, 0.05])
@pytest.mark.parametrize("taken", [False, True])
async def test_both_under_way(
    api: httpx.AsyncClient, member: Member, settings: Settings, taken: bool, apart_s: float
) -> None:
    """Both get one page, whose code is right. One message goes out, whether or not the address was taken."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    form = await api.get("/account/signup")
    fields = NEW | {"email": member["email"]} if taken else NEW

    async def click(after_s: float) -> httpx.Response:
        await asyncio.sleep(after_s)
        return await send(api, form, SIGNUP, **fields)

    both = await asyncio.gather(click(0), click(apart_s))
    assert all(is_page(one, 200, "Check your e-mail", fields["email"]) for one in both)
    assert len({code_id_of(one) for one in both}) == 1
    assert await kinds() == ["account_exists" if taken else "verify_email"]
    if not taken:
        assert (await send(api, both[1], CODE, code=await right_code())).status_code == 303


@pytest.mark.usefixtures("required")
@pytest.mark.parametrize("dropped_after_s", [0.02, 0.06, 0.2])
async def test_the_browser_drops_the_first(api: httpx.AsyncClient, dropped_after_s: float) -> None:
    """As browsers do: the first sign-up goes on, and the second click gets its page."""
    form = await api.get("/account/signup")
    first = asyncio.create_task(send(api, form, SIGNUP, **NEW))
    await asyncio.sleep(dropped_after_s)
    first.cancel()
    second = await send(api, form, SIGNUP, **NEW)
    assert first.cancelled() or first.done()
    assert await kinds() == ["verify_email"]
    assert (await send(api, second, CODE, code=await right_code())).status_code == 303


@pytest.mark.usefixtures("required")
async def test_the_first_is_refused(api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the second one signs up: it does not wait for what will not come."""
    form = await api.get("/account/signup")
    sign_up, begun = own_account.sign_up, 0

    async def full(**more: Any) -> SignedUp:
        nonlocal begun
        begun += 1
        if begun == 1:
            await asyncio.sleep(0.02)
            raise Overloaded
        return await sign_up(**more)

    monkeypatch.setattr(own_account, "sign_up", full)
    monkeypatch.setattr(second_clicks, "_WAITS_FOR_ACT_S", (0.0, 0.05, 60.0))
    both = await asyncio.gather(*[send(api, form, SIGNUP, **NEW) for _ in range(2)])
    assert sorted(one.status_code for one in both) == [200, 503]
    assert await kinds() == ["verify_email"]


@pytest.mark.usefixtures("required")
@pytest.mark.parametrize("ends", [False, True])
async def test_the_first_takes_too_long(api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    """The second one signs up after its wait. Where the first one has done so meanwhile, it shows the first's page."""
    form = await api.get("/account/signup")
    sign_up, begun, goes_on = own_account.sign_up, 0, asyncio.Event()

    async def late(**more: Any) -> SignedUp:
        nonlocal begun
        begun += 1
        if begun == 1:
            await goes_on.wait()
        elif ends:
            goes_on.set()
            await first
        return await sign_up(**more)

    monkeypatch.setattr(own_account, "sign_up", late)
    monkeypatch.setattr(second_clicks, "_WAITS_FOR_ACT_S", (0.0,))
    first = asyncio.create_task(send(api, form, SIGNUP, **NEW))
    await asyncio.sleep(0.05)
    second = await send(api, form, SIGNUP, **NEW)
    goes_on.set()
    await first
    assert await kinds() == ["verify_email", "account_exists"]
    assert (await send(api, second, CODE, code=await right_code())).status_code == 303


@pytest.mark.parametrize("known", [False, True])
async def test_a_code_to_sign_in_with(api: httpx.AsyncClient, member: Member, settings: Settings, known: bool) -> None:
    """Two clicks have one message sent, and its code is right on either page; a later click sends another."""
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    email = member["email"] if known else "nobody@example.com"
    asks = await send(api, await api.get("/account/signin"), BY_EMAIL)
    both = await asyncio.gather(*[send(api, asks, BY_EMAIL, email=email) for _ in range(2)])
    both.append(await send(api, asks, BY_EMAIL, email=email))
    (code_id,) = {code_id_of(one) for one in both}
    assert await kinds() == ["sign_in_code"]
    if known:
        row = await EmailToken.objects.aget(user__isnull=False)
        assert (await send(api, both[1], CODE, code=email_tokens.code(row))).status_code == 303
    with clock.shifted(WITHIN_S + 1):
        assert code_id_of(await send(api, asks, BY_EMAIL, email=email)) != code_id


@pytest.mark.usefixtures("required")
@pytest.mark.parametrize("how", ["later", "another browser", "another password"])
async def test_what_is_no_second_click(api: httpx.AsyncClient, client: OAuthClient, how: str) -> None:
    """It is a sign-up with a taken address, whose page asks for a code that does not exist."""
    page = await authorize(api, client)
    form = await send(api, page, SIGNUP)
    await send(api, form, SIGNUP, **NEW)
    if how == "another browser":
        api.cookies.clear()
        form = await send(api, await authorize(api, client), SIGNUP)
    shift = WITHIN_S + 1 if how == "later" else 0
    changes = {"password": f"{PASSWORD} too"} if how == "another password" else {}
    right = await right_code()
    with clock.shifted(shift):
        second = await send(api, form, SIGNUP, **NEW | changes)
        assert is_page(second, 200, "Check your e-mail")
        assert is_page(await send(api, second, CODE, code=right), 401, "The code is wrong")
    assert await kinds() == ["verify_email", "account_exists"]


async def test_a_taken_address_stays_a_secret(api: httpx.AsyncClient, member: Member, settings: Settings) -> None:
    """Twice the same page, as for a new address; its owner gets one message for one double click."""
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    texts = []
    for email in (member["email"], "new@example.com"):
        form = await api.get("/account/signup")
        pages = [await send(api, form, SIGNUP, **NEW | {"email": email}) for _ in range(2)]
        texts += [one.text.replace(form_to(one, CODE).fields["request"], "").replace(email, "") for one in pages]
    assert len(set(texts)) == 1
    assert await kinds() == ["account_exists", "verify_email"]


async def test_where_nothing_has_to_be_proved(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """The second click leads where the first one led, in the same session."""
    form = await send(api, await authorize(api, client), SIGNUP)
    before = dict(api.cookies)
    first = await send(api, form, SIGNUP, **NEW)
    api.cookies.clear()
    api.cookies.update(before)
    second = await send(api, form, SIGNUP, **NEW)
    assert answered(first)["code"] != answered(second)["code"]
    assert first.cookies["sso"] == second.cookies["sso"]
    assert await Session.objects.acount() == 1
    other = await send(api, form, SIGNUP, **NEW | {"name": "Another"})
    assert is_page(other, 409, "email-problem")


async def test_at_the_same_moment(api: httpx.AsyncClient) -> None:
    """Of two at once one account is left; the second answer waits a moment for the first one's session."""
    form = await api.get("/account/signup")
    both = await asyncio.gather(*[send(api, form, SIGNUP, **NEW) for _ in range(2)])
    assert sorted(one.status_code for one in both) in ([303, 303], [303, 409])
    assert await User.objects.acount() == 1
