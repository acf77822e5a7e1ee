"""Journeys on the page of one's account, and that of staff who look at it."""

import asyncio
import json

from playwright.async_api import expect

from conftest import PASSWORD
from ironauth.tests.browser.journeys.registry import journey
from ironauth.tests.browser.journeys.walker import ACCOUNT, LINK, Walker
from ironauth.tests.browser.journeys.ways_in import NEW_PASSWORD, SIGN_IN, WEAK, WRONG


@journey()
async def change_password(walk: Walker) -> None:
    """Choose another password, at the third try, and sign in with it."""
    await walk.sign_in()
    await walk.row("password")
    await walk.send(400, current_password=PASSWORD, new_password=WEAK)
    await walk.refused()
    await walk.send(401, current_password=WRONG, new_password=NEW_PASSWORD)
    await walk.refused()
    await walk.send(current_password=PASSWORD, new_password=NEW_PASSWORD)
    await walk.done()
    await walk.sign_out()
    await walk.send(email=walk.email, password=NEW_PASSWORD)
    await walk.home()


@journey()
async def change_address(walk: Walker) -> None:
    """Have another address, by the link of a message to it and the password, and sign in with it."""
    await walk.sign_in()
    await walk.row("email")
    await walk.send(401, new_email=walk.newcomer, password=WRONG)
    await walk.refused()
    await expect(walk.page.locator("[name=new_email]")).to_have_value(walk.newcomer)
    await walk.send(password=PASSWORD)
    await walk.done()
    await walk.open(await walk.mailed(LINK, walk.newcomer))
    await walk.see()
    await walk.send(password=PASSWORD)
    await walk.see()
    await walk.sign_in(walk.newcomer)


@journey()
async def sessions(walk: Walker) -> None:
    """See where one is signed in, sign out one device, and then everywhere else."""
    for agent in ("curl/8.9", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"):
        async with walk.stage.api(agent) as api:
            await walk.tokens(api)
    await walk.sign_in()
    await walk.row("sessions")
    await expect(walk.page.locator(".list li")).to_have_count(3)
    await walk.press("button[aria-label$='curl/8.9']")
    await walk.done()
    await walk.press(walk.act("end_others"))
    await walk.done()
    await expect(walk.page.locator(".list li")).to_have_count(1)


@journey()
async def name_and_language(walk: Walker) -> None:
    """Have another name, and read one's pages in another language and in one's own again."""
    await walk.sign_in()
    await walk.row("name")
    await walk.send(400, name="Mia \u202e")
    await walk.refused()
    await walk.send(name="Mia Meyer")
    await walk.done()
    await walk.row("language")
    await walk.page.locator("[name=language]").select_option("fr")
    await walk.press(walk.act("change"))
    await expect(walk.page.locator("html")).to_have_attribute("lang", "fr")
    await walk.page.locator("[name=language]").select_option("")
    await walk.press(walk.act("change"))
    await walk.done()


@journey()
async def data(walk: Walker) -> None:
    """Take along everything that is held."""
    await walk.sign_in()
    await walk.row("data")
    async with walk.page.expect_download() as started:
        await walk.act("export").click()
    held = json.loads(await asyncio.to_thread((await (await started.value).path()).read_text))
    assert held["sections"]["account"][0]["email"] == walk.email


@journey()
async def deletion(walk: Walker) -> None:
    """Delete the account, be let in no more, and take that back by the link of a message."""
    await walk.sign_in()
    await walk.row("delete")
    await walk.send(401, password=WRONG)
    await walk.refused()
    await walk.send(password=PASSWORD)
    await walk.see()
    await walk.open(SIGN_IN)
    await walk.send(401, email=walk.email, password=PASSWORD)
    await walk.open(await walk.mailed(LINK))
    await walk.see()
    await walk.press("main form button[type=submit]")
    await walk.see()
    await walk.sign_in()


@journey()
async def sign_in_as(walk: Walker) -> None:
    """Staff sign in as the person, look at the account under the banner, and end it."""
    helper = walk.stage.helper()
    async with walk.stage.api() as api:
        found = await api.get("/api/v1/users", params={"search": walk.email}, headers=await walk.bearer(api, helper))
        (person,) = [one["id"] for one in found.json()["results"] if one["email"] == walk.email]
    app, _ = await walk.with_app(helper)
    await walk.open("/admin/")
    await walk.send(username=helper, password=PASSWORD)
    await walk.send(code=app.code())
    await walk.open(f"/admin/accounts/user/{person}/sign-in-as/")
    await walk.see()
    await walk.page.locator("[name=reason]").fill("Ticket 7")
    await walk.press("#content form [type=submit]")
    for path in (ACCOUNT, f"{ACCOUNT}/sessions", f"{ACCOUNT}/password"):
        await walk.open(path)
        await expect(walk.page.locator("aside.acting")).to_be_visible()
        await walk.see()
    await walk.press(walk.act("end_acting"))
    await expect(walk.page).to_have_url(f"{walk.stage.origin}/admin/accounts/user/{person}/change/")
