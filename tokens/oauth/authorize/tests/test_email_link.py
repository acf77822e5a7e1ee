"""The link in a message that signs in: by a button, once, and in no other browser than the one that asked."""

import asyncio

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.outbox import rendering
from accounts.outbox import tokens as email_tokens
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.outbox.queue import claim
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from tokens.clients.models import OAuthClient
from tokens.oauth import expiry
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.models import MailedPage
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, form_to, forms, is_page, send
from tokens.sessions.models import Session
from tokens.tests.browser import CROSS_SITE, Member, Pair
from tokens.tests.second_factor import enrol

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

EMAIL, CODE, LINK = "/oauth/signin/email", "/oauth/code", "/oauth/signin/link"


@pytest.fixture(autouse=True)
def _by_email(settings: Settings) -> None:
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """One of our own clients, which asks for no consent."""
    return (await sync_to_async(make_client)(trusted=True))[0]


@pytest.fixture
async def proved(member: Member) -> Member:
    """Somebody whose address is proved."""
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=clock.now())
    return member


async def ask(api: httpx.AsyncClient, first: httpx.Response, email: str) -> str:
    """Ask for a message on a sign-in page; return the link in it, without the issuer."""
    page = await send(api, await send(api, first, EMAIL), EMAIL, email=email)
    assert is_page(page, 200, "Check your e-mail")
    return await sync_to_async(link_of)(email)


def link_of(email: str) -> str:
    """Return the link in the newest message to this person."""
    mail = claim(OutgoingMail.objects.filter(recipient=email, kind="sign_in_code").latest("created_at").pk)
    assert mail is not None
    text = str(rendering.render(mail).body)
    link = next(line for line in text.splitlines() if LINK in line)
    assert mail.token is not None
    assert link.endswith(f"?token={mail.token}")
    assert mail.code is not None
    assert mail.code in text
    return link.removeprefix("http://localhost:8000")


async def test_it_goes_on_to_the_client(api: httpx.AsyncClient, client: OAuthClient, proved: Member) -> None:
    """GET shows a button and signs nobody in, however often; the button does, and the client gets its answer."""
    link = await ask(api, await authorize(api, client), proved["email"])
    sessions = await Session.objects.acount()
    for _ in range(2):
        page = await api.get(link)
        assert is_page(page, 200, "Sign in", proved["email"], client.name)
    assert (await api.head(link)).status_code == 200
    assert await Session.objects.acount() == sessions
    assert answered(await send(api, page, LINK))["code"]
    session = await Session.objects.alatest("created_at")
    assert (str(session.user_id), session.amr) == (proved["id"], "email")


async def test_it_goes_on_to_the_account(api: httpx.AsyncClient, proved: Member) -> None:
    """Without a client too, to the page that was wanted."""
    link = await ask(api, await api.get("/account/signin?next=/orders"), proved["email"])
    answer = await send(api, await api.get(link), LINK)
    assert (answer.status_code, answer.headers["location"]) == (303, "/orders")
    assert {"access_token", "refresh_token"} <= set(answer.cookies)


async def test_another_browser(api: httpx.AsyncClient, client: OAuthClient, proved: Member) -> None:
    """There the page has no form and says where to type the code, which still works; a filled-in form does nothing."""
    link = await ask(api, await authorize(api, client), proved["email"])
    form = form_to(await api.get(link), LINK).fields
    mine = dict(api.cookies)
    for others in ({}, {**mine, authorization_state.cookie_name(): authorization_state.new_browser()}):
        api.cookies.clear()
        api.cookies.update(others)
        page = await api.get(link)
        assert is_page(page, 200, "Go on where you began")
        assert not forms(page)
        assert proved["email"] not in page.text
        assert (await api.post(LINK, data=form)).status_code == 400
    api.cookies.clear()
    api.cookies.update(mine)
    assert (await api.post(LINK, data=form, headers=CROSS_SITE)).status_code == 403
    assert answered(await api.post(LINK, data=form))["code"]


async def test_a_strangers_link(api: httpx.AsyncClient, proved: Member, client: OAuthClient) -> None:
    """Who is sent another person's link, and has asked for one, is signed in by their own alone."""
    await sync_to_async(User.objects.create_user)("stranger@example.com", PASSWORD, email_verified_at=clock.now())
    theirs = await ask(api, await authorize(api, client), "stranger@example.com")
    api.cookies.clear()
    link = await ask(api, await authorize(api, client), proved["email"])
    assert is_page(await api.get(theirs), 200, "Go on where you began")
    form = form_to(await api.get(link), LINK).fields
    crossed = {**form, "token": theirs.partition("token=")[2]}
    assert is_page(await api.post(LINK, data=crossed), 400, "no longer works")
    assert answered(await api.post(LINK, data=form))["code"]


async def test_once(api: httpx.AsyncClient, proved: Member) -> None:
    """Of several at the same moment one opens a session, where all of them end; of link and code one counts."""
    link = await ask(api, await api.get("/account/signin"), proved["email"])
    page = await api.get(link)
    answers = await asyncio.gather(*(send(api, page, LINK) for _ in range(4)))
    assert {(answer.status_code, answer.headers["location"]) for answer in answers} == {(303, "/account/security")}
    assert len({answer.cookies["refresh_token"] for answer in answers}) == 1
    assert await Session.objects.filter(amr="email").acount() == 1
    assert is_page(await api.get(link), 400)
    assert not await EmailToken.objects.filter(purpose="sign_in").aexists()


async def test_it_expires(api: httpx.AsyncClient, proved: Member, still_clock: float) -> None:
    """It opens within the ten minutes after its sending, and not then."""
    link = await ask(api, await api.get("/account/signin"), proved["email"])
    page = await api.get(link)
    with clock.shifted(60 * email_tokens.SIGN_IN_MIN - 1):
        assert is_page(await api.get(link), 200, "Sign in")
    with clock.shifted(60 * email_tokens.SIGN_IN_MIN):
        assert is_page(await api.get(link), 400)
        assert is_page(await send(api, page, LINK), 400, "no longer works")


async def test_a_second_factor_is_asked_for(api: httpx.AsyncClient, proved: Member, pair: Pair) -> None:
    """The link is as weak as a password."""
    app, _ = await enrol(api, pair)
    link = await ask(api, await api.get("/account/signin"), proved["email"])
    step = await send(api, await api.get(link), LINK)
    assert is_page(step, 200, "One more step")
    assert (await send(api, step, "/oauth/signin/code", code=app.code(1))).status_code == 303


async def test_the_first_proof(api: httpx.AsyncClient, member: Member, pair: Pair) -> None:
    """Where nobody had proved the address, the account starts clean, as by the code."""
    await enrol(api, pair)
    link = await ask(api, await api.get("/account/signin"), member["email"])
    assert (await send(api, await api.get(link), LINK)).status_code == 303
    user = await User.objects.aget(pk=member["id"])
    assert user.email_verified_at is not None
    assert not user.has_usable_password()


async def test_invented_links_are_bounded(api: httpx.AsyncClient, throttled: None, settings: Settings) -> None:
    """Each is refused, and after the limit at once."""
    settings.IRONAUTH_THROTTLE_BAD_EMAIL_TOKENS = 3
    statuses = [(await api.get(LINK, params={"token": "x"})).status_code for _ in range(4)]
    assert statuses == [400] * 3 + [429]


async def test_off(api: httpx.AsyncClient, proved: Member, settings: Settings) -> None:
    """Links of before open nothing where the operator has changed their mind."""
    link = await ask(api, await api.get("/account/signin"), proved["email"])
    page = await api.get(link)
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = False
    assert (await api.get(link)).status_code == 404
    assert (await send(api, page, LINK)).status_code == 404


async def test_pages_that_wait_are_written_for_everybody_and_purged(api: httpx.AsyncClient, proved: Member) -> None:
    """An unknown address costs the same row; an hour after its end it is gone, and not before."""
    for email in ("nobody@example.com", proved["email"]):
        await send(api, await send(api, await api.get("/account/signin"), EMAIL), EMAIL, email=email)
    assert await MailedPage.objects.acount() == 2
    purge = sync_to_async(expiry.purge)
    with clock.shifted(authorization_state.LIFE_S + expiry.KEEP_S - 5):
        assert await purge(MailedPage, batch=10) == 0
    with clock.shifted(authorization_state.LIFE_S + expiry.KEEP_S + 5):
        assert await purge(MailedPage, batch=10) == 2
