"""Signing in by the address first, in a browser: by password, by passkey from what it suggests, without script."""

import httpx
import pytest
from playwright.async_api import Browser, expect

from conftest import PASSWORD
from ironauth.tests.browser.chromium import plug_in_authenticator
from ironauth.tests.browser.conftest import OpenPage, OpenSite, Site
from ironauth.tests.browser.watched import Watched

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

EMAIL = "mia@example.com"
WRONG = "not the password at all"


async def arrived(shown: Watched) -> None:
    """Wait for the page of one's account."""
    await expect(shown.page.get_by_role("heading", level=1, name="Your account")).to_be_visible()


async def with_person(open_site: OpenSite) -> Site:
    """Return a site that asks for the address first, and has a person."""
    site = open_site(IRONAUTH_SIGN_IN_FORM="identifier_first", IRONAUTH_SIGN_IN_BY_EMAIL="1")
    async with httpx.AsyncClient(base_url=site.origin, timeout=30) as api:
        person = {"email": EMAIL, "password": PASSWORD, "name": "Mia"}
        assert (await api.post("/api/v1/access/signup", json=person)).status_code == 201
    return site


async def give_address(shown: Watched, email: str) -> None:
    """Fill in the first page and send it by the keyboard."""
    await shown.page.get_by_label("E-mail address").fill(email)
    await shown.page.keyboard.press("Enter")
    await expect(shown.page.get_by_text(f"You are {email}")).to_be_visible()


async def test_address_then_password_then_passkey(open_site: OpenSite, open_page: OpenPage) -> None:
    """The password page has the focus in its field; *Not you?* leads back; a passkey is suggested on both pages."""
    site = await with_person(open_site)
    shown = await open_page(site)
    page = shown.page
    await shown.go("/account/signin")
    await expect(page.get_by_label("E-mail address")).to_be_focused()
    await shown.look("identifier-first")
    await give_address(shown, "somebody.with.a.very.long.address.that.has.no.blank@mail.subsidiary.example.com")
    await shown.look("identifier-password")
    await page.get_by_role("button", name="Not you?").click()
    await expect(page.get_by_label("E-mail address")).to_have_value("")
    await give_address(shown, EMAIL)
    await expect(page.get_by_label("Password", exact=True)).to_be_focused()
    assert EMAIL not in page.url
    with shown.refusing(401):
        await page.get_by_label("Password", exact=True).fill(WRONG)
        await page.keyboard.press("Enter")  # of two buttons in this form it is *Sign in*
        await expect(page.locator("#problem")).to_be_visible()
    await shown.look("identifier-wrong")
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.keyboard.press("Enter")
    await arrived(shown)

    authenticator = await plug_in_authenticator(page)
    await page.get_by_role("link", name="Passkeys", exact=True).click()
    await page.get_by_label("Name of a new passkey").fill("My phone")
    await page.get_by_role("button", name="Add a passkey").click()
    async with authenticator.touched():
        await page.get_by_role("button", name="Create the passkey").click()
        await expect(page.get_by_role("link", name="I have saved them")).to_be_visible()  # the first factor
    for steps in (1, 2):
        await page.context.clear_cookies()
        await shown.go("/account/signin")
        if steps == 2:
            await give_address(shown, EMAIL)
        await expect(page.locator("html[data-asked=conditional]")).to_be_attached()
        async with authenticator.touched():  # what the browser has suggested is picked, and no button pressed
            await page.reload()
            await arrived(shown)


async def test_without_script(open_site: OpenSite, chromium: Browser) -> None:
    """Both pages do their work where no script runs."""
    site = await with_person(open_site)
    context = await chromium.new_context(java_script_enabled=False, locale="en-GB")
    page = await context.new_page()
    await page.goto(f"{site.origin}/account/signin")
    await page.get_by_label("E-mail address").fill(EMAIL)
    await page.get_by_role("button", name="Continue").click()
    await expect(page.get_by_text(f"You are {EMAIL}")).to_be_visible()
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await page.wait_for_url("**/account/security")
    await context.close()
