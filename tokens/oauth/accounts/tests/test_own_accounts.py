"""The accounts of a browser at this site's own pages: going on from single sign-on, switching, signing out."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from accounts.audit.models import AuditEvent
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from tokens.oauth.accounts.tests.test_accounts import (  # noqa: F401 - a fixture
    client,
    listed,
    people_in,
    person,
    silently,
)
from tokens.oauth.models import LogoutNotice
from tokens.oauth.tests.walk import by_password, forms, is_page
from tokens.sessions.models import FIRST_PARTY_CLIENT, SSO_CLIENT, Session
from tokens.tests.browser import CROSS_SITE, ME, SAME_ORIGIN, SIGNIN

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

HOME, ACCOUNTS, SIGN_IN = "/account/security", "/account/accounts", "/account/signin"
REFRESH = "/api/v1/access/refresh"


@pytest.fixture
def browser(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """A browser, whose requests this site's pages have caused."""
    api.headers.update(SAME_ORIGIN)
    return api


def with_cookies(browser: httpx.AsyncClient, **cookies: str) -> httpx.AsyncClient:
    """Return another browser, with these cookies alone."""
    other = httpx.AsyncClient(transport=browser._transport, base_url="http://testserver")
    other.headers.update(SAME_ORIGIN)
    for name, value in cookies.items():
        other.cookies.set(name, value, domain="testserver.local")  # as an answer sets it, which then replaces it
    return other


async def live(client_id: str) -> list[Session]:
    found = Session.objects.filter(client_id=client_id, revoked_at=None).select_related("user")
    return [one async for one in found.order_by("created_at", "pk")]


async def at_home(browser: httpx.AsyncClient) -> str:
    """Return whose account the pages show; "" where one is sent to sign in, or to choose."""
    page = await browser.get(HOME)
    if page.is_redirect:
        return ""
    assert page.status_code == 200, page.text
    found = re.search(r'class="who"><span>([^<]+)', page.text)
    assert found is not None
    return found[1]


async def press(browser: httpx.AsyncClient, button: str, email: str = "", **more: str) -> httpx.Response:
    """Press a button of the page that lists the accounts: of this account, or of the page."""
    page = await browser.get(ACCOUNTS)
    assert page.status_code == 200
    found = [form for form in forms(page) if button in form.buttons]
    at = listed(page).index(email) if email else 0
    form = found[at]
    return await browser.post(ACCOUNTS, data={**form.fields, button: form.buttons[button][0], **more})


async def at_pages(browser: httpx.AsyncClient, email: str) -> httpx.Response:
    """Sign in at this site's own page."""
    answer = await by_password(browser, await browser.get(SIGN_IN), email)
    assert answer.status_code == 303, answer.text
    return answer


def to(answer: httpx.Response) -> tuple[str, str]:
    """Return where a redirect leads, and its ``next``."""
    assert answer.status_code in (302, 303), answer.text
    where = urlsplit(answer.headers["location"])
    return where.path, parse_qs(where.query).get("next", [""])[0]


async def test_it_goes_on_from_single_sign_on(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """Who has signed in for an application opens the account without a question; it is no newer by that."""
    (anne,) = await people_in(browser, client, "anne")
    past = clock.now() - timedelta(minutes=20)
    until = clock.now() + timedelta(hours=1)
    ends = {"idle_expires_at": until, "absolute_expires_at": until}
    await Session.objects.filter(user=anne).aupdate(authenticated_at=past, amr="pwd otp mfa", **ends)
    assert await at_home(browser) == anne.email
    (sso,), (own,) = await live(SSO_CLIENT), await live(FIRST_PARTY_CLIENT)
    assert (own.parent_id, own.authenticated_at, own.amr) == (sso.pk, past, "pwd otp mfa")
    assert own.absolute_expires_at == until  # and not as long as a sign-in
    event = await AuditEvent.objects.aget(event="session_continued", session_id=own.pk)
    assert await AuditEvent.objects.filter(event="sign_in").acount() == 1  # the one at the application
    assert event.details == {"by": "pwd otp mfa", "goes_on_from": str(sso.pk)}
    export = await browser.get("/api/v1/access/me/export")
    assert (export.status_code, export.json()["code"]) == (401, "step_up_required")
    await at_home(browser)
    assert len(await live(FIRST_PARTY_CLIENT)) == 1


async def test_a_recent_sign_in_stays_recent(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """Who has just proved everything is not asked again."""
    await people_in(browser, client, "anne")
    assert await at_home(browser)
    assert (await browser.get("/api/v1/access/me/export")).status_code == 200


async def test_when_it_does_not(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """Not from another site; but in place of the session of another tab, which has ended."""
    await people_in(browser, client, "anne")
    page = await browser.get(HOME, headers=CROSS_SITE)
    assert (page.status_code, "/account/security" in page.text) == (200, True)  # goes on from here
    assert not await live(FIRST_PARTY_CLIENT)
    answer = await browser.post("/oauth/account/session", headers=CROSS_SITE)
    assert answer.status_code == 403
    await at_home(browser)
    (own,) = await live(FIRST_PARTY_CLIENT)
    browser.cookies.delete("access_token")
    await Session.objects.filter(pk=own.pk).aupdate(revoked_at=clock.now())
    assert await at_home(browser)
    assert len(await live(FIRST_PARTY_CLIENT)) == 1


@pytest.mark.parametrize("how", ["ended", "epoch", "inactive", "forged"])
async def test_an_sso_session_that_is_over(browser: httpx.AsyncClient, client: Any, how: str) -> None:  # noqa: F811
    """It opens nothing."""
    (anne,) = await people_in(browser, client, "anne")
    if how == "ended":
        await Session.objects.filter(user=anne).aupdate(revoked_at=clock.now())
    elif how == "epoch":
        await User.objects.filter(pk=anne.pk).aupdate(session_epoch=7)
    elif how == "inactive":
        await User.objects.filter(pk=anne.pk).aupdate(is_active=False)
    else:
        cookie = browser.cookies["sso"]
        browser.cookies.clear()
        browser.cookies.set("sso", cookie[:-4] + ("AAAA" if not cookie.endswith("AAAA") else "BBBB"))
    assert to(await browser.get(HOME)) == (SIGN_IN, HOME)
    assert not await live(FIRST_PARTY_CLIENT)


async def test_it_ends_with_single_sign_on(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """Signing out of applications signs out here; and no notice is queued for the account's own pages."""
    await people_in(browser, client, "anne")
    await at_home(browser)
    form = {"confirmation": "account-page"}
    assert (await browser.post("/oauth/logout", data=form)).status_code == 200
    assert not await live(FIRST_PARTY_CLIENT)
    assert not await LogoutNotice.objects.aexists()
    assert (await browser.get(ME)).status_code == 401


async def test_throwing_out(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """From another device both end, or the browser would be back at once."""
    (anne,) = await people_in(browser, client, "anne")
    await at_home(browser)
    (own,) = await live(FIRST_PARTY_CLIENT)
    pair = (await browser.post(SIGNIN, json={"email": anne.email, "password": PASSWORD}, headers={"Cookie": ""})).json()
    elsewhere = {"Authorization": f"Bearer {pair['access_token']}", "Cookie": ""}
    assert (await browser.delete(f"/api/v1/access/sessions/{own.pk}", headers=elsewhere)).status_code == 204
    assert not await live(SSO_CLIENT)
    assert await at_home(browser) == ""
    assert await at_home(browser) == ""


async def test_everywhere_else_ends_a_copied_cookie(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """The session that asks lives on alone: somebody else may have the cookie of the single sign-on it goes on from."""
    (anne,) = await people_in(browser, client, "anne")
    await at_home(browser)
    thief = with_cookies(browser, sso=browser.cookies["sso"])
    assert await at_home(thief) == anne.email
    assert await at_home(browser) == anne.email
    assert (await browser.delete("/api/v1/access/sessions")).status_code == 204
    assert not await live(SSO_CLIENT)
    assert (await at_home(thief), await at_home(browser)) == ("", anne.email)
    assert [one.parent_id for one in await live(FIRST_PARTY_CLIENT)] == [None]


@pytest.mark.parametrize("press_first", [True, False])
async def test_an_older_refresh_token_is_nobody(browser: httpx.AsyncClient, press_first: bool) -> None:
    """A copy of a token that was refreshed since opens nothing, and lists no account."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    thief = with_cookies(browser, refresh_token=browser.cookies["refresh_token"])
    page = await thief.get(ACCOUNTS)
    assert listed(page) == [anne.email]
    for _ in range(2):
        assert (await browser.post(REFRESH)).status_code == 204
    await Session.objects.aupdate(rotated_at=clock.now() - timedelta(minutes=10))
    button = "other" if press_first else "account"
    (form, *_) = [form for form in forms(page) if button in form.buttons] or forms(page)
    value = form.buttons[button][0] if button in form.buttons else str((await live(FIRST_PARTY_CLIENT))[0].pk)
    assert to(await thief.post(ACCOUNTS, data={**form.fields, button: value})) == (SIGN_IN, HOME)
    assert to(await thief.get(ACCOUNTS)) == (SIGN_IN, HOME)
    assert not await live(SSO_CLIENT)
    assert "access_token" not in thief.cookies
    assert await at_home(browser) == anne.email


async def test_a_copied_token_that_stays_as_an_account_is_found_out(browser: httpx.AsyncClient) -> None:
    """Staying beside another person refreshes the session: the other holder's next refresh ends both."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    thief = with_cookies(browser, refresh_token=browser.cookies["refresh_token"])
    await press(thief, "other")
    assert len(await live(SSO_CLIENT)) == 1
    held = {one.value for one in thief.cookies.jar if one.name == "refresh_token"}
    assert held - {browser.cookies["refresh_token"]}  # its answer has brought the next one
    with clock.shifted(60):
        assert (await browser.post(REFRESH)).status_code == 401
        assert not await live(SSO_CLIENT)
        assert not await live(FIRST_PARTY_CLIENT)
    assert await AuditEvent.objects.filter(event="refresh_reuse").acount() == 1


@pytest.mark.parametrize("after", [5, 60])
async def test_a_copied_token_of_a_session_that_was_switched_away(
    browser: httpx.AsyncClient,
    client: Any,  # noqa: F811
    after: int,
) -> None:
    """The session of the pages has ended by the switch: its token, used afterwards, ends what stays of it elsewhere."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    thief = with_cookies(browser)
    (mallory,) = await people_in(thief, client, "mallory")
    thief.cookies.set("refresh_token", browser.cookies["refresh_token"])
    await press(thief, "account", mallory.email)
    assert sorted([one.user_id for one in await live(SSO_CLIENT)], key=str) == sorted([anne.pk, mallory.pk], key=str)
    with clock.shifted(after):
        assert (await browser.post(REFRESH)).status_code == 401
    assert [one.user_id for one in await live(SSO_CLIENT)].count(anne.pk) == 0
    assert await AuditEvent.objects.filter(event="refresh_reuse", user_id=anne.pk).acount() == 1


async def test_two_tabs(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """Both go on from single sign-on with the cookies of before: one session is left, and neither tab is shut out."""
    (anne,) = await people_in(browser, client, "anne")
    other = httpx.AsyncClient(transport=browser._transport, base_url="http://testserver", cookies=dict(browser.cookies))
    other.headers.update(SAME_ORIGIN)
    assert await at_home(browser) == await at_home(other) == anne.email
    assert len(await live(FIRST_PARTY_CLIENT)) == 1
    assert await at_home(browser) == anne.email  # also where the browser has the cookies of the one that has ended
    assert len(await live(FIRST_PARTY_CLIENT)) == 1


async def test_switching(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """There and back: each has one session of the pages at a time, and nobody is signed out."""
    anne, berta = await people_in(browser, client, "anne", "berta")
    assert await at_home(browser) == berta.email
    assert listed(await browser.get(ACCOUNTS)) == [berta.email, anne.email]
    for who in (anne, berta, anne):
        assert to(await press(browser, "account", who.email, next="/account/security/name")) == (
            "/account/security/name",
            "",
        )
        assert await at_home(browser) == who.email
        assert [one.user_id for one in await live(FIRST_PARTY_CLIENT)] == [who.pk]
        assert await silently(browser, client) == who.email
    assert len(await live(SSO_CLIENT)) == 2


async def test_beside_who_has_signed_in_here(browser: httpx.AsyncClient) -> None:
    """Who has signed in at the account's own pages alone stays signed in beside the next one, no longer than before."""
    anne, berta = await person("anne"), await person("berta")
    await at_pages(browser, anne.email)
    until = clock.now() + timedelta(hours=1)
    await Session.objects.filter(user=anne).aupdate(idle_expires_at=until, absolute_expires_at=until)
    (first,) = await live(FIRST_PARTY_CLIENT)
    assert to(await press(browser, "other")) == (SIGN_IN, HOME)
    (kept,) = await live(SSO_CLIENT)
    assert (kept.user_id, kept.absolute_expires_at) == (anne.pk, until)
    assert kept.authenticated_at == first.authenticated_at
    assert "sso" not in browser.cookies  # nobody has chosen that applications use it
    await at_pages(browser, berta.email)
    assert listed(await browser.get(ACCOUNTS)) == [berta.email, anne.email]
    for who in (anne, berta):
        await press(browser, "account", who.email)
        assert await at_home(browser) == who.email
        assert listed(await browser.get(ACCOUNTS))[0] == who.email
    assert sorted(one.user.email for one in await live(SSO_CLIENT)) == [anne.email, berta.email]


async def test_signing_out_of_one(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """Of the other, or of the present one; nobody becomes the present one by that."""
    anne, berta = await people_in(browser, client, "anne", "berta")
    carla = await person("carla")
    await at_home(browser)
    await press(browser, "other")
    await at_pages(browser, carla.email)
    page = await press(browser, "sign_out", anne.email)
    assert is_page(page, 200, "You are signed out")
    assert listed(page) == [carla.email, berta.email]
    assert await at_home(browser) == carla.email
    page = await press(browser, "sign_out", carla.email)
    assert listed(page) == [berta.email]
    assert not await live(FIRST_PARTY_CLIENT)
    assert (await browser.get(ME)).status_code == 401
    assert to(await press(browser, "sign_out", berta.email)) == (SIGN_IN, HOME)
    assert not await live(SSO_CLIENT)
    assert to(await browser.get(ACCOUNTS)) == (SIGN_IN, HOME)


async def test_signing_out_of_all(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """Every session of the browser, and none of another one."""
    anne, _ = await people_in(browser, client, "anne", "berta")
    await at_home(browser)
    pair = {"email": anne.email, "password": PASSWORD}
    await browser.post(SIGNIN, json=pair, headers={"Cookie": ""})
    assert to(await press(browser, "sign_out_all")) == (SIGN_IN, HOME)
    assert [one.user_id for one in await live(FIRST_PARTY_CLIENT)] == [anne.pk]
    assert not await live(SSO_CLIENT)
    assert not [name for name in ("sso", "sso_others", "refresh_token") if name in browser.cookies]


async def test_the_overview_leads_there(browser: httpx.AsyncClient, client: Any) -> None:  # noqa: F811
    """By a link; and who has signed out there is shown who is left."""
    anne, _ = await people_in(browser, client, "anne", "berta")
    page = await browser.get(HOME)
    assert f'<a href="{ACCOUNTS}">' in page.text
    form = re.search(r'name="form" value="([^"]+)"', page.text)
    assert form is not None
    assert to(await browser.post(HOME, data={"form": form[1]})) == (ACCOUNTS, "")
    assert listed(await browser.get(ACCOUNTS)) == [anne.email]
    assert to(await browser.get(HOME)) == (ACCOUNTS, HOME)


@pytest.mark.parametrize("change", ["confirmation", "another", "cross_site", "nobody"])
async def test_a_form_that_is_no_form_of_here(browser: httpx.AsyncClient, client: Any, change: str) -> None:  # noqa: F811
    """A session of another browser, another account's proof of the page, another site: nothing changes."""
    anne, berta = await people_in(browser, client, "anne", "berta")
    await at_home(browser)
    found = {one.user_id: one for one in await live(SSO_CLIENT)}
    page = await browser.get(ACCOUNTS)
    mine, theirs = [form for form in forms(page) if "account" in form.buttons]
    sent = {**theirs.fields, "account": str(found[anne.pk].pk)}
    headers: dict[str, str] = {}
    if change == "confirmation":
        sent["confirmation"] = mine.fields["confirmation"]
    elif change == "another":
        sent["account"] = str(found[berta.pk].pk)
    elif change == "cross_site":
        headers = dict(CROSS_SITE)
    else:
        sent.pop("account")
    answer = await browser.post(ACCOUNTS, data=sent, headers=headers)
    assert 400 <= answer.status_code < 500
    assert await at_home(browser) == berta.email


@pytest.mark.parametrize("there", ["https://evil.example/", "//evil.example", "/\\evil.example", "account"])
async def test_never_to_another_site(browser: httpx.AsyncClient, client: Any, there: str) -> None:  # noqa: F811
    """Whatever the form or the address says."""
    anne, _ = await people_in(browser, client, "anne", "berta")
    answer = await press(browser, "account", anne.email, next=there)
    assert answer.headers["location"] == HOME
    browser.cookies.clear()
    assert to(await browser.get(ACCOUNTS, params={"next": there})) == (SIGN_IN, HOME)


@pytest.mark.parametrize("act", ["sign out", "throw out", "sign in again"])
async def test_what_stays_ends_with_the_session_it_goes_on_from(browser: httpx.AsyncClient, act: str) -> None:
    """Its owner signs out, throws it out from elsewhere, or signs in anew: a thief's copy stays signed in nowhere."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    (own,) = await live(FIRST_PARTY_CLIENT)
    thief = with_cookies(browser, refresh_token=browser.cookies["refresh_token"])
    await press(thief, "other")
    assert len(await live(SSO_CLIENT)) == 1
    if act == "sign out":
        assert (await browser.post("/api/v1/access/logout")).status_code == 204
    elif act == "throw out":
        pair = (
            await thief.post(SIGNIN, json={"email": anne.email, "password": PASSWORD}, headers={"Cookie": ""})
        ).json()
        elsewhere = {"Authorization": f"Bearer {pair['access_token']}", "Cookie": ""}
        assert (await thief.delete(f"/api/v1/access/sessions/{own.pk}", headers=elsewhere)).status_code == 204
    else:
        await at_pages(browser, anne.email)
    assert not await live(SSO_CLIENT)


async def test_a_chain_ends_with_its_first_session(browser: httpx.AsyncClient) -> None:
    """Going on from what goes on does not lead away from the session that it all began in."""
    anne = await person("anne")
    await at_pages(browser, anne.email)
    thief = with_cookies(browser, refresh_token=browser.cookies["refresh_token"])
    await press(thief, "other")
    second = with_cookies(browser, sso_others=thief.cookies["sso_others"])
    await press(second, "account", anne.email)
    third = with_cookies(browser, refresh_token=second.cookies["refresh_token"])
    await press(third, "other")
    assert len(await live(SSO_CLIENT)) == 2
    with clock.shifted(60):
        assert (await browser.post(REFRESH)).status_code == 401
    assert not await live(SSO_CLIENT)
    assert not await live(FIRST_PARTY_CLIENT)
