"""Journeys with organisations: somebody makes one and invites others, who accept."""

from playwright.async_api import expect

from conftest import PASSWORD
from ironauth.tests.browser.journeys.registry import journey
from ironauth.tests.browser.journeys.walker import LINK, Walker


@journey()
async def an_organisation(walk: Walker) -> None:
    """Make an organisation, invite three people (one declines), change a colleague's role, and delete it."""
    page, colleague, other = walk.page, walk.stage.person(), walk.stage.person()
    await walk.sign_in()
    await walk.row("organizations")
    await walk.send(400, name="Acme \u202e")
    await walk.refused()
    await walk.send(name="Acme Ltd")
    await walk.done()
    made = page.url.partition("?")[0]
    for address in (walk.newcomer, colleague, other):
        await walk.send(email=address)
        await walk.done()
    await walk.send(409, email=colleague.upper())  # the very same request would be a second click
    await walk.refused()
    await walk.sign_out()

    await walk.open(await walk.mailed(LINK, walk.newcomer))
    await walk.see()
    await walk.open(await walk.mailed(LINK, colleague))
    await walk.see()
    await walk.press("a[href='/account/security/organizations']")
    await walk.send(email=colleague, password=PASSWORD)
    await walk.see()
    await walk.press(walk.act("accept"))
    await walk.done()
    await walk.sign_out()

    await walk.open(await walk.mailed(LINK, other))
    await walk.press("a[href='/account/security/organizations']")
    await walk.send(email=other, password=PASSWORD)
    await walk.press(walk.act("decline"))
    await walk.done()
    await expect(walk.act("accept")).to_have_count(0)
    await walk.sign_out()

    await walk.sign_in()
    await walk.open(made)
    await walk.see("Acme Ltd")
    await walk.press("a[href*='/members/']")
    await walk.see()
    await page.locator("[name=role]").select_option("admin")
    await walk.press("button[value=role]")
    await walk.done()
    await walk.press("a[href*='/members/']")
    await walk.press("button[value=remove]")
    await walk.done()
    await walk.press(walk.act("withdraw"))
    await walk.done()
    await expect(page.locator("[name=act][value=leave]")).to_have_count(0)  # the last owner stays
    await walk.send(name="Acme & Sons")
    await walk.done()
    await walk.press("a[href$='/delete']")
    await walk.see()
    await walk.press(walk.act("delete"))
    await walk.done()
    await expect(page.locator(".ways")).to_have_count(0)
