"""Journeys to one's own account: signing up and in, in every way, and a password that was forgotten."""

from typing import Final
from urllib.parse import parse_qs, urlsplit

from playwright.async_api import expect

from conftest import PASSWORD
from ironauth.tests.browser.chromium import plug_in_authenticator
from ironauth.tests.browser.journeys.registry import journey
from ironauth.tests.browser.journeys.walker import DIGITS, LINK, Walker

WEAK: Final = "password password"
NEW_PASSWORD: Final = "seven amber kites over Lyon"
WRONG: Final = "not the password at all"
SIGN_IN: Final = "/account/signin"


@journey()
async def sign_up(walk: Walker) -> None:
    """Make an account from the sign-in page; a weak password is refused, nothing else of what was typed is lost."""
    await walk.open(SIGN_IN)
    await walk.press(walk.form("/oauth/signup"))
    await walk.see()
    await walk.page.locator("[name=terms_version]").check()
    await walk.send(400, email=walk.newcomer, name="Nora", password=WEAK)
    await walk.refused()
    await expect(walk.page.locator("[name=email]")).to_have_value(walk.newcomer)
    await expect(walk.page.locator("[name=terms_version]")).to_be_checked()
    await walk.send(password=PASSWORD)
    await walk.see()
    await walk.send(code=await walk.mailed(DIGITS, walk.newcomer))
    await walk.home(walk.newcomer)


@journey()
async def by_password(walk: Walker) -> None:
    """Sign in by password, at the second try, and sign out."""
    await walk.open(SIGN_IN)
    await walk.see()
    await walk.send(401, email=walk.email, password=WRONG)
    await walk.refused()
    await walk.send(email=walk.email, password=PASSWORD)
    await walk.home()
    await walk.sign_out()
    await walk.see()


@journey()
async def by_second_factor(walk: Walker) -> None:
    """Sign in by password and an app's code, and keep the device: it is asked for no code the next time."""
    app, _ = await walk.with_app()
    await walk.open(SIGN_IN)
    await walk.send(email=walk.email, password=PASSWORD)
    await walk.see()
    await walk.send(401, code=app.wrong())
    await walk.refused()
    await walk.page.locator("[name=keep_device]:visible").first.check()
    await walk.send(code=app.code())
    await walk.home()
    await walk.sign_out()
    await walk.sign_in()
    await walk.row("devices")
    await walk.press(walk.act("end"))
    await walk.done()


@journey()
async def by_recovery_code(walk: Walker) -> None:
    """Sign in by password and a recovery code, the app being lost."""
    _, codes = await walk.with_app()
    await walk.open(SIGN_IN)
    await walk.send(email=walk.email, password=PASSWORD)
    await walk.press("button[name=recovery]")
    await walk.see()
    await walk.send(code=codes[0])
    await walk.home()


@journey(needs_scripts=True)
async def by_passkey(walk: Walker) -> None:
    """Add a passkey, sign out, and sign in with it: by the button, and from what the browser suggests."""
    authenticator = await plug_in_authenticator(walk.page)
    await walk.sign_in()
    await walk.open("/account/security/passkeys")
    await walk.press(walk.act("new"))
    await walk.see()
    async with authenticator.touched():
        await walk.press(walk.act("add"))
    await walk.see()
    await walk.sign_out()
    await expect(walk.page.locator("html[data-asked=conditional]")).to_be_attached()
    await walk.see()
    async with authenticator.touched():
        await walk.press("#passkey-form button")
        await walk.home()
    await walk.sign_out()
    await expect(walk.page.locator("html[data-asked=conditional]")).to_be_attached()
    async with authenticator.touched():
        await walk.page.reload()
        await walk.home()


@journey()
async def by_email_code(walk: Walker) -> None:
    """Sign in by a code in a message, at the second try."""
    await walk.open(SIGN_IN)
    await walk.press(walk.form("/oauth/signin/email"))
    await walk.see()
    await walk.send(email=walk.email)
    await walk.see()
    code = await walk.mailed(DIGITS)
    await walk.send(401, code="000000" if code != "000000" else "000001")
    await walk.refused()
    await walk.send(code=code)
    await walk.home()


@journey()
async def by_email_link(walk: Walker) -> None:
    """Sign in by the link of a message, with its button; the link works once, and then leads to another."""
    await walk.open(SIGN_IN)
    await walk.press(walk.form("/oauth/signin/email"))
    await walk.send(email=walk.email)
    link = await walk.mailed(LINK)
    await walk.open(link)
    await walk.see()
    await walk.press(walk.form("/oauth/signin/link"))
    await walk.home()
    await walk.open(link, 400)
    await walk.see()
    await walk.press(f"main a[href='{SIGN_IN}']")
    await expect(walk.page.locator("[name=email]")).to_be_visible()


@journey()
async def by_provider(walk: Walker) -> None:
    """Come from another provider: an account is made once the terms are accepted, and found the next time."""
    await walk.open(SIGN_IN)
    await walk.see()
    await walk.at_provider(walk.page.locator("button[name=provider]"), walk.newcomer)
    await walk.see()
    await walk.page.locator("[name=terms_version]").check()
    await walk.press(walk.form("/oauth/terms"))
    await walk.home(walk.newcomer)
    await walk.sign_out()
    await walk.page.locator("button[name=provider]").click()
    await walk.home(walk.newcomer)


@journey()
async def by_linking(walk: Walker) -> None:
    """Come from another provider with the address of one's account: it is linked by signing in, and then suffices."""
    await walk.open(SIGN_IN)
    await walk.at_provider(walk.page.locator("button[name=provider]"), walk.email)
    await walk.see()
    await walk.send(401, password=WRONG)
    await walk.refused()
    await walk.send(password=PASSWORD)
    await walk.done()
    await expect(walk.page.locator("ul.list li")).to_have_count(1)
    await walk.sign_out()
    await walk.page.locator("button[name=provider]").click()
    await walk.home()


@journey()
async def address_first(walk: Walker) -> None:
    """Sign in where the address is asked for first: it can be taken back; the password is at its second try right."""
    with walk.at_site(IRONAUTH_SIGN_IN_FORM="identifier_first"):
        await walk.open(SIGN_IN)
        await walk.see()
        await expect(walk.page.locator("[name=password]:visible")).to_have_count(0)
        await walk.send(email=walk.newcomer)
        await walk.see()
        await walk.press("button[form=other-address]")
        await walk.send(email=walk.email)
        await walk.send(401, password=WRONG)
        await walk.refused()
        await walk.send(password=PASSWORD)
        await walk.home()


@journey()
async def reset(walk: Walker) -> None:
    """Forget the password, choose a weak one and then another by the link of a message, and be signed in."""
    await walk.open(SIGN_IN)
    await walk.press(walk.form("/oauth/forgot"))
    await walk.see()
    await walk.send(email=walk.email)
    await walk.see()
    link = await walk.mailed(LINK)
    await walk.open(link)
    await walk.see()
    await walk.send(400, new_password=WEAK)
    await walk.refused()
    await walk.send(new_password=NEW_PASSWORD)
    await walk.home()
    await walk.open(link, 400)
    await walk.see()


@journey()
async def invitation_to_application(walk: Walker) -> None:
    """Be invited by staff to an application: go on to it once the account is there, and sign in for it."""
    async with walk.stage.api() as api:
        staff = await walk.bearer(api, walk.stage.helper())
        asked = {"email": walk.newcomer, "name": "Nora", "client": walk.stage.client}
        invited = await api.post("/api/v1/users/invitations", json=asked, headers=staff)
        assert invited.status_code == 201, invited.text
    await walk.open(await walk.mailed(LINK, walk.newcomer))
    await walk.see()
    await walk.page.locator("[name=terms_version]").check()
    await walk.send(password=PASSWORD)
    await walk.see()
    await walk.press(f"main a[href^='{walk.stage.wiki}/start?iss='][href*='login_hint=newcomer']")
    hint = parse_qs(urlsplit(walk.page.url).query)["login_hint"][0]
    await walk.open(walk.link(login_hint=hint))  # where the application sends the browser
    await expect(walk.page.locator("[name=email]").first).to_have_value(walk.newcomer)
    await walk.send(password=PASSWORD)
    await walk.see()
    await walk.press("button[name=decision][value=allow]")
    assert (await walk.arrive())["code"]


@journey()
async def invitation(walk: Walker) -> None:
    """Be invited by staff, and make the account by the link."""
    async with walk.stage.api() as api:
        staff = await walk.bearer(api, walk.stage.helper())
        asked = {"email": walk.newcomer, "name": "Nora"}
        invited = await api.post("/api/v1/users/invitations", json=asked, headers=staff)
        assert invited.status_code == 201, invited.text
    link = await walk.mailed(LINK, walk.newcomer)
    await walk.open(link)
    await walk.see()
    await walk.page.locator("[name=terms_version]").check()
    await walk.send(400, password=WEAK)
    await walk.refused()
    await walk.send(password=PASSWORD)
    await walk.see()
    await walk.press("main a[href='/account/signin']")
    await walk.send(email=walk.newcomer, password=PASSWORD)
    await walk.home(walk.newcomer)
    await walk.open(link, 400)
    await walk.see()
