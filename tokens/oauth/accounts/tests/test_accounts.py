"""Several people signed in in one browser: who is listed, who is chosen, and what ends with it."""

import asyncio
import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db.models import F

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.users.models import User
from accounts.users.services import account_snapshot
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients.models import OAuthClient
from tokens.clients.registry import read_client
from tokens.oauth import id_tokens
from tokens.oauth.models import AuthorizationCode, LogoutNotice
from tokens.oauth.tests.flow import signed_on
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, form_to, forms, is_page, say, send
from tokens.protocol import GrantType
from tokens.sessions import sso_session
from tokens.sessions.client_sessions import ConsentedAccess, open_client_session
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.tests.browser import CROSS_SITE

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.storage,
    pytest.mark.usefixtures("signing_key", "still_clock"),
]

ACCOUNT, LOGOUT, BEGIN = "/oauth/account", "/oauth/logout", "/oauth/device_authorization"
CHOICE = {"prompt": "select_account"}


@pytest.fixture
async def client(transactional_db: None) -> OAuthClient:
    """One of our own clients, which asks for no consent."""
    uris = {"backchannel_logout_uri": "https://app.example.com/out"}
    return (
        await sync_to_async(make_client)(trusted=True, post_logout_redirect_uris=["https://app.example.com/"], **uris)
    )[0]


async def person(name: str) -> User:
    """Return a new person, with the tests' password."""
    return await sync_to_async(User.objects.create_user)(
        email=f"{name}@example.com", password=PASSWORD, name=name.title()
    )


async def people_in(api: httpx.AsyncClient, client: OAuthClient, *names: str) -> list[User]:
    """Have these people sign in in this browser, one beside the other; the last one is the current one."""
    found = [await person(name) for name in names]
    for number, user in enumerate(found):
        page = await authorize(api, client, **CHOICE)
        if number:
            page = await send_choice(api, page, other="1")
        answered(await by_password(api, page, user.email))
    await AuthorizationCode.objects.all().adelete()
    return found


async def session_of(user: User) -> Session:
    """Return the person's SSO session."""
    return await Session.objects.aget(client_id=SSO_CLIENT, user=user)


async def send_choice(api: httpx.AsyncClient, page: httpx.Response, **pressed: Any) -> httpx.Response:
    """Press a button of the page that lists the accounts."""
    form = form_to(page, ACCOUNT)
    return await api.post(ACCOUNT, data={**form.fields, **{name: str(value) for name, value in pressed.items()}})


def listed(page: httpx.Response) -> list[str]:
    """Return the addresses that a page lists, from the top."""
    return re.findall(r'<span class="address">([^<]+)', page.text)


def ids(page: httpx.Response) -> list[str]:
    """Return the sessions that may be chosen, from the top."""
    return [one for form in forms(page) for one in form.buttons.get("account", ())]


async def taken() -> AuthorizationCode:
    """Return the code there is, and remove it: the next one is the only one again."""
    found = await AuthorizationCode.objects.select_related("user").aget()
    await AuthorizationCode.objects.all().adelete()
    return found


async def silently(api: httpx.AsyncClient, client: OAuthClient) -> str:
    """Ask without asking anybody; return whose code it is, or the error."""
    answer = answered(await authorize(api, client, prompt="none"))
    return answer.get("error") or (await taken()).user.email


async def held(client: OAuthClient, session: Session) -> uuid.UUID:
    """Open a session of the client in this SSO session, as a code does; return its id."""

    def unit() -> uuid.UUID:
        found, account = read_client(client.pk), account_snapshot(session.user_id)
        assert found is not None
        assert account is not None
        consented = ConsentedAccess(account, "openid", session.authenticated_at, session.amr, session.pk)
        opened = open_client_session(client=found, consented=consented, context=ClientContext())
        assert opened is not None
        return opened.session_id

    return await database().write(unit)


async def is_over(session_id: uuid.UUID) -> bool:
    """Tell whether a session has been revoked."""
    return (await Session.objects.aget(pk=session_id)).revoked_at is not None


# ------------------------------------------------------------------ the choice
async def test_nobody_is_there_to_choose(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Without an SSO session it is the page on which one signs in."""
    assert is_page(await authorize(api, client, **CHOICE), 200, "Password")


async def test_discovery_names_it(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Clients find the prompt in the metadata."""
    found = (await api.get("/.well-known/openid-configuration")).json()
    assert "select_account" in found["prompt_values_supported"]


async def test_the_one_who_is_there_is_listed(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """One account, with name and address; choosing it answers the client in its session."""
    (mia,) = await people_in(api, client, "mia")
    page = await authorize(api, client, **CHOICE)
    assert is_page(page, 200, "Choose an account", "Wiki", "Mia", "Use another account", "Sign out mia@example.com")
    assert listed(page) == [mia.email]
    assert answered(await send_choice(api, page, account=ids(page)[0]))["code"]
    assert (await taken()).sso_session_id == (await session_of(mia)).pk


async def test_one_signs_in_beside_the_other(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """*Use another account* keeps who was there; the last who signed in is the current one, and listed first."""
    mia, ben = await people_in(api, client, "mia", "ben")
    assert not await is_over((await session_of(mia)).pk)
    page = await authorize(api, client, **CHOICE)
    assert listed(page) == [ben.email, mia.email]
    assert await silently(api, client) == ben.email


async def test_who_is_chosen_is_the_current_one(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """The code is of their session, later requests are answered for them, and every session stays the same one."""
    mia, ben = await people_in(api, client, "mia", "ben")
    before = [(await session_of(one)).pk for one in (mia, ben)]
    page = await authorize(api, client, **CHOICE)
    assert answered(await send_choice(api, page, account=ids(page)[1]))["state"] == "st&te=1 é"
    code = await taken()
    assert (code.user, code.sso_session_id) == (mia, before[0])
    assert await silently(api, client) == mia.email
    assert listed(await authorize(api, client, **CHOICE)) == [mia.email, ben.email]
    assert [(await session_of(one)).pk for one in (mia, ben)] == before


@pytest.mark.parametrize(
    ("more", "since", "asked"),
    [
        ({"max_age": "60"}, 60, False),
        ({"max_age": "60"}, 61, True),
        ({"prompt": "select_account login"}, 0, True),
    ],
)
async def test_the_session_of_who_is_chosen_is_judged(
    api: httpx.AsyncClient, client: OAuthClient, more: dict[str, str], since: int, asked: bool
) -> None:
    """Theirs, and not that of the current one: too long ago, or ``prompt=login``, and their password is asked for."""
    mia, ben = await people_in(api, client, "mia", "ben")
    past = clock.now() - timedelta(seconds=since - 0.5)
    await Session.objects.filter(user=mia).aupdate(authenticated_at=past)
    page = await authorize(api, client, **{**CHOICE, **more})
    assert listed(page) == [ben.email, mia.email]
    answer = await send_choice(api, page, account=ids(page)[1])
    if asked:
        assert is_page(answer, 200, "Password", f'value="{mia.email}"')
        answer = await by_password(api, answer, mia.email)
    assert answered(answer)["code"]
    assert (await taken()).user == mia
    assert await Session.objects.filter(client_id=SSO_CLIENT, revoked_at=None).acount() == 2


async def test_consent_is_asked_of_who_is_chosen(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Somebody else's client asks them, whatever the current one has allowed; *Use another account* lists all again."""
    paint, _ = await sync_to_async(make_client)(name="Paint")
    mia, ben = await people_in(api, client, "mia", "ben")
    answered(await say(api, await authorize(api, paint), "allow"))
    await taken()
    page = await authorize(api, paint, **CHOICE)
    answered(await send_choice(api, page, account=ids(page)[0]))
    await taken()
    page = await send_choice(api, page, account=ids(page)[1])
    assert is_page(page, 200, "Allow Paint?", mia.email)
    again = await say(api, page, "switch")
    assert listed(again) == [mia.email, ben.email]
    answered(await say(api, page, "allow"))
    assert (await taken()).user == mia


async def test_a_device_waits_for_who_is_chosen(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """*Use another account* of a device's page lists them; who is chosen is asked whether the device is theirs."""
    mia, ben = await people_in(api, client, "mia", "ben")
    tv, secret = await sync_to_async(make_client)(name="Cinema", grants=[GrantType.DEVICE_CODE.value])
    begun = (await api.post(BEGIN, data={"scope": "openid"}, auth=(str(tv.pk), secret))).json()
    page = await api.post("/oauth/device", data={"user_code": begun["user_code"]})
    assert is_page(page, 200, "Is this your device?", ben.email)
    page = await say(api, page, "switch")
    assert listed(page) == [ben.email, mia.email]
    page = await send_choice(api, page, account=ids(page)[1])
    assert is_page(page, 200, "Is this your device?", mia.email, begun["user_code"])
    assert is_page(await say(api, page, "allow"), 200, "Your device is connected")
    asked = {"grant_type": GrantType.DEVICE_CODE.value, "device_code": begun["device_code"]}
    assert (await api.post("/oauth/token", data=asked, auth=(str(tv.pk), secret))).status_code == 200
    assert (await Session.objects.aget(client_id=str(tv.pk))).user_id == mia.pk


async def test_another_client_than_was_chosen_for(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """A client that was disabled after its page was shown gets no answer, and nobody becomes the current one."""
    _mia, _ben = await people_in(api, client, "mia", "ben")
    page = await authorize(api, client, **CHOICE)
    await OAuthClient.objects.filter(pk=client.pk).aupdate(disabled_at=clock.now())
    await sync_to_async(client.refresh_from_db)()
    await sync_to_async(client.save)()
    cookie = api.cookies["sso"]
    assert is_page(await send_choice(api, page, account=ids(page)[1]), 400, "not known here")
    assert api.cookies["sso"] == cookie


async def test_who_is_back_stays_in_their_session(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Signing in as somebody who is listed renews that session: same ``sid``, another cookie; the other one stays."""
    mia, ben = await people_in(api, client, "mia", "ben")
    before = await session_of(mia)
    page = await send_choice(api, await authorize(api, client, **CHOICE), other="1")
    answered(await by_password(api, page, mia.email))
    after = await session_of(mia)
    assert (after.pk, after.revoked_at) == (before.pk, None)
    assert bytes(after.secret) != bytes(before.secret)
    assert listed(await authorize(api, client, **CHOICE)) == [mia.email, ben.email]


async def test_without_the_choice_nothing_changes(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Who signs in where they were not asked to choose ends the current session, and no other one."""
    mia, ben = await people_in(api, client, "mia", "ben")
    ann = await person("ann")
    page = await authorize(api, client, prompt="login")
    assert not listed(page)
    answered(await by_password(api, page, ann.email))
    assert await is_over((await session_of(ben)).pk)
    assert listed(await authorize(api, client, **CHOICE)) == [ann.email, mia.email]


async def test_five_at_most(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """The fifth person is signed in beside four; with a sixth the session ends that was used longest ago."""
    everybody = await people_in(api, client, "a", "b", "c", "d", "e")
    page = await authorize(api, client, **CHOICE)
    assert listed(page) == [one.email for one in reversed(everybody)]
    sixth = await person("f")
    answered(await by_password(api, await send_choice(api, page, other="1"), sixth.email))
    rest = [sixth, *reversed(everybody[1:])]
    assert listed(await authorize(api, client, **CHOICE)) == [one.email for one in rest]
    assert [await is_over((await session_of(one)).pk) for one in everybody] == [True, False, False, False, False]
    assert await sync_to_async(audit.wait_until_written)()
    assert [one.user_id async for one in AuditEvent.objects.filter(event="sign_out")] == [everybody[0].pk]


async def test_who_has_left_makes_room(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """A session that is over counts no more: nobody else's ends for a sixth sign-in."""
    everybody = await people_in(api, client, "a", "b", "c", "d", "e")
    await Session.objects.filter(user=everybody[3]).aupdate(revoked_at=clock.now())
    page = await send_choice(api, await authorize(api, client, **CHOICE), other="1")
    sixth = await person("f")
    answered(await by_password(api, page, sixth.email))
    assert listed(await authorize(api, client, **CHOICE)) == [
        one.email for one in (sixth, everybody[4], everybody[2], everybody[1], everybody[0])
    ]


# ------------------------------------------------------------------ what ends
async def _ended_by_staff(session: Session) -> None:
    await Session.objects.filter(pk=session.pk).aupdate(revoked_at=clock.now())


async def _everywhere(session: Session) -> None:
    users = User.objects.get_queryset().filter(pk=session.user_id)
    await sync_to_async(users.update)(session_epoch=F("session_epoch") + 1)


async def _deactivated(session: Session) -> None:
    await sync_to_async(User.objects.get_queryset().filter(pk=session.user_id).update)(is_active=False)


async def _idle(session: Session) -> None:
    await Session.objects.filter(pk=session.pk).aupdate(idle_expires_at=clock.now())


async def _deleted(session: Session) -> None:
    await (await User.objects.aget(pk=session.user_id)).adelete()


@pytest.mark.parametrize("end", [_ended_by_staff, _everywhere, _deactivated, _idle, _deleted])
@pytest.mark.parametrize("which", [0, 1])
async def test_a_session_that_is_over_is_left_out(
    api: httpx.AsyncClient, client: OAuthClient, which: int, end: Callable[[Session], Any]
) -> None:
    """Whatever ends it, the current one or another, it is listed no more, and choosing it opens nothing."""
    people = await people_in(api, client, "mia", "ben")
    old = await authorize(api, client, **CHOICE)
    gone, stays = people[which], people[1 - which]
    session = await session_of(gone)
    await end(session)
    page = await send_choice(api, old, account=session.pk)
    assert is_page(page, 200, "Choose an account")
    assert listed(page) == [stays.email]
    assert not await AuthorizationCode.objects.aexists()
    assert listed(await authorize(api, client, **CHOICE)) == [stays.email]
    assert await silently(api, client) == (stays.email if which == 0 else "login_required")


@pytest.mark.parametrize("which", [0, 1])
async def test_each_row_can_be_signed_out(api: httpx.AsyncClient, client: OAuthClient, which: int) -> None:
    """With what began in its session, and clients hear of it; the other one is as it was, and is chosen by nobody."""
    people = await people_in(api, client, "mia", "ben")
    gone, stays = people[which], people[1 - which]
    sessions = [await session_of(one) for one in (gone, stays)]
    children = [await held(client, one) for one in sessions]
    page = await authorize(api, client, **CHOICE)
    page = await send_choice(api, page, sign_out=sessions[0].pk)
    assert is_page(page, 200, "Choose an account", "Wiki")
    assert listed(page) == [stays.email]
    assert [await is_over(one) for one in (sessions[0].pk, children[0], sessions[1].pk, children[1])] == [
        True, True, False, False,
    ]  # fmt: skip
    notice = await LogoutNotice.objects.aget()
    assert (notice.session_id, notice.user_id) == (sessions[0].pk, gone.pk)
    assert await silently(api, client) == (stays.email if which == 0 else "login_required")
    last = await send_choice(api, page, sign_out=sessions[1].pk)
    assert is_page(last, 200, "Password")
    assert not {"sso", "sso_others"} & set(api.cookies)
    assert await sync_to_async(audit.wait_until_written)()
    assert await AuditEvent.objects.filter(event="sign_out").acount() == 2


async def test_signed_out_twice_at_once(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Two tabs sign the same account out at the same moment: it ends once, and clients hear of it once."""
    mia, ben = await people_in(api, client, "mia", "ben")
    session = await session_of(mia)
    await held(client, session)
    page = await authorize(api, client, **CHOICE)
    pages = await asyncio.gather(*(send_choice(api, page, sign_out=session.pk) for _ in range(6)))
    assert {tuple(listed(one)) for one in pages} == {(ben.email,)}
    assert await LogoutNotice.objects.acount() == 1
    assert await sync_to_async(audit.wait_until_written)()
    assert await AuditEvent.objects.filter(event="sign_out").acount() == 1


async def test_signed_in_twice_at_once(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Somebody who is listed signs in in tabs at the same moment: the other person's session stays as it was.

    Each tab gives the session another secret. Where the browser keeps the cookie of one that was not stored last, its
    person is not listed and signs in again.
    """
    mia, ben = await people_in(api, client, "mia", "ben")
    before = await session_of(ben)
    page = await send_choice(api, await authorize(api, client, **CHOICE), other="1")
    for answer in await asyncio.gather(*(by_password(api, page, mia.email) for _ in range(4))):
        assert answered(answer)["code"]
    after = await session_of(ben)
    assert (after.pk, after.revoked_at, bytes(after.secret)) == (before.pk, None, bytes(before.secret))
    assert listed(await authorize(api, client, **CHOICE)) in ([mia.email, ben.email], [ben.email])


async def test_after_the_current_one_has_left(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Nobody goes on as somebody they have not chosen: the next request asks who it is for."""
    mia, ben = await people_in(api, client, "mia", "ben")
    page = await authorize(api, client, **CHOICE)
    await send_choice(api, page, sign_out=(await session_of(ben)).pk)
    assert await silently(api, client) == "login_required"
    assert not listed(await authorize(api, client, prompt="login"))
    page = await authorize(api, client)
    assert listed(page) == [mia.email]
    answered(await send_choice(api, page, account=ids(page)[0]))
    assert (await taken()).user == mia


# ------------------------------------------------------------------ signing out at /oauth/logout
async def hint(client: OAuthClient, session: Session) -> str:
    """Return the ID token that the client got in this session."""
    found = await database().read(read_client, client.pk)
    account = await database().read(account_snapshot, session.user_id)
    assert found is not None
    assert account is not None
    given: dict[str, Any] = {"authenticated_at": clock.now(), "amr": "pwd", "session_id": session.pk}
    return await id_tokens.mint(client=found, account=account, scope="openid", **given)


@pytest.mark.parametrize("which", [0, 1])
async def test_a_client_signs_out_the_one_it_knows(api: httpx.AsyncClient, client: OAuthClient, which: int) -> None:
    """Its ID token names the session, current or not: that one ends without a question, the other one stays."""
    people = await people_in(api, client, "mia", "ben")
    sessions = [await session_of(one) for one in people]
    params = {
        "id_token_hint": await hint(client, sessions[which]),
        "post_logout_redirect_uri": "https://app.example.com/",
    }
    answer = await api.get(LOGOUT, params=params)
    assert (answer.status_code, answer.headers["location"]) == (303, "https://app.example.com/")
    assert [await is_over(one.pk) for one in sessions] == [which == 0, which == 1]
    assert listed(await authorize(api, client, **CHOICE)) == [people[1 - which].email]


async def test_an_id_token_of_another_browser_ends_nothing(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """A session that this browser does not bring is not ended by its ID token: the current one is asked."""
    mia, ben = await people_in(api, client, "mia", "ben")
    del api.cookies["sso_others"]
    page = await api.get(LOGOUT, params={"id_token_hint": await hint(client, await session_of(mia))})
    assert is_page(page, 200, "Sign out?", ben.email)
    assert not await is_over((await session_of(mia)).pk)


async def test_the_page_after_a_sign_out_lists_the_others(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """They may be signed out there too, or chosen, each only by what that page had for them."""
    mia, ben, ann = await people_in(api, client, "mia", "ben", "ann")
    page = await send(api, await api.get(LOGOUT), LOGOUT)
    assert is_page(page, 200, "You are signed out", "Use another account")
    assert listed(page) == [ben.email, mia.email]
    rows = [form for form in forms(page) if "confirmation" in form.fields]
    bens, mias = (form.fields["confirmation"] for form in rows)
    target = (await session_of(mia)).pk
    for wrong in (bens, "", "x"):
        answer = await api.post(ACCOUNT, data={"confirmation": wrong, "account": str(target)})
        assert is_page(answer, 400, "has expired")
    assert await silently(api, client) == "login_required"
    chosen = await api.post(ACCOUNT, data={"confirmation": mias, "account": str(target)})
    assert is_page(chosen, 200, "Accounts in this browser", f"use <strong>{mia.email}</strong> now")
    assert listed(chosen) == [mia.email, ben.email]
    assert await silently(api, client) == mia.email
    left = await api.post(ACCOUNT, data={"confirmation": bens, "sign_out": str((await session_of(ben)).pk)})
    assert listed(left) == [mia.email]
    last = await api.post(ACCOUNT, data={"confirmation": mias, "sign_out": str(target)})
    assert is_page(last, 200, "You are signed out", "You can close this page.")
    assert [await is_over((await session_of(one)).pk) for one in (mia, ben, ann)] == [True, True, True]
    assert not {"sso", "sso_others"} & set(api.cookies)


# ------------------------------------------------------------------ whose cookie, whose form
async def test_cookies_that_mean_nothing(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Forged, changed, cut, far too many: nobody is listed by them, and nothing fails."""
    mia, ben = await people_in(api, client, "mia", "ben")
    genuine, current = api.cookies["sso_others"], api.cookies["sso"]
    session = await session_of(mia)
    forged = sso_session.mint_cookie(session_id=session.pk, secret=bytes(32), master_key_id=session.master_key_id)
    flipped = genuine[:-1] + ("B" if genuine[-1] != "B" else "C")
    for value in ("x", ".", "....", genuine[:-1], genuine + "A", flipped, forged, "A" * 64, "A" * 5_000):
        api.cookies.set("sso_others", value, domain="testserver.local")
        assert listed(await authorize(api, client, **CHOICE)) == [ben.email], value
    for value in (genuine, f"{forged}.{genuine}", f"{genuine}.{genuine}", f"x..{genuine}", f"{genuine}.{current}"):
        api.cookies.set("sso_others", value, domain="testserver.local")
        assert listed(await authorize(api, client, **CHOICE)) == [ben.email, mia.email], value


async def test_more_than_five_in_a_cookie(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """What is named beyond the bound is not read."""
    everybody = await people_in(api, client, "a", "b", "c", "d", "e")
    first = api.cookies["sso_others"].split(".")
    api.cookies.set("sso_others", ".".join(["A" * 64, *first]), domain="testserver.local")
    assert listed(await authorize(api, client, **CHOICE)) == [one.email for one in reversed(everybody[1:])]


async def test_a_form_is_its_browsers(api: httpx.AsyncClient, client: OAuthClient) -> None:
    """Sent by another site, in another browser, or for a session that this browser does not bring: nothing happens."""
    mia, ben = await people_in(api, client, "mia", "ben")
    page = await authorize(api, client, **CHOICE)
    stranger = await sync_to_async(signed_on)((await person("eve")).pk)
    for chosen in (stranger.pk, uuid.uuid4(), "", "x", "é"):
        for button in ("account", "sign_out"):
            assert listed(await send_choice(api, page, **{button: chosen})) == [ben.email, mia.email]
    fields = form_to(page, ACCOUNT).fields
    data = {**fields, "account": ids(page)[1]}
    assert is_page(await api.post(ACCOUNT, data=data, headers=CROSS_SITE), 403)
    del api.cookies["authorize"]
    assert is_page(await api.post(ACCOUNT, data=data), 400, "has expired")
    assert not await AuthorizationCode.objects.aexists()
    assert not await is_over(stranger.pk)
    assert await silently(api, client) == ben.email


async def test_query_counts(api: httpx.AsyncClient, client: OAuthClient, statements: list[str]) -> None:
    """1 query an account that is named; without the choice what it was; as many with five accounts as with one."""
    await people_in(api, client, "a", "b", "c", "d", "e")
    counts = []
    for asked in ({"prompt": "none"}, CHOICE):
        statements.clear()
        await authorize(api, client, **asked)
        counts.append(len(statements))
    assert counts == [2, 5]
