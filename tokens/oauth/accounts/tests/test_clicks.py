"""The buttons of the page that lists a browser's accounts, pressed twice, or with as many accounts as there may be."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest
from pytest_django import Settings

from ironauth.infrastructure.core import clock
from tokens.oauth.accounts import own_views
from tokens.oauth.accounts.tests.test_accounts import client, listed, people_in, person, silently  # noqa: F401 - a fixture
from tokens.oauth.accounts.tests.test_own_accounts import (  # noqa: F401 - a fixture
    ACCOUNTS,
    HOME,
    REFRESH,
    SIGN_IN,
    at_home,
    at_pages,
    browser,
    live,
    press,
    to,
    with_cookies,
)
from tokens.oauth.tests.walk import forms, is_page
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT, Session

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]


def newest(browser: httpx.AsyncClient) -> dict[str, str]:  # noqa: F811
    """Return the cookies of a browser: what answers have given it before what a test has, which has no domain."""
    found = sorted(browser.cookies.jar, key=lambda one: bool(one.domain))
    return {one.name: one.value or "" for one in found}


def same(browser: httpx.AsyncClient) -> httpx.AsyncClient:  # noqa: F811
    """Return the same browser, with the cookies of now."""
    return with_cookies(browser, **newest(browser))


def both_have_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two requests write only after both have read who is there."""
    meeting, read, number = asyncio.Barrier(2), own_views._here, iter(range(100))

    async def met(request: Any) -> Any:
        found = await read(request)
        if next(number) < 2:
            await meeting.wait()
        return found

    monkeypatch.setattr(own_views, "_here", met)


async def pressed(browser: httpx.AsyncClient, page: httpx.Response, button: str, at: int = 0) -> httpx.Response:  # noqa: F811
    """Press a button of a page that was opened before."""
    form = [form for form in forms(page) if button in form.buttons][at]
    return await browser.post(ACCOUNTS, data={**form.fields, button: form.buttons[button][0]})


async def test_a_double_click_keeps_one(browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Both requests have read the same: both lead on, with the same cookies, and the session moves on once."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    page = await browser.get(ACCOUNTS)
    first, second = same(browser), same(browser)
    both_have_read(monkeypatch)
    answers = await asyncio.gather(pressed(first, page, "other"), pressed(second, page, "other"))
    assert [to(one) for one in answers] == [(SIGN_IN, HOME)] * 2
    assert answers[0].cookies["sso_others"] == answers[1].cookies["sso_others"]
    assert answers[0].cookies["refresh_token"] == answers[1].cookies["refresh_token"]
    assert [one.user_id for one in await live(SSO_CLIENT)] == [anne.pk]
    assert [one.generation for one in await live(FIRST_PARTY_CLIENT)] == [1]
    with clock.shifted(60):  # and its browser goes on
        assert (await same(second).post(REFRESH)).status_code == 204


@pytest.mark.parametrize("who", ["thief", "after a refresh", "signed in again", "ended", "after a thief"])
async def test_a_token_of_before_opens_nothing(browser: httpx.AsyncClient, who: str) -> None:  # noqa: F811
    """Within the grace of a refresh, too: the page is shown anew, the session does not move on, no cookie is given."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    page, before = await browser.get(ACCOUNTS), same(browser)
    if who == "thief":
        before = with_cookies(browser, refresh_token=browser.cookies["refresh_token"])
    if who == "after a refresh":
        assert (await browser.post(REFRESH)).status_code == 204
    elif who == "after a thief":
        await press(with_cookies(browser, refresh_token=browser.cookies["refresh_token"]), "other")
    else:
        await press(browser, "other")
    if who == "signed in again":
        await Session.objects.filter(client_id=SSO_CLIENT).aupdate(authenticated_at=clock.now())
    if who == "ended":
        await Session.objects.filter(client_id=SSO_CLIENT).aupdate(revoked_at=clock.now())
    kept = len(await live(SSO_CLIENT))
    answer = await pressed(before, page, "other")
    assert is_page(answer, 200, anne.email)
    assert not {"sso", "sso_others", "refresh_token"} & set(answer.cookies)
    assert len(await live(SSO_CLIENT)) == kept
    assert [one.generation for one in await live(FIRST_PARTY_CLIENT)] == [1]


async def test_a_second_click_a_moment_later(browser: httpx.AsyncClient) -> None:  # noqa: F811
    """Its browser, which has dropped the first answer, gets what that said; not after the grace."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    page, before, late = await browser.get(ACCOUNTS), same(browser), same(browser)
    first = await pressed(browser, page, "other")
    second = await pressed(before, page, "other")
    assert to(second) == to(first) == (SIGN_IN, HOME)
    assert second.cookies["sso_others"] == first.cookies["sso_others"]
    with clock.shifted(60):
        third = await pressed(late, page, "other")
        assert (to(third), "sso_others" in third.cookies) == ((SIGN_IN, HOME), False)


async def test_a_double_click_on_an_account(
    browser: httpx.AsyncClient,  # noqa: F811
    client: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second one finds the session of before ended by the first, and goes on as the same account."""
    (berta,) = await people_in(browser, client, "berta")
    anne = await person("anne")
    await at_pages(browser, anne.email)
    page = await browser.get(ACCOUNTS)
    first, second = same(browser), same(browser)
    both_have_read(monkeypatch)
    at = listed(page).index(berta.email)
    answers = await asyncio.gather(pressed(first, page, "account", at), pressed(second, page, "account", at))
    assert [to(one) for one in answers] == [(HOME, "")] * 2
    assert [(one.user_id, one.browser != "") for one in await live(FIRST_PARTY_CLIENT)] == [(berta.pk, True)]
    assert sorted(one.user.email for one in await live(SSO_CLIENT)) == [anne.email, berta.email]


async def test_the_one_just_kept_stays_among_five(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """The one that was named last makes room for it, and ends."""
    everybody = await people_in(browser, client, "a", "b", "c", "d", "e")
    a, b, c, d, e = (one.email for one in everybody)
    f = (await person("f")).email
    await at_pages(browser, f)
    assert listed(await browser.get(ACCOUNTS)) == [f, e, d, c, b, a]
    assert to(await press(browser, "other")) == (SIGN_IN, HOME)
    assert listed(await browser.get(ACCOUNTS)) == [f, e, d, c, b]
    assert sorted(one.user.email for one in await live(SSO_CLIENT)) == [b, c, d, e, f]


async def test_five_without_a_current_one(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """Where no account is the one of applications, the second cookie names all five, and none is lost or left over."""
    everybody = await people_in(browser, client, "a", "b", "c", "d", "e")
    a, b, c, d, e = (one.email for one in everybody)
    await press(browser, "sign_out", e)
    assert "sso" not in browser.cookies
    f = (await person("f")).email
    await at_pages(browser, f)
    await press(browser, "other")
    assert sorted(one.user.email for one in await live(SSO_CLIENT)) == [a, b, c, d, f]
    assert listed(await browser.get(ACCOUNTS)) == [f, d, c, b, a]
    g = (await person("g")).email
    await at_pages(browser, g)
    await press(browser, "other")
    assert sorted(one.user.email for one in await live(SSO_CLIENT)) == [b, c, d, f, g]
    assert listed(await browser.get(ACCOUNTS)) == [g, f, d, c, b]


async def test_the_last_of_five_may_be_chosen(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """The account that is gone on as never makes room for the one that stays."""
    everybody = await people_in(browser, client, "a", "b", "c", "d", "e")
    a, b, c, d, e = (one.email for one in everybody)
    f = (await person("f")).email
    await at_pages(browser, f)
    assert to(await press(browser, "account", a)) == (HOME, "")
    assert await at_home(browser) == a
    assert listed(await browser.get(ACCOUNTS)) == [a, f, e, d, c]
    assert sorted(one.user.email for one in await live(SSO_CLIENT)) == [a, c, d, e, f]
    assert b not in listed(await browser.get(ACCOUNTS))


@pytest.mark.parametrize("began", ["at the pages", "in single sign-on"])
async def test_no_room_is_made_of_what_is_used(
    browser: httpx.AsyncClient,  # noqa: F811
    client: Any,  # noqa: F811
    settings: Settings,
    began: str,
) -> None:
    """With as many sessions as a person may have, another one ends: not the one that goes on, nor what it began in."""
    if began == "at the pages":
        anne = await person("anne")
        await at_pages(browser, anne.email)
    else:
        (anne,) = await people_in(browser, client, "anne")
        assert await at_home(browser) == anne.email
        browser.cookies.delete("sso")
    own = [one.pk for one in [*await live(FIRST_PARTY_CLIENT), *await live(SSO_CLIENT)]]
    await Session.objects.aupdate(last_used_at=clock.now() - timedelta(hours=1))
    elsewhere = with_cookies(browser)
    await at_pages(elsewhere, anne.email)
    settings.IRONAUTH_MAX_SESSIONS_PER_USER = len(own) + 1
    assert to(await press(browser, "other")) == (SIGN_IN, HOME)
    assert await Session.objects.filter(pk__in=own, revoked_at=None).acount() == len(own)
    assert await Session.objects.filter(revoke_reason="too_many").acount() == 1


async def test_the_present_account_becomes_that_of_applications(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """Its button does what the page says: applications use it from now on, and the other one stays in the browser."""
    (anne,) = await people_in(browser, client, "anne")
    bob = await person("bob")
    await at_pages(browser, bob.email)
    assert await at_home(browser) == bob.email
    assert await silently(same(browser), client) == anne.email
    again = same(browser)
    answer = await press(again, "account", bob.email)
    assert to(answer)[0] == HOME
    after = same(again)
    assert await silently(after, client) == bob.email
    assert await at_home(after) == bob.email
    assert sorted(listed(await after.get(ACCOUNTS))) == [anne.email, bob.email]
    await press(after, "account", anne.email)
    assert await silently(same(after), client) == anne.email


@pytest.mark.parametrize("button", ["account", "sign_out", "other", "sign_out_all"])
async def test_a_click_on_an_account_that_has_ended(browser: httpx.AsyncClient, client: Any, button: str) -> None:  # noqa: F811
    """The page is shown anew with who is left; without what shows that it was seen, it is an error as before."""
    anne, berta = await people_in(browser, client, "anne", "berta")
    page, before = await browser.get(ACCOUNTS), same(browser)
    at = listed(page).index(berta.email) if button in ("account", "sign_out") else 0
    assert (await pressed(browser, page, "sign_out", listed(page).index(berta.email))).status_code == 200
    again = await pressed(before, page, button, at)
    assert is_page(again, 200, anne.email)
    assert berta.email not in again.text
    assert await Session.objects.filter(user=anne, revoked_at=None).aexists()
    form = [one for one in forms(page) if button in one.buttons][at]
    filled = {**form.fields, button: form.buttons[button][0]}
    for bad in ({"confirmation": ""}, {button: "00000000-0000-0000-0000-000000000000"}, {button: "x"}):
        assert (await before.post(ACCOUNTS, data={**filled, **bad})).status_code == 400


@pytest.mark.parametrize("button", ["account", "other"])
@pytest.mark.parametrize("ends", ["before the first write", "before the second"])
async def test_signed_out_in_another_tab_meanwhile(
    browser: httpx.AsyncClient,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    button: str,
    ends: str,
) -> None:
    """Whatever a click has read before, it leads to where one signs in."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    page, read, number = await browser.get(ACCOUNTS), own_views._here, iter(range(100))

    async def gone(request: Any) -> Any:
        found, at = await read(request), next(number)
        if at == 0 and ends == "before the second":
            await Session.objects.aupdate(generation=1, rotated_at=clock.now())  # moved on, and not by this
            return found
        await Session.objects.aupdate(revoked_at=clock.now())
        return found

    monkeypatch.setattr(own_views, "_here", gone)
    answer = await pressed(browser, page, button)
    assert to(answer) == (SIGN_IN, HOME)
    assert not await live(SSO_CLIENT)


async def test_a_double_click_on_the_present_account(
    browser: httpx.AsyncClient,  # noqa: F811
    client: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both lead on with the same cookies; applications use it, and one session keeps it."""
    (anne,) = await people_in(browser, client, "anne")
    bob = await person("bob")
    await at_pages(browser, bob.email)
    page = await browser.get(ACCOUNTS)
    first, second = same(browser), same(browser)
    both_have_read(monkeypatch)
    at = listed(page).index(bob.email)
    answers = await asyncio.gather(pressed(first, page, "account", at), pressed(second, page, "account", at))
    assert [to(one) for one in answers] == [(HOME, "")] * 2
    for name in ("sso", "sso_others", "refresh_token"):
        assert answers[0].cookies[name] == answers[1].cookies[name]
    assert sorted(one.user.email for one in await live(SSO_CLIENT)) == [anne.email, bob.email]
    assert await silently(same(second), client) == bob.email


async def test_what_is_opened_is_known_by_its_browser_from_then_on(browser: httpx.AsyncClient) -> None:  # noqa: F811
    """The cookie by which a browser is known begins its life anew with each step: an honest second click finds it."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    known = browser.cookies["authorize"]
    answer = await press(browser, "other")
    assert answer.cookies["authorize"] == known


async def test_no_switch_while_staff_act(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """Staff who have begun to act as somebody in another tab change no account here."""
    (anne,) = await people_in(browser, client, "anne")
    page = await browser.get(ACCOUNTS)
    acting = same(browser)
    acting.cookies.set("acting", "1", domain="testserver.local")
    assert to(await pressed(acting, page, "account")) == (HOME, "")
    assert not await live(FIRST_PARTY_CLIENT)
    assert to(await pressed(same(browser), page, "account")) == (HOME, "")
    assert [one.user_id for one in await live(FIRST_PARTY_CLIENT)] == [anne.pk]
