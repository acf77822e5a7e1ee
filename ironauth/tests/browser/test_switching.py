"""Several people at the account's own pages, in German: the page that lists them, and what is said on the way."""

import pytest
from playwright.async_api import Locator, Page, expect

from conftest import PASSWORD
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.test_accounts import BEN, MIA, with_people
from ironauth.tests.browser.watched import Watched

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]


async def sign_in(shown: Watched, email: str) -> None:
    """Sign in on the page, in German."""
    await shown.page.get_by_label("E-Mail-Adresse").fill(email)
    await shown.page.get_by_label("Passwort", exact=True).fill(PASSWORD)
    await shown.page.get_by_role("button", name="Anmelden", exact=True).click()
    await expect(shown.page.get_by_role("heading", level=1, name="Ihr Konto")).to_be_visible()


def choice(page: Page, email: str) -> Locator:
    """Return the button that chooses the account."""
    return page.locator("button[name=account]").filter(has_text=email)


@pytest.mark.parametrize("scripts", [True, False])
async def test_switching(open_site: OpenSite, open_page: OpenPage, *, scripts: bool) -> None:
    """One beside the other, there and back, signed out one by one; each page fits, with and without scripts."""
    site = open_site()
    shown = await open_page(site, "de", scripts=scripts)
    page = shown.page
    await with_people(site, "https://app.example.com")
    await shown.go("/account/")
    await sign_in(shown, MIA)
    await page.get_by_role("link", name="Konto wechseln").click()
    await page.locator("button[name=other]").click()
    await sign_in(shown, BEN)
    if scripts:
        await shown.look("switch-overview")
    await page.get_by_role("link", name="Konto wechseln").click()
    await expect(choice(page, MIA)).to_be_visible()
    if scripts:
        await shown.look("switch-accounts")
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.url) if one.method == "POST" else None)
    await (choice(page, MIA).dblclick() if scripts else choice(page, MIA).click())
    await expect(page.locator(".who span")).to_have_text(MIA)
    assert len(sent) == 1  # by the second press of one button nothing is sent
    await page.get_by_role("link", name="Konto wechseln").click()
    await page.get_by_role("button", name=f"{MIA} abmelden").click()
    await expect(page.get_by_role("heading", level=1, name="Sie sind abgemeldet")).to_be_visible()
    if scripts:
        await shown.look("switch-signed-out")
    await choice(page, BEN).click()
    await expect(page.locator(".who span")).to_have_text(BEN)


async def test_the_meter_without_scripts(open_site: OpenSite, open_page: OpenPage) -> None:
    """A button judges the password; the meter is seen then, and the name that was typed."""
    site = open_site(IRONAUTH_SIGN_UP="open")
    shown = await open_page(site, "de", scripts=False)
    page = shown.page
    await shown.go("/account/signup")
    await page.get_by_label("E-Mail-Adresse").fill("neu@example.com")
    await page.get_by_label("Passwort", exact=True).fill("kurz")
    await page.get_by_role("button", name="Passwort prüfen").click()
    await expect(page.locator("#strength")).to_be_visible()
    await expect(page.get_by_text("Es wurde nichts gespeichert")).to_be_visible()
    await expect(page.get_by_label("E-Mail-Adresse")).to_have_value("neu@example.com")
    await expect(page.get_by_label("Passwort", exact=True)).to_have_value("")
