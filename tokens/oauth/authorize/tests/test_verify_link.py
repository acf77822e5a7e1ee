"""The link of a sign-up's message, and another message: on to the client in the browser that asked, nowhere else."""

import asyncio
import re

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.outbox import rendering
from accounts.outbox.models import OutgoingMail
from accounts.outbox.queue import claim
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock, constant_time
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from tokens.clients.models import OAuthClient
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.models import MailedPage
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, form_to, forms, is_page, send
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.tests.browser import CROSS_SITE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

SIGNUP, CODE, SIGNIN = "/oauth/signup", "/oauth/code", "/oauth/signin"
VERIFY, AGAIN, FORGOT = "/oauth/verify", "/oauth/verify-again", "/oauth/forgot"
EMAIL = "walt@example.com"
OTHER = "seven amber kites over Lyon"
CODE_LINE = re.compile(r"^\d{6}$", re.MULTILINE)


@pytest.fixture(autouse=True)
def _proof_required(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.IRONAUTH_EMAIL_VERIFICATION = "required"
    monkeypatch.setattr(constant_time, "STEP_S", 0.001)  # times are the business of other tests


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """One of our own clients, which asks for no consent."""
    return (await sync_to_async(make_client)(trusted=True))[0]


async def sign_up(api: httpx.AsyncClient, first: httpx.Response, email: str = EMAIL) -> httpx.Response:
    """Sign up from this page; return the one that waits for the code."""
    page = await send(api, await send(api, first, SIGNUP), SIGNUP, email=email, password=PASSWORD)
    assert is_page(page, 200, "Check your e-mail")
    return page


def message(kind: str = "verify_email", email: str = EMAIL) -> str:
    """Return the newest message of this kind."""
    mail = claim(OutgoingMail.objects.filter(recipient=email, kind=kind).latest("created_at").pk)
    assert mail is not None
    return str(rendering.render(mail).body)


async def link(email: str = EMAIL) -> str:
    """Return the link in the newest message."""
    return link_in(await sync_to_async(message)(email=email))


def link_in(text: str) -> str:
    """Return the link in a message: an address with a random token, and nothing else."""
    (line,) = (line for line in text.splitlines() if f"{VERIFY}?token=" in line)
    assert re.fullmatch(r"http://localhost:8000/oauth/verify\?token=[A-Za-z0-9_-]{64}", line)
    return line.removeprefix("http://localhost:8000")


async def is_proved(email: str = EMAIL) -> bool:
    """Tell whether the address is confirmed."""
    return (await User.objects.aget(email=email)).email_verified_at is not None


async def test_it_ends_at_the_client(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """GET changes nothing; the password confirms the address, signs in, and the client gets its answer; once."""
    await sign_up(api, await authorize(api, client))
    there = await link()
    page = await api.get(there)
    assert is_page(page, 200, "Confirm your e-mail address", f"to continue to <strong>{client.name}")
    assert not await is_proved()
    assert not await Session.objects.aexists()
    assert answered(await send(api, page, VERIFY, password=PASSWORD))["code"]
    assert await is_proved()
    assert await Session.objects.filter(amr="pwd").aexists()
    with clock.shifted(WITHIN_S):
        assert is_page(await send(api, page, VERIFY, password=PASSWORD), 400, "used before")
    assert is_page(await api.get(there), 400, "used before")


async def test_it_ends_at_the_account(api: httpx.AsyncClient) -> None:
    """Without a client too, on the page that was wanted."""
    await sign_up(api, await api.get("/account/signin?next=/orders"))
    answer = await send(api, await api.get(await link()), VERIFY, password=PASSWORD)
    assert (answer.status_code, answer.headers["location"]) == (303, "/orders")
    assert {"access_token", "refresh_token"} <= set(answer.cookies)


async def test_a_new_password_goes_on_too(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Who starts clean is signed in with the password that was chosen."""
    await sign_up(api, await authorize(api, client))
    page = await api.get(await link())
    filled = {"password": "", "new_password": OTHER, "answer": "choose"}
    assert answered(await send(api, page, VERIFY, **filled))["code"]
    assert await (await User.objects.aget(email=EMAIL)).acheck_password(OTHER)


async def test_a_wrong_password(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """The page gives the reason, keeps the way on, and the link works on."""
    await sign_up(api, await authorize(api, client))
    page = await api.get(await link())
    for wrong in ("not the password", ""):
        page = await send(api, page, VERIFY, password=wrong)
        assert is_page(page, 400, 'id="reasons"', client.name)
        assert not await is_proved()
    assert answered(await send(api, page, VERIFY, password=PASSWORD))["code"]


async def test_another_browser(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """The address is confirmed, nobody is signed in, and the page says where to go on; there the sign-in goes on."""
    waits = await sign_up(api, await authorize(api, client))
    text = await sync_to_async(message)()
    code, there = CODE_LINE.search(text), link_in(text)
    assert code
    filled = form_to(await api.get(there), VERIFY).fields
    mine = dict(api.cookies)
    for others in ({}, {authorization_state.cookie_name(): authorization_state.new_browser()}):
        api.cookies.clear()
        api.cookies.update(others)
        page = await api.get(there)
        assert "request" not in form_to(page, VERIFY).fields
        assert is_page(await api.post(VERIFY, data={**filled, "password": PASSWORD}), 400, "another browser")
        assert not await is_proved()
    done = await send(api, page, VERIFY, password=PASSWORD)
    assert is_page(done, 200, "Go back to where you began", client.name, 'href="https://app.example.com/"')
    assert "/account/signin" not in done.text
    assert not forms(done)
    assert not await Session.objects.aexists()
    api.cookies.clear()
    api.cookies.update(mine)
    refused = await send(api, waits, CODE, code=code[0])
    assert is_page(refused, 401, "Is the address confirmed already")
    again = await send(api, waits, CODE, again="1")
    assert is_page(again, 200, "unless the address is confirmed already")
    sign_in = await send(api, again, SIGNIN)
    assert is_page(sign_in, 200, client.name)
    assert answered(await by_password(api, sign_in, EMAIL))["code"]


async def test_the_code_still_works_when_the_link_was_only_opened(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Opening the page uses nothing up, in either browser."""
    waits = await sign_up(api, await authorize(api, client))
    text = await sync_to_async(message)()
    code = CODE_LINE.search(text)
    assert code
    await api.get(link_in(text))
    assert answered(await send(api, waits, CODE, code=code[0]))["code"]


async def test_another_site(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """A form of another site asks for nothing, confirms nothing and signs nobody in."""
    first = await authorize(api, client)
    await sign_up(api, first)
    filled = {**form_to(await api.get(await link()), VERIFY).fields, "password": PASSWORD}
    assert (await api.post(VERIFY, data=filled, headers=CROSS_SITE)).status_code == 403
    asks = {**form_to(first, AGAIN).fields, "email": EMAIL, "send": "1"}
    messages = await OutgoingMail.objects.acount()
    assert (await api.post(AGAIN, data=asks, headers=CROSS_SITE)).status_code == 403
    assert await OutgoingMail.objects.acount() == messages
    assert not await is_proved()


async def test_another_persons_link(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """With the form of one's own sign-up it confirms the address it is for, and signs nobody in."""
    await sign_up(api, await authorize(api, client), "other@example.com")
    theirs = (await link("other@example.com")).partition("token=")[2]
    api.cookies.clear()
    await sign_up(api, await authorize(api, client))
    filled = form_to(await api.get(await link()), VERIFY).fields
    crossed = await api.post(VERIFY, data={**filled, "token": theirs, "password": PASSWORD})
    assert is_page(crossed, 200, "Thank you")
    assert not await Session.objects.aexists()
    assert await is_proved("other@example.com")
    assert not await is_proved()


async def test_disowned(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Who says that it was not them is signed in nowhere."""
    await sign_up(api, await authorize(api, client))
    gone = await send(api, await api.get(await link()), VERIFY, answer="not_me")
    assert is_page(gone, 200, "That account has ended")
    assert not await Session.objects.aexists()


async def test_of_two_at_once_one_counts(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """A double click: both go on to the client, in one session."""
    await sign_up(api, await authorize(api, client))
    page = await api.get(await link())
    answers = await asyncio.gather(*(send(api, page, VERIFY, password=PASSWORD) for _ in range(2)))
    assert all(answered(answer)["code"] for answer in answers)
    assert await Session.objects.filter(client_id=SSO_CLIENT).acount() == 1


async def test_a_client_that_is_gone(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """A client that staff have disabled meanwhile keeps nobody from confirming."""
    await sign_up(api, await authorize(api, client))
    there = await link()
    client.disabled_at = clock.now()
    await sync_to_async(client.save)()
    done = await send(api, await api.get(there), VERIFY, password=PASSWORD)
    assert is_page(done, 200, "Thank you")
    assert client.name not in done.text
    assert await is_proved()


async def test_a_page_that_waited_too_long(api: httpx.AsyncClient, client: OAuthClient, settings: Settings) -> None:
    """The link confirms for as long as it works; the sign-in begins again."""
    settings.IRONAUTH_EMAIL_TOKEN_MIN = 60
    await sign_up(api, await authorize(api, client))
    there = await link()
    with clock.shifted(authorization_state.LIFE_S + 1):
        page = await api.get(there)
        assert "request" not in form_to(page, VERIFY).fields
        assert is_page(await send(api, page, VERIFY, password=PASSWORD), 200, "Thank you")


# ---------------------------------------------------------------- another message, and an account that is there already
async def test_another_message_keeps_the_client(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Asked for on the client's sign-in page, its link goes on to the client."""
    await sync_to_async(User.objects.create_user)(EMAIL, PASSWORD)
    asks = await send(api, await authorize(api, client), AGAIN)
    assert is_page(asks, 200, "Confirm your e-mail address", f"Back to {client.name}")
    assert is_page(await send(api, asks, SIGNIN), 200, client.name)
    assert is_page(await send(api, asks, AGAIN, email="no address"), 400, 'id="email-problem"', "no address")
    sent = await send(api, asks, AGAIN, email=EMAIL)
    assert is_page(sent, 200, "Check your e-mail", client.name)
    filled = {**form_to(sent, SIGNIN).fields, "code": "000000"}
    assert is_page(await api.post(CODE, data=filled), 400)  # it has no code
    assert answered(await send(api, await api.get(await link()), VERIFY, password=PASSWORD))["code"]


async def test_nobody_learns_who_has_an_account(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """The page is the same for unknown, confirmed and waiting addresses, and so are the rows; one gets a message."""
    user = await sync_to_async(User.objects.create_user)(EMAIL, PASSWORD)
    seen = []
    for email, proved_at in (("nobody@example.com", None), (EMAIL, clock.now()), (EMAIL, None)):
        await User.objects.filter(pk=user.pk).aupdate(email_verified_at=proved_at)
        await MailedPage.objects.all().adelete()
        page = await send(api, await send(api, await authorize(api, client), AGAIN), AGAIN, email=email)
        text = page.text.replace(email, "")
        for state in {field for form in forms(page) for field in form.fields.values()}:
            text = text.replace(state, "")
        seen.append((text, await MailedPage.objects.acount()))
        wanted = email == EMAIL and proved_at is None
        assert await OutgoingMail.objects.filter(recipient=email).aexists() == wanted
    assert len(set(seen)) == 1


async def test_too_many_messages(
    api: httpx.AsyncClient, client: OAuthClient, throttled: None, settings: Settings
) -> None:
    """As many as one mailbox may get, and no more; the page keeps what was typed."""
    page = await send(api, await authorize(api, client), AGAIN)
    for _ in range(settings.IRONAUTH_THROTTLE_MAILS_TO_ONE):
        assert (await send(api, page, AGAIN, email=EMAIL)).status_code == 200
    refused = await send(api, page, AGAIN, email=EMAIL)
    assert is_page(refused, 429, "too many attempts", EMAIL)


async def test_a_refusal_leads_there(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """A sign-in that is refused because of the password that staff asked for keeps the client, too."""
    await sync_to_async(User.objects.create_user)(
        EMAIL, PASSWORD, email_verified_at=clock.now(), must_change_password=True
    )
    refused = await by_password(api, await authorize(api, client), EMAIL)
    assert is_page(refused, 403, "Ask for a new password", 'form="remedy"')
    assert "/account/forgot" not in refused.text
    offered = [one for one in forms(refused) if one.action == FORGOT and one.fields.get("email") == EMAIL]
    assert offered
    for form in offered:
        assert is_page(await api.post(FORGOT, data=form.fields), 200, "Forgot your password?", EMAIL, client.name)


async def test_no_page_of_a_clients_sign_in_leaves_it(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Neither the sign-in page nor the one that waits has a link to a page that knows nothing of the client."""
    first = await authorize(api, client)
    for page in (first, await sign_up(api, first)):
        assert "/account/" not in page.text


async def test_an_account_that_is_there_already(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """The page that waits leads to the sign-in at the client, without the message, too."""
    await sync_to_async(User.objects.create_user)(EMAIL, PASSWORD, email_verified_at=clock.now())
    waits = await sign_up(api, await authorize(api, client))
    assert answered(await by_password(api, await send(api, waits, SIGNIN), EMAIL))["code"]
