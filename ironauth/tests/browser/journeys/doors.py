"""Journeys through the provider's pages: from an application to it again, on devices, and out."""

from urllib.parse import urlencode

from playwright.async_api import expect

from conftest import PASSWORD
from ironauth.tests.browser.journeys.registry import journey
from ironauth.tests.browser.journeys.walker import DIGITS, LINK, Walker
from tokens.oauth.tests.walk import VERIFIER
from tokens.protocol import GrantType

ALLOW, DENY = "button[name=decision][value=allow]", "button[name=decision][value=deny]"


@journey()
async def sign_up_from_client(walk: Walker) -> None:
    """Come from an application without an account, make one, and go on to the application."""
    await walk.open(walk.link())
    await walk.see()
    await walk.press(walk.form("/oauth/signup"))
    await walk.see()
    await walk.page.locator("[name=terms_version]").check()
    await walk.send(email=walk.newcomer, name="Nora", password=PASSWORD)
    await walk.see()
    await walk.send(code=await walk.mailed(DIGITS, walk.newcomer))
    await walk.see()
    await walk.press(ALLOW)
    assert (await walk.arrive())["code"]


async def _sign_up(walk: Walker, email: str) -> None:
    """Come from the application, and make an account of this address."""
    await walk.open(walk.link())
    await walk.press(walk.form("/oauth/signup"))
    await walk.page.locator("[name=terms_version]").check()
    await walk.send(email=email, name="Nora", password=PASSWORD)


@journey()
async def sign_up_by_link(walk: Walker) -> None:
    """Make an account, confirm the address by the link of another message, and go on; where there is one, sign in."""
    await _sign_up(walk, walk.newcomer)
    first = await walk.mailed(LINK, walk.newcomer)
    await walk.open(walk.link())
    await walk.press(walk.form("/oauth/verify-again"))
    await walk.see()
    await walk.send(email=walk.newcomer)
    await walk.see()
    await walk.open(first, 400)
    await walk.see()
    link = await walk.mailed(LINK, walk.newcomer)
    await walk.open(link)
    await walk.see()
    await walk.send(400, password="not the password at all")
    await walk.refused()
    await walk.send(password=PASSWORD)
    await walk.press(ALLOW)
    assert (await walk.arrive())["code"]
    await walk.open(link, 400)
    await walk.see()
    await walk.page.context.clear_cookies()
    await _sign_up(walk, walk.email)
    await walk.open(await walk.mailed(LINK))
    await walk.see()
    await walk.send(password=PASSWORD)
    await walk.press(ALLOW)
    assert (await walk.arrive())["code"]


@journey()
async def consent(walk: Walker) -> None:
    """Sign in for an application; say no, then yes; the next time nothing is asked."""
    await walk.open(walk.link())
    await walk.send(email=walk.email, password=PASSWORD)
    await walk.see()
    await walk.press(DENY)
    await walk.arrive(error="access_denied")
    await walk.open(walk.link())
    await walk.see()
    await walk.press(ALLOW)
    assert (await walk.arrive())["code"]
    await walk.open(walk.link(prompt="none"))
    assert (await walk.arrive())["code"]


@journey()
async def chooser(walk: Walker) -> None:
    """Be two people in one browser: choose one, use another account, sign one out."""
    other = walk.stage.person()
    await walk.open(walk.link())
    await walk.send(email=walk.email, password=PASSWORD)
    await walk.press(ALLOW)
    await walk.arrive()
    await walk.open(walk.link(prompt="select_account"))
    await walk.see()
    await walk.press("button[name=other]")
    await walk.see()
    await walk.send(email=other, password=PASSWORD)
    await walk.press(ALLOW)
    await walk.arrive()
    await walk.open(walk.link(prompt="select_account"))
    await walk.see()
    await walk.press(walk.page.locator("button[name=account]", has_text=walk.email))
    assert (await walk.arrive())["code"]
    await walk.open(walk.link(prompt="select_account"))
    await walk.press(f"button[name=sign_out][aria-label*='{other}']")
    await expect(walk.page.locator("button[name=account]")).to_have_count(1)
    await walk.see()


@journey()
async def accounts_here(walk: Walker) -> None:
    """Be two people at the account's own pages: take turns, sign one out, and be the other one."""
    other = walk.stage.person()
    await walk.sign_in()
    await walk.open("/account/accounts")
    await walk.see()
    await walk.press("button[name=other]")
    await walk.see()
    await walk.send(email=other, password=PASSWORD)
    await walk.home(other)
    await walk.open("/account/accounts")
    await walk.see()
    await walk.press(walk.page.locator("button[name=account]", has_text=walk.email))
    await walk.home()
    await walk.open("/account/accounts")
    await walk.press(f"button[name=sign_out][aria-label*='{walk.email}']")
    await walk.see()
    await walk.press(walk.page.locator("button[name=account]", has_text=other))
    await walk.home(other)


@journey()
async def device_code(walk: Walker) -> None:
    """Let a device without a browser in, by the code that it shows; a wrong one is refused."""
    async with walk.stage.api() as api:
        whose = (walk.stage.client, walk.stage.secret)
        begun = (await api.post("/oauth/device_authorization", data={"scope": "openid"}, auth=whose)).json()
        await walk.open("/oauth/device")
        await walk.see()
        await walk.send(400, user_code="WRONG")
        await walk.refused()
        await walk.send(user_code=begun["user_code"])
        await walk.see()
        await walk.send(email=walk.email, password=PASSWORD)
        await walk.see()
        await walk.press(ALLOW)
        await walk.see()
        asked = {"grant_type": GrantType.DEVICE_CODE.value, "device_code": begun["device_code"]}
        assert (await api.post("/oauth/token", data=asked, auth=whose)).status_code == 200


@journey()
async def logout(walk: Walker) -> None:
    """Sign out where an application has led to, and go back to it; then without one."""
    await walk.open(walk.link())
    await walk.send(email=walk.email, password=PASSWORD)
    await walk.press(ALLOW)
    await walk.arrive()
    leaving = {"client_id": walk.stage.client, "post_logout_redirect_uri": f"{walk.stage.wiki}/gone", "state": "x"}
    await walk.open(f"/oauth/logout?{urlencode(leaving)}")
    await walk.see()
    await walk.press(walk.form("/oauth/logout"))
    await walk.arrive(state="x")
    await walk.open("/oauth/logout")
    await walk.see()
    await walk.open(walk.link(prompt="none"))
    await walk.arrive(error="login_required")


@journey()
async def applications(walk: Walker) -> None:
    """See which applications know one, in which browser, and remove one: it has to ask again."""
    await walk.open(walk.link())
    await walk.send(email=walk.email, password=PASSWORD)
    await walk.press(ALLOW)
    came = await walk.arrive()
    async with walk.stage.api() as api:
        redeems = {"code": came["code"], "redirect_uri": f"{walk.stage.wiki}/callback", "code_verifier": VERIFIER}
        whose = (walk.stage.client, walk.stage.secret)
        got = await api.post("/oauth/token", data={"grant_type": "authorization_code", **redeems}, auth=whose)
        assert got.status_code == 200, got.text
    await walk.row("sessions")
    await expect(walk.page.locator("main > .list > li")).to_have_count(1)
    await expect(walk.page.locator(".list .list li")).to_have_count(2)
    await walk.row("applications")
    await walk.press(walk.act("remove"))
    await walk.done()
    await walk.open(walk.link(prompt="none"))
    assert "error" in await walk.arrive()
