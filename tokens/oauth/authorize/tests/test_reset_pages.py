"""A new password on the way of a sign-in: it ends where it was to end, in the browser that asked, and nowhere else."""

import asyncio

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from accounts.outbox import rendering
from accounts.outbox.models import EmailToken, OutgoingMail
from accounts.outbox.queue import claim
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from tokens.clients.models import OAuthClient
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.models import MailedPage
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, form_to, forms, is_page, send
from tokens.sessions.models import Session
from tokens.tests.browser import CROSS_SITE, Member, Pair
from tokens.tests.second_factor import enrol

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

FORGOT, RESET, SIGNIN, CODE = "/oauth/forgot", "/oauth/reset", "/oauth/signin", "/oauth/code"
NEW = "seven amber kites over Lyon"


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """One of our own clients, which asks for no consent."""
    return (await sync_to_async(make_client)(trusted=True))[0]


@pytest.fixture
async def proved(member: Member) -> Member:
    """Somebody whose address is proved."""
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=clock.now())
    return member


async def forgot(api: httpx.AsyncClient, first: httpx.Response, email: str) -> httpx.Response:
    """Ask for a message on a sign-in page; return the page that says that it is on its way."""
    page = await send(api, await send(api, first, FORGOT), FORGOT, email=email)
    assert is_page(page, 200, "Check your e-mail")
    return page


def link_of(email: str) -> str:
    """Return the link in the message to this person: an address with a random token, and nothing else."""
    mail = claim(OutgoingMail.objects.filter(recipient=email, kind="reset_password").latest("created_at").pk)
    assert mail is not None
    text = str(rendering.render(mail).body)
    link = next(line for line in text.splitlines() if RESET in line)
    assert link == f"http://localhost:8000{RESET}?token={mail.token}"
    return link.removeprefix("http://localhost:8000")


async def test_it_ends_at_the_client(api: httpx.AsyncClient, client: OAuthClient, proved: Member, pair: Pair) -> None:
    """Sessions of before are over, the new password is set, and the client gets its answer."""
    await forgot(api, await authorize(api, client), proved["email"])
    link = await sync_to_async(link_of)(proved["email"])
    page = await api.get(link)
    assert is_page(page, 200, "Choose a new password", client.name)
    assert await User.objects.filter(pk=proved["id"], session_epoch=0).aexists()  # nothing happens by GET
    assert answered(await send(api, page, RESET, new_password=NEW))["code"]
    user = await User.objects.aget(pk=proved["id"])
    assert await user.acheck_password(NEW)
    session = await Session.objects.filter(user_id=user.pk).alatest("created_at")
    assert (session.epoch, session.amr) == (user.session_epoch, "pwd")
    with clock.shifted(WITHIN_S):
        assert is_page(await send(api, page, RESET, new_password=NEW), 400, "used before")
    assert is_page(await api.get(link), 400, "used before")


async def test_it_ends_at_the_account(api: httpx.AsyncClient, proved: Member) -> None:
    """Without a client too, on the page that was wanted."""
    await forgot(api, await api.get("/account/signin?next=/orders"), proved["email"])
    page = await api.get(await sync_to_async(link_of)(proved["email"]))
    answer = await send(api, page, RESET, new_password=NEW)
    assert (answer.status_code, answer.headers["location"]) == (303, "/orders")
    assert {"access_token", "refresh_token"} <= set(answer.cookies)


async def test_another_browser(api: httpx.AsyncClient, client: OAuthClient, proved: Member) -> None:
    """The password is set, nobody is signed in, and the page says where to go on; there the sign-in goes on."""
    waits = await forgot(api, await authorize(api, client), proved["email"])
    link = await sync_to_async(link_of)(proved["email"])
    filled = form_to(await api.get(link), RESET).fields
    mine = dict(api.cookies)
    sessions = await Session.objects.acount()
    for others in ({}, {authorization_state.cookie_name(): authorization_state.new_browser()}):
        api.cookies.clear()
        api.cookies.update(others)
        page = await api.get(link)
        assert is_page(page, 200, "Choose a new password")
        assert "request" not in form_to(page, RESET).fields
        stolen = await api.post(RESET, data={**filled, "new_password": NEW})
        assert is_page(stolen, 400, "another browser")
    done = await send(api, page, RESET, new_password=NEW)
    assert is_page(done, 200, "Your password was changed", client.name, 'href="https://app.example.com/"')
    assert not forms(done)
    assert not {"access_token", "refresh_token"} & set(done.cookies)
    assert await Session.objects.acount() == sessions
    api.cookies.clear()
    api.cookies.update(mine)
    again = await send(api, waits, SIGNIN)
    assert answered(await send(api, again, SIGNIN, email=proved["email"], password=NEW))["code"]


async def test_another_site(api: httpx.AsyncClient, client: OAuthClient, proved: Member) -> None:
    """A form of another site asks for nothing and signs nobody in."""
    page = await authorize(api, client)
    filled = {**form_to(page, FORGOT).fields, "email": proved["email"], "send": "1"}
    assert (await api.post(FORGOT, data=filled, headers=CROSS_SITE)).status_code == 403
    await forgot(api, page, proved["email"])
    link = await sync_to_async(link_of)(proved["email"])
    filled = {**form_to(await api.get(link), RESET).fields, "new_password": NEW}
    assert (await api.post(RESET, data=filled, headers=CROSS_SITE)).status_code == 403
    assert answered(await api.post(RESET, data=filled))["code"]


async def test_another_persons_link(api: httpx.AsyncClient, client: OAuthClient, proved: Member) -> None:
    """With the form of one's own reset it sets the password it is for, and signs nobody in."""
    await sync_to_async(User.objects.create_user)("other@example.com", PASSWORD, email_verified_at=clock.now())
    await forgot(api, await authorize(api, client), "other@example.com")
    theirs = (await sync_to_async(link_of)("other@example.com")).partition("token=")[2]
    api.cookies.clear()
    await forgot(api, await authorize(api, client), proved["email"])
    filled = form_to(await api.get(await sync_to_async(link_of)(proved["email"])), RESET).fields
    sessions = await Session.objects.acount()
    crossed = await api.post(RESET, data={**filled, "token": theirs, "new_password": NEW})
    assert is_page(crossed, 200, "Your password was changed")
    assert await Session.objects.acount() == sessions
    assert await (await User.objects.aget(email="other@example.com")).acheck_password(NEW)
    assert await (await User.objects.aget(pk=proved["id"])).acheck_password(PASSWORD)


async def test_a_second_factor_is_asked_for(
    api: httpx.AsyncClient, client: OAuthClient, proved: Member, pair: Pair
) -> None:
    """Who reads somebody's mail has not what they sign in with."""
    app, _ = await enrol(api, pair)
    await forgot(api, await authorize(api, client), proved["email"])
    page = await api.get(await sync_to_async(link_of)(proved["email"]))
    step = await send(api, page, RESET, new_password=NEW)
    assert is_page(step, 200, "One more step", "Your new password is set.")
    assert answered(await send(api, step, "/oauth/signin/code", code=app.code(1)))["code"]
    api.cookies.clear()
    step = await by_password(api, await authorize(api, client), proved["email"], NEW)
    assert is_page(step, 200, "One more step")
    assert "Your new password is set." not in step.text


async def test_a_refused_password(api: httpx.AsyncClient, client: OAuthClient, proved: Member) -> None:
    """The reasons are on the page, here and elsewhere, and the link works on."""
    await forgot(api, await authorize(api, client), proved["email"])
    link = await sync_to_async(link_of)(proved["email"])
    mine = dict(api.cookies)
    for cookies in ({}, mine):
        api.cookies.clear()
        api.cookies.update(cookies)
        page = await api.get(link)
        for bad in ("short", "password password", ""):
            page = await send(api, page, RESET, new_password=bad)
            assert is_page(page, 400, 'id="reasons"')
    assert answered(await send(api, page, RESET, new_password=NEW))["code"]


async def test_of_two_at_once_one_counts(api: httpx.AsyncClient, client: OAuthClient, proved: Member) -> None:
    """The other one is told that the link was used."""
    await forgot(api, await authorize(api, client), proved["email"])
    page = await api.get(await sync_to_async(link_of)(proved["email"]))
    words = (NEW, "nine purple lamps in Porto")
    answers = await asyncio.gather(*(send(api, page, RESET, new_password=word) for word in words))
    assert sorted(answer.status_code for answer in answers) == [303, 400]
    won = words[[answer.status_code for answer in answers].index(303)]
    assert await (await User.objects.aget(pk=proved["id"])).acheck_password(won)


async def test_a_page_that_waited_too_long(api: httpx.AsyncClient, client: OAuthClient, proved: Member) -> None:
    """The link still sets the password for as long as it works; the sign-in begins again."""
    await forgot(api, await authorize(api, client), proved["email"])
    link = await sync_to_async(link_of)(proved["email"])
    with clock.shifted(authorization_state.LIFE_S + 1):
        await EmailToken.objects.aupdate(expires_at=clock.now().replace(year=clock.now().year + 1))
        page = await api.get(link)
        assert "request" not in form_to(page, RESET).fields
        assert is_page(await send(api, page, RESET, new_password=NEW), 200, "Your password was changed")


async def test_a_client_that_is_gone(api: httpx.AsyncClient, client: OAuthClient, proved: Member) -> None:
    """A client that staff have disabled meanwhile keeps nobody from a new password."""
    await forgot(api, await authorize(api, client), proved["email"])
    link = await sync_to_async(link_of)(proved["email"])
    await sync_to_async(_disable)(client)
    done = await send(api, await api.get(link), RESET, new_password=NEW)
    assert is_page(done, 200, "Your password was changed")
    assert client.name not in done.text


def _disable(client: OAuthClient) -> None:
    client.disabled_at = clock.now()
    client.save()


async def test_nobody_learns_who_has_an_account(api: httpx.AsyncClient, client: OAuthClient, proved: Member) -> None:
    """The page is the same for unknown, inactive and known addresses, and so are the rows; one gets a message."""
    seen = []
    for email, active in (("nobody@example.com", True), (proved["email"], False), (proved["email"], True)):
        await User.objects.filter(pk=proved["id"]).aupdate(is_active=active)
        await MailedPage.objects.all().adelete()
        page = await forgot(api, await authorize(api, client), email)
        states = {field for form in forms(page) for field in form.fields.values()}
        text = page.text.replace(email, "")
        for state in states:
            text = text.replace(state, "")
        seen.append((text, await MailedPage.objects.acount()))
        assert await OutgoingMail.objects.filter(recipient=email).aexists() == (email == proved["email"] and active)
    assert len(set(seen)) == 1


async def test_bad_addresses_and_too_many_messages(
    api: httpx.AsyncClient, client: OAuthClient, proved: Member, throttled: None, settings: Settings
) -> None:
    """Both are told on the page, which keeps what was typed."""
    page = await send(api, await authorize(api, client), FORGOT)
    bad = await send(api, page, FORGOT, email="no address")
    assert is_page(bad, 400, 'id="email-problem"', "no address")
    for _ in range(settings.IRONAUTH_THROTTLE_MAILS_TO_ONE):
        assert (await send(api, page, FORGOT, email=proved["email"])).status_code == 200
    refused = await send(api, page, FORGOT, email=proved["email"])
    assert is_page(refused, 429, "too many attempts", proved["email"])
    assert refused.headers["retry-after"]


async def test_its_state_is_good_for_no_code(api: httpx.AsyncClient, client: OAuthClient, proved: Member) -> None:
    """The page that waits for a reset asks for no code, whatever is sent to where codes are judged."""
    waits = await forgot(api, await authorize(api, client), proved["email"])
    filled = {**form_to(waits, SIGNIN).fields, "code": "000000"}
    assert is_page(await api.post(CODE, data=filled), 400)
    assert is_page(await api.post(CODE, data={**filled, "again": "1"}), 400)
