"""A sign-up that is sent twice by one double click: the second answer is the page that the first one got."""

import asyncio

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http import second_clicks
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from tokens.clients.models import OAuthClient
from tokens.oauth.authorize.tests.test_sign_up_pages import CODE, NEW, SIGNUP
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


@pytest.mark.usefixtures("required")
async def test_both_under_way(api: httpx.AsyncClient, client: OAuthClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one has looked before the first one was done: it looks again afterwards."""
    form = await send(api, await authorize(api, client), SIGNUP)
    await send(api, form, SIGNUP, **NEW)
    first_of, looks = second_clicks.first_of, 0

    async def late(*args: object, **more: object) -> object:
        nonlocal looks
        looks += 1
        return None if looks == 1 else await first_of(*args, **more)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(second_clicks, "first_of", late)
    second = await send(api, form, SIGNUP, **NEW)
    assert looks == 2
    assert answered(await send(api, second, CODE, code=await right_code()))["code"]


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
