"""The page of one's own account in a browser that runs no script: every row's act once, on a phone."""

import asyncio
import json
from pathlib import Path

import pytest
from playwright.async_api import expect

from conftest import PASSWORD
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.watched import PICTURES, Watched
from tokens.tests.second_factor import App

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

EMAIL = "mia@example.com"
NEW_PASSWORD = "seven amber kites over Lyon"


async def open_row(shown: Watched, title: str) -> None:
    """Open a row of the account."""
    await shown.go("/account/security")
    await shown.page.get_by_role("link", name=title, exact=True).click()
    await heading(shown, title)


async def heading(shown: Watched, text: str) -> None:
    """Wait until the page has this heading, and keep a picture of it where pictures are kept."""
    await expect(shown.page.get_by_role("heading", level=1, name=text, exact=True)).to_be_visible()
    if PICTURES:
        name = f"plain-{'-'.join(text.lower().split())}.png"
        await shown.page.screenshot(path=Path(PICTURES) / name, full_page=True)


async def press(shown: Watched, button: str, **typed: str) -> None:
    """Fill in the fields with these labels (an underscore stands for a space) and press the button."""
    for label, text in typed.items():
        await shown.page.get_by_label(label.replace("_", " "), exact=True).fill(text)
    await shown.page.get_by_role("button", name=button, exact=True).click()


async def done(shown: Watched, words: str) -> None:
    """Wait until the page says what was done, where it is seen."""
    await expect(shown.page.locator(".done")).to_have_text(words)
    await expect(shown.page.locator(".done")).to_be_in_viewport()


async def refused(shown: Watched, label: str, status: int, button: str, **typed: str) -> None:
    """Send what is wrong: the field with this label is marked, with its reason, where it is seen."""
    with shown.refusing(status):
        await press(shown, button, **typed)
        field = shown.page.get_by_label(label, exact=True)
        await expect(field).to_have_attribute("aria-invalid", "true")
    await expect(field).to_be_in_viewport()
    await expect(shown.page.locator(".reasons")).to_be_in_viewport()


async def test_an_account_is_looked_after_without_a_script(open_site: OpenSite, open_page: OpenPage) -> None:
    """Name, address, password, codes, sessions, language, data and the account's end; a passkey says what it needs."""
    site = open_site()
    shown = await open_page(site, scripts=False)
    page = shown.page
    await page.set_viewport_size({"width": 390, "height": 844})
    person = {"email": EMAIL, "password": PASSWORD}
    api = f"{site.origin}/api/v1/access"
    assert (await page.context.request.post(f"{api}/signup", data=person)).ok
    for agent in ("curl/8.9", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"):
        signed_in = await page.context.request.post(f"{api}/signin", data=person, headers={"User-Agent": agent})
        assert signed_in.ok
    await shown.go("/account/security")
    await heading(shown, "Sign in")
    await press(shown, "Sign in", **{"E-mail_address": EMAIL, "Password": PASSWORD})
    await heading(shown, "Your account")

    await open_row(shown, "Name")
    await press(shown, "Save", Name="Mia Meyer")
    await done(shown, "Your changes were saved.")
    await open_row(shown, "E-mail address")
    await refused(shown, "Password", 401, "Send the message", New_address="new@example.com", Password="no " * 6)
    await expect(page.get_by_label("New address")).to_have_value("new@example.com")
    await press(shown, "Send the message", Password=PASSWORD)
    await done(shown, "Open the message that is on its way to the new address.")
    await open_row(shown, "Where you are signed in")
    await press(shown, "Sign out curl/8.9")
    await done(shown, "That device was signed out.")
    await press(shown, "Sign out everywhere else")
    await done(shown, "You are signed out everywhere else.")
    await expect(page.locator(".list li")).to_have_count(1)
    await open_row(shown, "Language")
    await page.get_by_label("Language").select_option("de")
    await page.get_by_role("button", name="Save").click()
    await heading(shown, "Sprache")
    await page.get_by_label("Sprache").select_option("en")
    await page.get_by_role("button", name="Speichern").click()
    await done(shown, "Your language was changed.")
    await open_row(shown, "Applications")
    await open_row(shown, "Your data")
    async with page.expect_download() as started:
        await press(shown, "Download your data")
    held = json.loads(await asyncio.to_thread((await (await started.value).path()).read_text))
    assert held["sections"]["account"][0]["name"] == "Mia Meyer"

    await open_row(shown, "One-time codes")
    await press(shown, "Set up one-time codes")
    await expect(page.get_by_alt_text("QR code with the key below")).to_be_visible()
    app = App((await page.locator("#totp-secret").inner_text()).replace(" ", ""))
    await refused(shown, "Code the app shows now", 401, "Confirm", Code_the_app_shows_now=app.wrong())
    await press(shown, "Confirm", Code_the_app_shows_now=app.code(-1))
    await heading(shown, "Your recovery codes")
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download").click()
    assert (await started.value).suggested_filename == "recovery-codes.txt"
    await open_row(shown, "Recovery codes")
    await press(shown, "Make new ones", Password=PASSWORD)
    await heading(shown, "Your recovery codes")
    await open_row(shown, "Passkeys")
    assert "A new passkey needs JavaScript" in await page.content()  # in an element that Chromium shows no driver
    await open_row(shown, "One-time codes")
    await press(shown, "Remove one-time codes", Password=PASSWORD)
    await done(shown, "One-time codes were removed.")

    await open_row(shown, "Password")
    short = {"Current_password": PASSWORD, "New_password": "password password"}
    await refused(shown, "New password", 400, "Change the password", **short)
    await press(shown, "Change the password", Current_password=PASSWORD, New_password=NEW_PASSWORD)
    await done(shown, "Your password was changed.")
    await shown.go("/account/security")
    await press(shown, "Sign out")
    await heading(shown, "Sign in")
    await press(shown, "Sign in", **{"E-mail_address": EMAIL, "Password": NEW_PASSWORD})
    await open_row(shown, "Delete your account")
    await press(shown, "Delete my account", Password=NEW_PASSWORD)
    await heading(shown, "Your account was deleted")
