"""Several people in one browser: the page that asks who it is, and the one after a sign-out."""

import re

import httpx
import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import Browser, Locator, Page, expect

from conftest import PASSWORD
from ironauth.tests.browser.conftest import OpenPage, OpenSite, Site
from ironauth.tests.browser.test_oauth import arrived, heading, link, wiki_server
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

MIA, BEN = "mia@example.com", "ben.with.a.rather.long.address@subsidiary.example.com"


async def with_people(site: Site, wiki: str) -> OAuthClient:
    """Have two people at the site, and one application of our own."""
    async with httpx.AsyncClient(base_url=site.origin, timeout=30) as api:
        for email, name in ((MIA, "Mia"), (BEN, "")):
            body = {"email": email, "password": PASSWORD, "name": name}
            assert (await api.post("/api/v1/access/signup", json=body)).status_code == 201
    return (await sync_to_async(make_client)(trusted=True, redirect_uris=[f"{wiki}/callback"]))[0]


async def give_password(page: Page, email: str) -> None:
    """Sign in on the page."""
    await page.get_by_label("E-mail address").fill(email)
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()


def row(page: Page, email: str) -> Locator:
    """Return the button that chooses the account."""
    return page.get_by_role("button", name=re.compile(rf"^(?!Sign out).*{re.escape(email)}"))


async def test_people_take_turns(open_site: OpenSite, open_page: OpenPage) -> None:
    """One beside the other, chosen by keyboard, signed out one by one; each page fits and is clean."""
    site = open_site()
    shown = await open_page(site)
    page = shown.page
    with wiki_server() as wiki:
        shown.elsewhere.add(wiki)
        client = await with_people(site, wiki)
        await shown.go(link(client))
        await give_password(page, MIA)
        assert "code" in await arrived(shown)
        await shown.go(link(client, prompt="select_account"))
        await heading(shown, "Choose an account")
        await page.get_by_role("button", name="Use another account").click()
        await give_password(page, BEN)
        assert "code" in await arrived(shown)

        await shown.go(link(client, prompt="select_account"))
        await heading(shown, "Choose an account")
        await shown.look("accounts-choice")
        await row(page, MIA).focus()
        await page.keyboard.press("Enter")
        assert "code" in await arrived(shown)

        await shown.go(link(client, prompt="select_account"))
        await page.get_by_role("button", name=f"Sign out {BEN}").click()
        await expect(row(page, BEN)).to_have_count(0)
        await page.get_by_role("button", name="Use another account").click()
        await give_password(page, BEN)
        assert "code" in await arrived(shown)

        await shown.go("/oauth/logout")
        await page.get_by_role("button", name="Sign out", exact=True).click()
        await heading(shown, "You are signed out")
        await expect(row(page, MIA)).to_be_visible()
        await shown.look("accounts-signed-out")
        await shown.go(link(client, prompt="none"))
        assert (await arrived(shown))["error"] == "login_required"
        await shown.go("/oauth/logout")
        await row(page, MIA).click()
        await heading(shown, "Accounts in this browser")
        await shown.look("accounts-here")
        await shown.go(link(client, prompt="none"))
        assert "code" in await arrived(shown)


async def test_in_german_without_script(open_site: OpenSite, chromium: Browser) -> None:
    """The choice is in the person's language, and needs no script."""
    site = open_site()
    context = await chromium.new_context(java_script_enabled=False, locale="de")
    page = await context.new_page()
    with wiki_server() as wiki:
        client = await with_people(site, wiki)
        await page.goto(f"{site.origin}{link(client)}")
        await page.get_by_label("E-Mail-Adresse").fill(MIA)
        await page.get_by_label("Passwort", exact=True).fill(PASSWORD)
        await page.get_by_role("button", name="Anmelden", exact=True).click()
        await page.wait_for_url(f"{wiki}/callback?*")
        await page.goto(f"{site.origin}{link(client, prompt='select_account')}")
        await expect(page.get_by_role("heading", level=1, name="Konto auswählen")).to_be_visible()
        await row(page, MIA).first.click()
        await page.wait_for_url(f"{wiki}/callback?*")
    await context.close()
