"""A form that is sent twice within seconds: the second answer leads where the first one led, and to nothing more."""

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db.models import F
from django.http import QueryDict
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http import second_clicks
from ironauth.infrastructure.http.second_clicks import WITHIN_S
from ironauth.infrastructure.models import UsedOnce
from tokens.clients.models import OAuthClient
from tokens.oauth.authorize import state as authorization_state
from tokens.oauth.authorize.tests.test_email_link import LINK, ask
from tokens.oauth.authorize.tests.test_pushed_requests import Party, pushed
from tokens.oauth.authorize.tests.test_reset_pages import NEW, RESET, forgot, link_of
from tokens.oauth.authorize.tests.test_verify_link import CODE, CODE_LINE, message, sign_up
from tokens.oauth.consent import units as consents
from tokens.oauth.models import AuthorizationCode
from tokens.oauth.tests.material import REDIRECT_URI, make_client
from tokens.oauth.tests.walk import (
    AUTHORIZE,
    VERIFIER,
    answered,
    authorize,
    by_password,
    form_to,
    is_page,
    say,
    send,
)
from tokens.sessions.models import SSO_CLIENT, Session
from tokens.tests.browser import CROSS_SITE, Member, Pair
from tokens.tests.second_factor import enrol

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

SECOND_FACTOR, EMAIL_CODE = "/oauth/signin/code", "/oauth/signin/email"
WAITS_S = second_clicks._WAITS_S


@pytest.fixture(autouse=True)
def _by_email(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.IRONAUTH_SIGN_IN_BY_EMAIL = True
    monkeypatch.setattr(second_clicks, "_WAITS_S", (0.0,))  # nothing here is on its way


@pytest.fixture
async def party(transactional_db: None) -> Party:
    """One of our own clients, which asks for no consent; with its secret."""
    return await sync_to_async(make_client)(trusted=True)


@pytest.fixture
async def stranger(transactional_db: None) -> Party:
    """A client that has to push its requests, and that people are asked about; with its secret."""
    return await sync_to_async(make_client)(require_par=True)


@pytest.fixture
async def proved(member: Member) -> Member:
    """Somebody whose address is proved."""
    await User.objects.filter(pk=member["id"]).aupdate(email_verified_at=clock.now())
    return member


def without_answer(api: httpx.AsyncClient, before: dict[str, str]) -> None:
    """Have the browser drop the cookies of the last answer."""
    api.cookies.clear()
    api.cookies.update(before)


async def redeemed(api: httpx.AsyncClient, party: Party, code: str) -> httpx.Response:
    """Redeem a code."""
    shown = {"client_id": str(party[0].pk), "client_secret": party[1], "code_verifier": VERIFIER}
    data = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT_URI, **shown}
    return await api.post("/oauth/token", data=data)


async def link_page(api: httpx.AsyncClient, party: Party, member: Member) -> httpx.Response:
    """Return the page of a link that signs in on the way to a client."""
    return await api.get(await ask(api, await authorize(api, party[0]), member["email"]))


# ------------------------------------------------------------------------------------------- a link that signs in
async def test_a_link_leads_on_in_its_session(api: httpx.AsyncClient, party: Party, proved: Member) -> None:
    """Whose first answer was lost gets the same session, and a code in place of the one that nobody has seen."""
    page = await link_page(api, party, proved)
    before = dict(api.cookies)
    first = await send(api, page, LINK)
    without_answer(api, before)
    second = await send(api, page, LINK)
    codes = [answered(one)["code"] for one in (first, second)]
    assert len(set(codes)) == 2
    assert first.cookies["sso"] == second.cookies["sso"]
    assert await Session.objects.filter(client_id=SSO_CLIENT).acount() == 1
    assert (await redeemed(api, party, codes[0])).json()["error"] == "invalid_grant"
    assert (await redeemed(api, party, codes[1])).status_code == 200


async def test_a_redeemed_code_stays(api: httpx.AsyncClient, party: Party, proved: Member) -> None:
    """Where the client was faster than the second click, what it has got works on, and the second gets one, too."""
    page = await link_page(api, party, proved)
    first = answered(await send(api, page, LINK))["code"]
    tokens = (await redeemed(api, party, first)).json()
    second = answered(await send(api, page, LINK))["code"]
    assert (await redeemed(api, party, second)).status_code == 200
    headers = {"Authorization": f"Bearer {tokens['access_token']}"}
    assert (await api.get("/oauth/userinfo", headers=headers)).status_code == 200


@pytest.mark.parametrize(("after_s", "led"), [(WITHIN_S - 1, True), (WITHIN_S, False)])
async def test_it_leads_on_for_seconds(
    api: httpx.AsyncClient, party: Party, proved: Member, still_clock: float, after_s: int, led: bool
) -> None:
    """Ten seconds later the same form is too late."""
    page = await link_page(api, party, proved)
    assert answered(await send(api, page, LINK))["code"]
    with clock.shifted(after_s):
        second = await send(api, page, LINK)
        assert (second.status_code == 303) is led
        assert led or is_page(second, 400, "no longer works")


async def test_it_is_the_same_form_alone(api: httpx.AsyncClient, party: Party, proved: Member) -> None:
    """Not another browser's, another field's, another site's, nor that of a link whose first click failed."""
    page = await link_page(api, party, proved)
    filled, mine = form_to(page, LINK).fields, dict(api.cookies)
    assert (await api.post(LINK, data=filled, headers=CROSS_SITE)).status_code == 403
    assert answered(await api.post(LINK, data=filled))["code"]
    assert is_page(await api.post(LINK, data={**filled, "more": "1"}), 400, "no longer works")
    assert (await api.post(LINK, data=filled, headers=CROSS_SITE)).status_code == 403
    for others in ({}, {**mine, authorization_state.cookie_name(): authorization_state.new_browser()}):
        without_answer(api, others)
        assert is_page(await api.post(LINK, data=filled), 400, "another browser")
    without_answer(api, mine)
    forged = {**filled, "token": "A" * 64}
    for _ in range(2):
        assert is_page(await api.post(LINK, data=forged), 400, "no longer works")
    assert await Session.objects.filter(client_id=SSO_CLIENT).acount() == 1


@pytest.mark.parametrize("how", ["revoked", "expired", "epoch", "inactive", "disabled"])
async def test_not_where_the_first_ones_session_is_over(
    api: httpx.AsyncClient, party: Party, proved: Member, how: str
) -> None:
    """Who has left, has a new password, or may not sign in any more, is not signed in by the second click."""
    page = await link_page(api, party, proved)
    before = dict(api.cookies)
    assert answered(await send(api, page, LINK))["code"]
    found = Session.objects.filter(client_id=SSO_CLIENT)
    if how == "revoked":
        await found.aupdate(revoked_at=clock.now(), revoke_reason="signed_out")
    elif how == "expired":
        await found.aupdate(idle_expires_at=clock.now() - timedelta(seconds=1))
    elif how == "disabled":
        await OAuthClient.objects.filter(pk=party[0].pk).aupdate(disabled_at=clock.now())
        await sync_to_async(party[0].refresh_from_db)()
        await sync_to_async(party[0].save)()
    else:
        user = await User.objects.aget(pk=proved["id"])
        user.is_active = how != "inactive"
        user.session_epoch += 1
        await sync_to_async(user.save)()
    without_answer(api, before)
    second = await send(api, page, LINK)
    assert second.status_code == 400
    assert "sso" not in second.cookies
    assert "location" not in second.headers


async def test_a_link_to_the_account(api: httpx.AsyncClient, proved: Member) -> None:
    """The second click gets the same tokens; once they were refreshed, none."""
    page = await api.get(await ask(api, await api.get("/account/signin?next=/orders"), proved["email"]))
    before = dict(api.cookies)
    first = await send(api, page, LINK)
    without_answer(api, before)
    second = await send(api, page, LINK)
    assert (second.status_code, second.headers["location"]) == (303, "/orders")
    assert first.cookies["refresh_token"] == second.cookies["refresh_token"]
    assert (await api.post("/api/v1/access/refresh", headers={"Origin": "http://localhost:8000"})).status_code == 204
    without_answer(api, before)
    late = await send(api, page, LINK)
    assert is_page(late, 400, "no longer works")
    assert "refresh_token" not in late.cookies


async def test_a_link_of_somebody_with_a_second_factor(
    api: httpx.AsyncClient, party: Party, proved: Member, pair: Pair
) -> None:
    """Both clicks lead to the question for the code; a code answers one of them, and its second click leads on."""
    app, _ = await enrol(api, pair)
    page = await link_page(api, party, proved)
    first, second = [await send(api, page, LINK) for _ in range(2)]
    assert is_page(first, 200, "One more step")
    assert is_page(second, 200, "One more step")
    sessions = await Session.objects.filter(client_id=SSO_CLIENT).acount()
    before, code = dict(api.cookies), app.code()
    assert answered(await send(api, second, SECOND_FACTOR, code=code))["code"]
    without_answer(api, before)
    assert answered(await send(api, second, SECOND_FACTOR, code=code))["code"]
    assert await Session.objects.filter(client_id=SSO_CLIENT).acount() == sessions + 1
    without_answer(api, before)
    assert (await send(api, first, SECOND_FACTOR, code=code)).status_code == 401
    with clock.shifted(WITHIN_S):
        assert is_page(await send(api, second, SECOND_FACTOR, code=code), 401, "too long")


async def test_a_first_factor_of_before_asks_for_no_second_one(
    api: httpx.AsyncClient, party: Party, proved: Member, pair: Pair
) -> None:
    """Where all sessions were ended or the password changed between the clicks, the link is used up."""
    await enrol(api, pair)
    page = await link_page(api, party, proved)
    assert is_page(await send(api, page, LINK), 200, "One more step")
    assert is_page(await send(api, page, LINK), 200, "One more step")
    await User.objects.filter(pk=proved["id"]).aupdate(session_epoch=F("session_epoch") + 1)
    assert is_page(await send(api, page, LINK), 400, "The link no longer works")


# ----------------------------------------------------------------------------------------------- a mailed code
@pytest.mark.parametrize("signs_up", [True, False])
async def test_a_mailed_code_leads_on(
    api: httpx.AsyncClient, party: Party, proved: Member, settings: Settings, signs_up: bool
) -> None:
    """A code that signs in or up: both clicks go on in one session; a wrong code, and a late click, do not."""
    first = await authorize(api, party[0])
    if signs_up:
        settings.IRONAUTH_EMAIL_VERIFICATION = "required"
        page = await sign_up(api, first)
        found = CODE_LINE.search(await sync_to_async(message)())
    else:
        page = await send(api, await send(api, first, EMAIL_CODE), EMAIL_CODE, email=proved["email"])
        found = CODE_LINE.search(await sync_to_async(message)("sign_in_code", proved["email"]))
    assert found
    wrong = f"{(int(found[0]) + 1) % 10**6:06}"
    for _ in range(2):
        assert (await send(api, page, CODE, code=wrong)).status_code == 401
    before = dict(api.cookies)
    for _ in range(2):
        without_answer(api, before)
        assert answered(await send(api, page, CODE, code=found[0]))["code"]
    assert await Session.objects.filter(client_id=SSO_CLIENT).acount() == 1
    with clock.shifted(WITHIN_S):
        assert (await send(api, page, CODE, code=found[0])).status_code == 401


# ---------------------------------------------------------------------------------------------- a new password
async def reset_page(api: httpx.AsyncClient, party: Party, member: Member) -> httpx.Response:
    """Return the page that asks for a new password on the way to a client."""
    await forgot(api, await authorize(api, party[0]), member["email"])
    return await api.get(await sync_to_async(link_of)(member["email"]))


async def test_a_new_password_leads_on(api: httpx.AsyncClient, party: Party, proved: Member) -> None:
    """Both clicks lead to the client in one session; another password in the second one is not set."""
    page = await reset_page(api, party, proved)
    before = dict(api.cookies)
    for _ in range(2):
        without_answer(api, before)
        assert answered(await send(api, page, RESET, new_password=NEW))["code"]
    assert await Session.objects.filter(client_id=SSO_CLIENT).acount() == 1
    assert is_page(await send(api, page, RESET, new_password=f"{NEW} too"), 400, "used before")
    assert await (await User.objects.aget(pk=proved["id"])).acheck_password(NEW)


async def test_two_at_once_set_one_password(
    api: httpx.AsyncClient, party: Party, proved: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both hash; the slower one finds the link used up, and is led on."""
    monkeypatch.setattr(second_clicks, "_WAITS_S", WAITS_S)
    page = await reset_page(api, party, proved)
    answers = await asyncio.gather(*(send(api, page, RESET, new_password=NEW) for _ in range(2)))
    assert all(answered(one)["code"] for one in answers)


async def test_a_new_password_elsewhere(api: httpx.AsyncClient, party: Party, proved: Member) -> None:
    """In another browser both clicks say that it was changed, and sign nobody in."""
    await forgot(api, await authorize(api, party[0]), proved["email"])
    link = await sync_to_async(link_of)(proved["email"])
    api.cookies.clear()
    page = await api.get(link)
    for _ in range(2):
        done = await send(api, page, RESET, new_password=NEW)
        assert is_page(done, 200, "Your password was changed")
        assert not done.cookies
    with clock.shifted(WITHIN_S):
        assert is_page(await send(api, page, RESET, new_password=NEW), 400, "used before")


# ------------------------------------------------------------------------------------------- a pushed request
async def asked(api: httpx.AsyncClient, party: Party, member: Member) -> tuple[httpx.Response, dict[str, str]]:
    """Return the page that asks whether the client may have what it has pushed, and what led there."""
    sent = await pushed(api, party)
    return await by_password(api, await api.get(AUTHORIZE, params=sent), member["email"]), sent


async def test_a_yes_to_a_pushed_request(api: httpx.AsyncClient, stranger: Party, member: Member) -> None:
    """The second click gets a code in place of the first one's; the request stays used up for everything else."""
    page, sent = await asked(api, stranger, member)
    first, second = [answered(await say(api, page, "allow"))["code"] for _ in range(2)]
    assert await AuthorizationCode.objects.acount() == 1
    assert await AuditEvent.objects.filter(event="consent_given").acount() == 1
    assert (await redeemed(api, stranger, first)).json()["error"] == "invalid_grant"
    assert (await redeemed(api, stranger, second)).status_code == 200
    assert is_page(await say(api, page, "deny"), 400, "was used before")
    assert is_page(await api.get(AUTHORIZE, params=sent), 400, "was used before")
    with clock.shifted(WITHIN_S):
        assert is_page(await say(api, page, "allow"), 400, "was used before")


async def test_a_yes_that_was_taken_back_between(api: httpx.AsyncClient, stranger: Party, member: Member) -> None:
    """The second click is another consent then, and the trail has both."""
    page, _ = await asked(api, stranger, member)
    assert answered(await say(api, page, "allow"))["code"]
    whose = {"user_id": uuid.UUID(member["id"]), "client_id": stranger[0].pk}
    assert await sync_to_async(consents.revoke)(**whose)
    assert answered(await say(api, page, "allow"))["code"]
    assert await AuditEvent.objects.filter(event="consent_given").acount() == 2


async def test_a_no_to_a_pushed_request(api: httpx.AsyncClient, stranger: Party, member: Member) -> None:
    """Said twice, the client hears it twice; no yes follows."""
    page, _ = await asked(api, stranger, member)
    for _ in range(2):
        assert answered(await say(api, page, "deny"))["error"] == "access_denied"
    assert is_page(await say(api, page, "allow"), 400, "was used before")
    with clock.shifted(WITHIN_S):
        assert is_page(await say(api, page, "deny"), 400, "was used before")
    assert not await AuthorizationCode.objects.aexists()


async def test_a_yes_of_somebody_else(api: httpx.AsyncClient, stranger: Party, member: Member) -> None:
    """Where another person has signed in between the clicks, nothing is given in their name."""
    page, _ = await asked(api, stranger, member)
    assert answered(await say(api, page, "allow"))["code"]
    await sync_to_async(User.objects.create_user)("other@example.com", PASSWORD)
    there = await api.get(AUTHORIZE, params=await pushed(api, stranger, prompt="login"))
    assert is_page(await by_password(api, there, "other@example.com"), 200, "Allow")
    assert is_page(await say(api, page, "allow"), 200, "Password")
    assert not await AuthorizationCode.objects.exclude(user_id=member["id"]).aexists()


async def test_a_sign_in_that_answers_a_pushed_request(api: httpx.AsyncClient, member: Member) -> None:
    """Where nobody is asked, the form that signs in is the one that finishes: its second click gets a code as well."""
    party = await sync_to_async(make_client)(trusted=True, require_par=True)
    page = await api.get(AUTHORIZE, params=await pushed(api, party))
    codes = [answered(await by_password(api, page, member["email"]))["code"] for _ in range(2)]
    assert [(await redeemed(api, party, code)).status_code for code in codes] == [400, 200]


# ------------------------------------------------------------------------------------------------ what is kept
async def test_what_is_noted(api: httpx.AsyncClient, party: Party, proved: Member) -> None:
    """A MAC and an id: neither address, token nor password; it is gone an hour later."""
    page = await reset_page(api, party, proved)
    assert answered(await send(api, page, RESET, new_password=NEW))["code"]
    rows = [row async for row in UsedOnce.objects.filter(key__startswith="click:")]
    assert len(rows) == 2
    assert {len(row.key) for row in rows} == {len("click:") + 32}
    assert {row.led_to for row in rows} == {None, (await Session.objects.aget(client_id=SSO_CLIENT)).pk}
    assert all(row.expires_at <= clock.unix() + WITHIN_S for row in rows)


def test_each_part_of_a_form_says_where_it_ends() -> None:
    """No two forms are the same by where one field stops and the next begins."""
    seen = set()
    forms = ("a=bc", "ab=c", "a=b&c=", "a=&b=c", "a=b&a=c")
    for fields in forms:
        seen.add(second_clicks.click_of(_request(fields), ""))
    seen.add(second_clicks.click_of(_request("a=bc"), "word"))
    seen.add(second_clicks.click_of(_request("a=bc", path="/elsewhere"), ""))
    seen.add(second_clicks.click_of(_request("a=bc", browser="b" * 43), ""))
    assert len(seen) == len(forms) + 3


class _Request:
    """A request with these fields."""

    def __init__(self, fields: str, path: str, browser: str) -> None:
        self.data = QueryDict(fields)
        self.COOKIES = {authorization_state.cookie_name(): browser} if browser else {}
        self._path = path

    def get_full_path(self) -> str:
        """Return the address."""
        return self._path


def _request(fields: str, *, path: str = "/form", browser: str = "") -> Any:
    return _Request(fields, path, browser)
