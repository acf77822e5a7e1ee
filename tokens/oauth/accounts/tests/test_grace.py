"""What a browser may show within the grace of a refresh, and what a copied token has opened elsewhere by then."""

import asyncio
from typing import Any

import httpx
import pytest

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from tokens.oauth.accounts.tests.test_accounts import client, listed, people_in, person  # noqa: F401 - a fixture
from tokens.oauth.accounts.tests.test_clicks import pressed, same
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
from tokens.oauth.tests.walk import is_page
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

LOGOUT = "/api/v1/access/logout"
WITHIN, AFTER = 5, 60  # seconds, on either side of the grace


async def reuses(user: User) -> int:
    return await AuditEvent.objects.filter(event="refresh_reuse", user_id=user.pk).acount()


async def everybody() -> list[str]:
    """Return who is signed in anywhere, by the pages or by single sign-on."""
    return sorted([one.user.email for kind in (FIRST_PARTY_CLIENT, SSO_CLIENT) for one in await live(kind)])


async def switched_by_a_thief(browser: httpx.AsyncClient, client: Any) -> tuple[User, User, httpx.AsyncClient]:  # noqa: F811
    """Sign anne in; a thief switches from a copy of her token to an account of their own, and back to hers."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    thief = with_cookies(browser)
    (mallory,) = await people_in(thief, client, "mallory")
    thief.cookies.set("refresh_token", browser.cookies["refresh_token"], domain="testserver.local")
    await press(thief, "account", mallory.email)
    await press(thief, "account", anne.email)
    assert await at_home(thief) == anne.email
    return anne, mallory, thief


@pytest.mark.parametrize("after", [WITHIN, AFTER])
@pytest.mark.parametrize("shown", ["click", "refresh", "sign-in", "sign-out"])
async def test_a_thief_who_switches(browser: httpx.AsyncClient, client: Any, shown: str, after: int) -> None:  # noqa: F811
    """Whatever the owner does next shows her token, which is found out at once: what has been opened with it ends."""
    anne, mallory, thief = await switched_by_a_thief(browser, client)
    with clock.shifted(after):
        if shown == "click":
            assert await at_home(browser) == ""
        elif shown == "refresh":
            assert (await browser.post(REFRESH)).status_code == 401
        elif shown == "sign-in":
            await at_pages(browser, anne.email)
        else:
            assert (await browser.post(LOGOUT)).status_code == 204
        assert await everybody() == sorted([*([anne.email] if shown == "sign-in" else []), mallory.email])
        assert await reuses(anne) == 1
        assert await at_home(thief) == ""


@pytest.mark.parametrize("after", [WITHIN, AFTER])
@pytest.mark.parametrize("known", [True, False])
async def test_a_thief_who_keeps_the_account(browser: httpx.AsyncClient, after: int, known: bool) -> None:  # noqa: F811
    """The owner's refresh finds it out, also where her browser is none that our pages know any more."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    thief = with_cookies(browser, refresh_token=browser.cookies["refresh_token"])
    await press(thief, "other")
    assert await everybody() == [anne.email] * 2
    if not known:
        browser.cookies.delete("authorize")
    with clock.shifted(after):
        assert (await browser.post(REFRESH)).status_code == 401
    assert await everybody() == []
    assert await reuses(anne) == 1


@pytest.mark.parametrize(("after", "code", "reused"), [(WITHIN, 204, 0), (AFTER, 401, 1)])
async def test_an_answer_that_was_lost(browser: httpx.AsyncClient, after: int, code: int, reused: int) -> None:  # noqa: F811
    """Its browser has kept the account, and refreshes with the token of before; not after the grace."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    assert is_page(await browser.get(ACCOUNTS), 200, anne.email)
    lost = same(browser)
    await press(browser, "other")
    with clock.shifted(after):
        assert (await lost.post(REFRESH)).status_code == code
        assert (await at_home(same(lost)) == anne.email) is not bool(reused)
    assert await reuses(anne) == reused


@pytest.mark.parametrize(("after", "reused"), [(WITHIN, 0), (AFTER, 1)])
async def test_a_refresh_that_was_on_its_way(browser: httpx.AsyncClient, client: Any, after: int, reused: int) -> None:  # noqa: F811
    """A switch of the same browser overtakes it: it is refused, and takes none of the cookies of the switch away."""
    (berta,) = await people_in(browser, client, "berta")
    anne = await person("anne")
    await at_pages(browser, anne.email)
    assert is_page(await browser.get(ACCOUNTS), 200, anne.email)
    late = same(browser)
    await press(browser, "account", berta.email)
    with clock.shifted(after):
        answer = await late.post(REFRESH)
    assert answer.status_code == 401
    assert ("set-cookie" in answer.headers) is bool(reused)
    assert await reuses(anne) == reused
    assert ([one.user_id for one in await live(SSO_CLIENT)].count(anne.pk)) == 1 - reused
    assert await at_home(browser) == berta.email


async def test_a_second_tab_signs_in(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """It brings the cookie of before the switch, of the same browser: nobody has a copy."""
    (berta,) = await people_in(browser, client, "berta")
    anne = await person("anne")
    await at_pages(browser, anne.email)
    await browser.get(ACCOUNTS)
    tab = same(browser)
    await press(browser, "account", berta.email)
    with clock.shifted(WITHIN):
        await at_pages(tab, anne.email)
    assert await reuses(anne) == 0
    assert anne.pk in [one.user_id for one in await live(SSO_CLIENT)]


async def test_two_refreshes_and_a_click_at_once(browser: httpx.AsyncClient) -> None:  # noqa: F811
    """All of one browser, with one token: in any order nothing ends."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    page = await browser.get(ACCOUNTS)
    tabs = [same(browser) for _ in range(3)]
    answers = await asyncio.gather(tabs[0].post(REFRESH), pressed(tabs[1], page, "other"), tabs[2].post(REFRESH))
    assert [answers[0].status_code, answers[2].status_code] == [204, 204]
    assert answers[1].status_code in (200, 303)
    assert await reuses(anne) == 0
    assert len(await live(FIRST_PARTY_CLIENT)) == 1


async def test_a_thief_and_the_owner_at_once(browser: httpx.AsyncClient) -> None:  # noqa: F811
    """In any order, what the thief has kept lives on in no state in which nobody could find it out."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    thief = with_cookies(browser, refresh_token=browser.cookies["refresh_token"])
    page = await thief.get(ACCOUNTS)
    _, owner = await asyncio.gather(pressed(thief, page, "other"), browser.post(REFRESH))
    if owner.status_code == 204 and await live(SSO_CLIENT):  # the refresh was first, and the thief's step is from it
        pytest.fail("the owner has the newest token, and a kept account that she has not opened lives")
    assert await reuses(anne) == (owner.status_code == 401)


@pytest.mark.parametrize("button", ["account", "other"])
async def test_a_page_that_was_open_for_long(browser: httpx.AsyncClient, client: Any, button: str) -> None:  # noqa: F811
    """Our pages do not know its browser any more: it is known again, and the next click counts."""
    (berta,) = await people_in(browser, client, "berta")
    anne = await person("anne")
    await at_pages(browser, anne.email)
    page = await browser.get(ACCOUNTS)
    browser.cookies.delete("authorize")
    at = listed(page).index(berta.email) if button == "account" else 0
    answer = await pressed(browser, page, button, at)
    assert is_page(answer, 200, anne.email)
    assert browser.cookies["authorize"]
    assert [one.user_id for one in await live(SSO_CLIENT)] == [berta.pk]
    assert to(await pressed(browser, answer, button, at)) == ((HOME, "") if button == "account" else (SIGN_IN, HOME))
    assert len(await live(SSO_CLIENT)) == 2
