"""Signing in by a link in a message, and what people without a password do on the account's page, in a browser."""

import asyncio

import httpx
import pytest
from playwright.async_api import Route, expect

from accounts.tests.mail_files import digits_in, link_in
from conftest import PASSWORD
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.test_person import heading, signed_in

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

    await shown.go("/account/security/email")
    await page.get_by_label("New address").fill("other@example.com")
    await page.get_by_role("button", name="Send me a code by e-mail").click()
    await expect(page.get_by_role("status")).to_have_text("A message with a code is on its way to your e-mail address.")
    await expect(page.get_by_label("New address")).to_have_value("other@example.com")
    await shown.look("email-by-code")
    code = page.get_by_label("Code from a message to you")
    sent = site.mail.take(EMAIL, "Your code to continue")
    with shown.refusing(401):
        await code.fill("000000")
        await code.press("Enter")
        await expect(page.get_by_text("The code is wrong")).to_be_visible()
    await shown.look("email-by-code-refused")
    await code.fill(digits_in(sent))
    await page.get_by_role("button", name="Send the message").click()
    await expect(page.get_by_role("status")).to_have_text("Open the message that is on its way to the new address.")

    await shown.go("/account/security/delete")
    await page.get_by_role("button", name="Send me a code by e-mail").click()
    await shown.look("delete-by-code")
    await code.fill(digits_in(site.mail.take(EMAIL, "Your code to continue")))
    await page.get_by_role("button", name="Delete my account").click()
    await heading(shown, "Your account was deleted")


async def test_a_reset_goes_on(open_site: OpenSite, open_page: OpenPage) -> None:
    """From the sign-in page to the account, by the link of a message; on another device only the password is set."""
    site = open_site(IRONAUTH_EMAIL_VERIFICATION="optional")
    body = {"email": EMAIL, "password": PASSWORD, "name": "Mia"}
    async with httpx.AsyncClient(base_url=site.origin, timeout=30) as api:
        assert (await api.post("/api/v1/access/signup", json=body)).status_code == 201
    shown = await open_page(site)
    page = shown.page
    await shown.go("/account/signin?next=/account/security")
    await page.get_by_role("button", name="Forgot your password?").click()
    await heading(shown, "Forgot your password?")
    await shown.look("ask-reset")
    await page.get_by_label("E-mail address").fill(EMAIL)
    await page.get_by_role("button", name="Send the message").click()
    await heading(shown, "Check your e-mail")
    await shown.look("reset-sent")
    link = link_in(site.mail.take(EMAIL, "Choose a new password"))

    elsewhere = await open_page(site)
    await elsewhere.go(link)
    await heading(elsewhere, "Choose a new password")
    with elsewhere.refusing(400):
        await elsewhere.page.get_by_label("New password").fill("password password")
        await elsewhere.page.get_by_role("button", name="Set the password").click()
        await expect(elsewhere.page.get_by_role("alert")).to_be_visible()
    await elsewhere.look("reset-refused")
    await elsewhere.page.get_by_label("New password").fill("seven amber kites over Lyon")
    await elsewhere.page.get_by_role("button", name="Set the password").click()
    await heading(elsewhere, "Your password was changed")
    await elsewhere.look("reset-elsewhere")

    await page.get_by_role("button", name="Sign in with the new password").click()
    await heading(shown, "Sign in")
    await page.get_by_role("button", name="Forgot your password?").click()
    await page.get_by_label("E-mail address").fill(EMAIL)
    await page.get_by_role("button", name="Send the message").click()
    await shown.go(link_in(site.mail.take(EMAIL, "Choose a new password")))
    await page.get_by_label("New password").fill("nine purple lamps in Porto")
    await shown.look("reset-here")
    await page.get_by_role("button", name="Set the password").click()
    await signed_in(shown)


async def test_a_double_click(open_site: OpenSite, open_page: OpenPage) -> None:
    """Without script, for a link that signs in and a password: the second click goes on where the answer was lost."""
    site = open_site(IRONAUTH_EMAIL_VERIFICATION="optional", IRONAUTH_SIGN_IN_BY_EMAIL="1")
    async with httpx.AsyncClient(base_url=site.origin, timeout=30) as api:
        body = {"email": EMAIL, "password": PASSWORD, "name": "Mia"}
        assert (await api.post("/api/v1/access/signup", json=body)).status_code == 201
    ways = (
        ("Send me a code by e-mail", "Send me a code", "Your code to sign in", "Sign in"),
        ("Forgot your password?", "Send the message", "Choose a new password", "Set the password"),
    )
    for way, sends, subject, button in ways:
        shown = await open_page(site, scripts=False)
        page, button_there = shown.page, shown.page.get_by_role("button", name=button, exact=True)
        await shown.go("/account/signin")
        await page.get_by_role("button", name=way).click()
        await page.get_by_label("E-mail address").fill(EMAIL)
        await page.get_by_role("button", name=sends).click()
        await heading(shown, "Check your e-mail")
        await shown.go(link_in(site.mail.take(EMAIL, subject)))
        if button != "Sign in":
            await page.get_by_label("New password").fill("seven amber kites over Lyon")
        lost: asyncio.Queue[int] = asyncio.Queue()

        async def lose(route: Route, *, lost: asyncio.Queue[int] = lost) -> None:
            answer = await route.fetch(max_redirects=0)
            await route.abort("aborted")
            await lost.put(answer.status)

        await page.route("**/oauth/**", lose, times=1)
        await button_there.click(no_wait_after=True)
        assert await asyncio.wait_for(lost.get(), 10) == 303
        await button_there.click()
        await signed_in(shown)
