"""Signing in by a link in a message, and what people without a password do on the account's page, in a browser."""

import httpx
import pytest
from playwright.async_api import expect

from accounts.tests.mail_files import digits_in, link_in
from conftest import PASSWORD
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.test_person import heading, open_row, signed_in

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

EMAIL = "mia@example.com"


async def test_a_link_signs_in_and_codes_confirm(open_site: OpenSite, open_page: OpenPage) -> None:
    """The link's button, in the browser that asked alone; the account has no password then, and codes stand in."""
    site = open_site(IRONAUTH_EMAIL_VERIFICATION="optional", IRONAUTH_SIGN_IN_BY_EMAIL="1")
    body = {"email": EMAIL, "password": PASSWORD, "name": "Mia"}
    async with httpx.AsyncClient(base_url=site.origin, timeout=30) as api:
        assert (await api.post("/api/v1/access/signup", json=body)).status_code == 201
    shown = await open_page(site)
    page = shown.page
    await shown.go("/account/signin")
    await page.get_by_role("button", name="Send me a code by e-mail").click()
    await page.get_by_label("E-mail address").fill(EMAIL)
    await page.get_by_role("button", name="Send me a code").click()
    await heading(shown, "Check your e-mail")
    link = link_in(site.mail.take(EMAIL, "Your code to sign in"))

    elsewhere = await open_page(site)
    await elsewhere.go(link)
    await heading(elsewhere, "Go on where you began")
    await elsewhere.look("email-link-elsewhere")

    await shown.go(link)
    await heading(shown, "Sign in")
    await expect(page.get_by_text(EMAIL)).to_be_visible()
    await shown.look("email-link")
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await signed_in(shown)
    with shown.refusing(400):
        await shown.go(link)
        await expect(page.get_by_role("alert")).to_contain_text("was used before")
        await shown.look("email-link-used")

    await shown.go("/account/security")
    await signed_in(shown)
    await expect(page.locator("#password-state")).to_have_text("None")
    await open_row(shown, "E-mail address")
    await expect(page.locator("#email-password")).to_be_hidden()
    await page.get_by_label("New address").fill("other@example.com")
    await page.get_by_role("button", name="Send the message").click()
    code = page.get_by_role("dialog").get_by_label("Code of six digits")
    await expect(code).to_be_visible()
    await shown.look("ask-mailed")
    sent = site.mail.take(EMAIL, "Your code to continue")
    with shown.refusing(401):
        await code.fill("000000")
        await page.get_by_role("dialog").get_by_role("button", name="Continue").click()
        await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("The code is wrong")
    await shown.look("ask-mailed-refused")
    await code.fill(digits_in(sent))
    await page.get_by_role("dialog").get_by_role("button", name="Continue").click()
    await expect(page.locator("#email-status")).to_have_text("Open the message that is on its way to the new address.")

    await open_row(shown, "Delete your account")
    await expect(page.locator("#delete-password")).to_be_hidden()
    await page.get_by_role("button", name="Delete my account").click()
    await expect(code).to_be_visible()
    await code.fill(digits_in(site.mail.take(EMAIL, "Your code to continue")))
    await page.get_by_role("dialog").get_by_role("button", name="Continue").click()
    await expect(page.get_by_role("heading", name="Your account was deleted")).to_be_visible()
