"""Journeys on the page of one's account that change how one signs in: second factors, passkeys, other providers."""

from playwright.async_api import expect

from conftest import PASSWORD
from ironauth.tests.browser.chromium import plug_in_authenticator
from ironauth.tests.browser.journeys.registry import journey
from ironauth.tests.browser.journeys.walker import Walker
from tokens.tests.second_factor import App


@journey()
async def second_factor(walk: Walker) -> None:
    """Set an authenticator app up, at the second try, and remove it."""
    await walk.sign_in()
    await walk.row("codes")
    await walk.press(walk.act("start"))
    await walk.see()
    app = App((await walk.page.locator("#totp-secret").inner_text()).replace(" ", ""))
    await walk.send(401, code=app.wrong())
    await walk.refused()
    await walk.send(code=app.code(-1))
    await expect(walk.page.locator("#codes-list li")).to_have_count(10)
    await walk.see()
    await walk.row("codes")
    await walk.send(401, password="no " * 6)
    await walk.refused()
    await walk.send(password=PASSWORD)
    await walk.done()


@journey()
async def recovery_codes(walk: Walker) -> None:
    """Make new recovery codes, and take them along in a file."""
    app, old = await walk.with_app()
    await walk.sign_in(code=app.code())
    await walk.row("recovery")
    await walk.send(password=PASSWORD)
    new = await walk.page.locator("#codes-list li").all_inner_texts()
    assert len(new) == len(old)
    assert not set(new) & set(old)
    await walk.see()
    async with walk.page.expect_download() as started:
        await walk.page.locator("a[download]").click()
    assert (await started.value).suggested_filename == "recovery-codes.txt"
    await walk.press("main a.button[href='/account/security']")
    await walk.home()


@journey(needs_scripts=True)
async def passkeys(walk: Walker) -> None:
    """Add a passkey, give it another name, and remove it."""
    authenticator = await plug_in_authenticator(walk.page)
    await walk.sign_in()
    await walk.row("passkeys")
    await walk.page.locator("[name=name]").fill("My phone")
    await walk.press(walk.act("new"))
    await walk.see()
    async with authenticator.touched():
        await walk.press(walk.act("add"))
    await walk.see()
    await walk.row("passkeys")
    await walk.press(".list li > a")
    await walk.see("My phone")
    await walk.send(name="Work phone")
    await walk.done()
    await expect(walk.page.locator(".list strong")).to_have_text("Work phone")
    await walk.press(".list li > a")
    await walk.press(walk.act("remove"))
    await walk.done()
    await expect(walk.page.locator(".list li")).to_have_count(0)


@journey()
async def other_provider(walk: Walker) -> None:
    """Connect an account at another provider, sign in with it, and remove it."""
    walk.needs_provider()
    await walk.sign_in()
    await walk.row("identities")
    await walk.at_provider(walk.page.locator("button[name=provider]"), walk.newcomer)
    await walk.open("/account/security/identities")
    await expect(walk.page.locator(".list strong")).to_have_text("Acme")
    await walk.see()
    await walk.press(".list li > a")
    await walk.see("Acme")
    await walk.press(walk.act("remove"))
    await walk.done()
    await expect(walk.page.locator(".list li")).to_have_count(0)
