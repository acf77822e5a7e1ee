"""What a person does with the account pages and the links in messages, in a browser, from sign-up to restoring it."""

import asyncio
import json
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import expect

from accounts.tests.mail_files import digits_in, link_in
from conftest import PASSWORD
from ironauth.tests.browser.chromium import Authenticator, plug_in_authenticator
from ironauth.tests.browser.conftest import OpenPage, OpenSite, Site
from ironauth.tests.browser.watched import Watched
from tokens.tests.second_factor import App

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

EMAIL = "mia@example.com"
NEW_PASSWORD = "seven amber kites over Lyon"
WRONG = "not the password at all"


@pytest.fixture
def site(open_site: OpenSite) -> Site:
    """A server that lets people in once their address is verified."""
    return open_site(IRONAUTH_EMAIL_VERIFICATION="required", IRONAUTH_KEEP_DEVICE_DAYS="30")


async def heading(shown: Watched, text: str) -> None:
    """Wait until the page has this heading."""
    await expect(shown.page.get_by_role("heading", level=1, name=text, exact=True)).to_be_visible()


async def signed_in(shown: Watched, email: str = EMAIL) -> None:
    """Wait until the page of one's own account is there."""
    await heading(shown, "Your account")
    await expect(shown.page.locator(".who > span")).to_have_text(email)


async def open_row(shown: Watched, title: str) -> None:
    """Open a row of the account."""
    await shown.go("/account/security")
    await shown.page.get_by_role("link", name=title, exact=True).click()
    await heading(shown, title)


async def sign_out(shown: Watched) -> None:
    """Leave, and wait for the way back in."""
    await shown.go("/account/security")
    await shown.page.get_by_role("button", name="Sign out", exact=True).click()
    await heading(shown, "Sign in")


async def done(shown: Watched, words: str) -> None:
    """Wait until the page says what was done."""
    await expect(shown.page.locator(".done")).to_have_text(words)


async def give_password(shown: Watched, password: str) -> None:
    """Fill in the first form."""
    await shown.page.get_by_label("E-mail address").fill(EMAIL)
    await shown.page.get_by_label("Password", exact=True).fill(password)
    await shown.page.get_by_role("button", name="Sign in", exact=True).click()


async def look_around(shown: Watched) -> None:
    """See what strangers see: the start page, a link that opens nothing, where to ask for another, the way in."""
    await shown.go("/")
    await heading(shown, urlsplit(shown.page.url).netloc)
    await shown.look("home")
    await shown.go("/account/verify-again")
    await heading(shown, "Confirm your e-mail address")
    await shown.look("verify-again")
    await shown.go("/account/security")
    await heading(shown, "Sign in")
    with shown.refusing(400):
        await shown.go("/password/reset?token=stale")
        await heading(shown, "This did not work")
    await shown.look("stale")


async def verify(shown: Watched, site: Site) -> None:
    """Sign up as a product does for its people; link and password confirm the address, a click alone does not."""
    async with httpx.AsyncClient(base_url=f"{site.origin}/api/v1/access", timeout=30) as api:
        credentials = {"email": EMAIL, "password": PASSWORD}
        assert (await api.post("/signup", json={**credentials, "name": "Mia"})).status_code == 202
        await shown.go("/account/signin")
        with shown.refusing(401):
            await give_password(shown, PASSWORD)
            await expect(shown.page.get_by_role("alert")).to_contain_text("the address is not confirmed yet")
        await expect(shown.page.get_by_role("button", name="ask for a message")).to_be_visible()
        await shown.look("not-verified")
        await shown.go(link_in(site.mail.take(EMAIL, "Confirm your e-mail address")))
        await heading(shown, "Confirm your e-mail address")
        await shown.look("verify")
        assert (await api.post("/signin", json=credentials)).status_code == 401
    confirm = shown.page.get_by_role("button", name="Confirm", exact=True)
    with shown.refusing(400):
        await confirm.click()
        await expect(shown.page.get_by_role("alert")).to_contain_text(
            "Type the account's password, or choose a new one"
        )
        await shown.look("verify-refused")
    await shown.page.get_by_label("Password", exact=True).fill(PASSWORD)
    await confirm.click()
    await heading(shown, "Thank you")
    await shown.look("verified")


async def set_up_app(shown: Watched) -> App:
    """Set up one-time codes with what the page shows."""
    page = shown.page
    await open_row(shown, "One-time codes")
    await page.get_by_role("button", name="Set up one-time codes").click()
    await expect(page.get_by_alt_text("QR code with the key below")).to_be_visible()
    link = await page.get_by_role("link", name="Open in an app on this device").get_attribute("href")
    assert link is not None
    assert link.startswith("otpauth://totp/")
    await shown.look("app")
    app = App((await page.locator("#totp-secret").inner_text()).replace(" ", ""))
    code = page.get_by_label("Code the app shows now")
    await code.fill(app.wrong())
    with shown.refusing(401):
        await page.get_by_role("button", name="Confirm").click()
        await expect(code).to_have_attribute("aria-invalid", "true")
    await expect(code).to_be_in_viewport()
    await shown.look("app-refused")
    assert (await page.locator("#totp-secret").inner_text()).replace(" ", "") == app.secret
    await code.fill(app.code())
    await page.get_by_role("button", name="Confirm").click()
    await expect(page.locator("#codes-list li")).to_have_count(10)
    await shown.look("recovery-codes")
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download", exact=True).click()
    file = await started.value
    lines = (await asyncio.to_thread((await file.path()).read_text)).splitlines()
    assert file.suggested_filename == "recovery-codes.txt"
    assert lines[3:] == await page.locator("#codes-list li").all_inner_texts()
    await page.get_by_role("link", name="I have saved them").click()
    await heading(shown, "Your account")
    await expect(page.get_by_text("10 left")).to_be_visible()
    return app


async def kept_device(shown: Watched) -> None:
    """Sign in on the kept device with the password alone, and keep it no longer."""
    page = shown.page
    await sign_out(shown)
    await give_password(shown, PASSWORD)
    await signed_in(shown)
    await open_row(shown, "Kept devices")
    await shown.look("kept-devices")
    await page.get_by_role("button", name="Remove").click()
    await done(shown, "That device is not kept any longer.")


async def add_passkey(shown: Watched) -> Authenticator:
    """Keep a passkey in the browser's authenticator, and return that."""
    page = shown.page
    authenticator = await plug_in_authenticator(page)
    await open_row(shown, "Passkeys")
    await page.get_by_label("Name of a new passkey").fill("My phone")
    await page.get_by_role("button", name="Add a passkey").click()
    await heading(shown, "Add a passkey")
    await shown.look("new-passkey")
    async with authenticator.touched():
        await page.get_by_role("button", name="Create the passkey").click()
        await done(shown, "The passkey was added.")
    await page.get_by_role("link", name="Rename or remove My phone").click()
    await heading(shown, "My phone")
    await shown.look("one-passkey")
    await page.get_by_label("Name of the passkey").fill("Work phone")
    await page.get_by_role("button", name="Save").click()
    await done(shown, "The passkey was renamed.")
    await expect(page.locator(".list strong")).to_have_text("Work phone")
    await shown.look("passkey")
    return authenticator


async def by_passkey(shown: Watched, authenticator: Authenticator, button: str) -> None:
    """Press what asks for a passkey, and use one."""
    async with authenticator.touched():
        await shown.page.get_by_role("button", name=button).click()
        await signed_in(shown)


async def suggested(shown: Watched) -> None:
    """Wait until the page suggests passkeys, which nobody picks."""
    await expect(shown.page.locator("html[data-asked=conditional]")).to_be_attached()


async def choose_language(shown: Watched) -> None:
    """Read one's own pages in German, and then as the browser says again."""
    page = shown.page
    await open_row(shown, "Language")
    await page.get_by_label("Language").select_option(label="Deutsch")
    await page.get_by_role("button", name="Save", exact=True).click()
    await heading(shown, "Sprache")
    await shown.look("security-language")
    await page.get_by_label("Sprache").select_option("")
    await page.get_by_role("button", name="Speichern", exact=True).click()
    await done(shown, "Your language was changed.")


async def download(shown: Watched) -> None:
    """Take everything held along as a file."""
    await open_row(shown, "Your data")
    async with shown.page.expect_download() as started:
        await shown.page.get_by_role("button", name="Download your data").click()
    file = await started.value
    held = json.loads(await asyncio.to_thread((await file.path()).read_text))
    assert file.suggested_filename == f"account-{held['made_at'][:10]}.json"
    assert held["sections"]["account"][0]["email"] == EMAIL


async def reset(shown: Watched, site: Site) -> None:
    """Forget the password and choose another by the link; the first choice is refused with its reason."""
    page = shown.page
    await shown.go("/account/forgot")
    await heading(shown, "Forgot your password?")
    await shown.look("forgot")
    await page.get_by_label("E-mail address").fill(EMAIL)
    await page.get_by_role("button", name="Send the message").click()
    await heading(shown, "Check your e-mail")
    await shown.look("asked")
    await shown.go(link_in(site.mail.take(EMAIL, "Choose a new password")))
    await heading(shown, "Choose a new password")
    await page.get_by_label("New password").fill("password password")
    await expect(page.locator("#strength-text")).not_to_be_empty()
    with shown.refusing(400):
        await page.get_by_role("button", name="Set the password").click()
        await expect(page.get_by_role("alert")).to_contain_text("choose several different words")
    await shown.look("reset-refused")
    await page.get_by_label("New password").fill(NEW_PASSWORD)
    await page.get_by_role("button", name="Set the password").click()
    await heading(shown, "Your password was changed")
    await shown.look("reset-done")


async def delete_and_restore(shown: Watched, site: Site) -> None:
    """Delete the account on its page, be let in no more, and take it back by the link; a wrong password is told."""
    page = shown.page
    await open_row(shown, "Delete your account")
    password = page.get_by_label("Password", exact=True)
    await password.fill(WRONG)
    with shown.refusing(401):
        await page.get_by_role("button", name="Delete my account").click()
        await expect(password).to_have_attribute("aria-invalid", "true")
    await shown.look("delete-refused")
    await password.fill(NEW_PASSWORD)
    await page.get_by_role("button", name="Delete my account").click()
    await heading(shown, "Your account was deleted")
    await shown.look("deleted")
    link = link_in(site.mail.take(EMAIL, "Your account is being deleted"))
    await shown.go("/account/signin")
    with shown.refusing(401):
        await give_password(shown, NEW_PASSWORD)
        await expect(shown.page.get_by_role("alert")).not_to_be_empty()
    await shown.go(link)
    await heading(shown, "Restore your account")
    await shown.look("restore")
    await shown.page.get_by_role("button", name="Restore").click()
    await heading(shown, "Welcome back")
    await shown.look("restored")


async def test_a_person_lives_with_the_pages(site: Site, open_page: OpenPage) -> None:
    """Links, password, codes, a passkey, a forgotten password a deletion taken back; each page fits and is clean."""
    shown = await open_page(site)
    page = shown.page
    await look_around(shown)
    await verify(shown, site)

    await shown.go("/account/signin")
    await shown.look("sign-in")
    with shown.refusing(401):
        await give_password(shown, WRONG)
        await expect(page.get_by_role("alert")).not_to_be_empty()
    await shown.look("sign-in-refused")
    await give_password(shown, PASSWORD)
    await signed_in(shown)
    await shown.look("security")
    for title in ("Name", "Password", "E-mail address", "Where you are signed in", "Applications"):
        await open_row(shown, title)
        await shown.look(f"security-{title.split()[0].lower()}")
    await shown.go("/.well-known/change-password")
    await heading(shown, "Password")
    await expect(page.get_by_label("Current password")).to_be_visible()
    await choose_language(shown)
    await download(shown)
    app = await set_up_app(shown)

    await sign_out(shown)
    await give_password(shown, PASSWORD)
    await heading(shown, "One more step")
    await shown.look("second-step")
    # Of the step to come: the present one's was used to set the app up, and works once.
    await page.get_by_label("Code of six digits from your app").fill(app.code(1))
    await page.get_by_label("Do not ask for this on this device for 30 days").first.check()
    await page.get_by_role("button", name="Continue").click()
    await signed_in(shown)
    await kept_device(shown)
    authenticator = await add_passkey(shown)

    await sign_out(shown)
    await suggested(shown)  # the button ends that
    await by_passkey(shown, authenticator, "Sign in with a passkey")
    await sign_out(shown)
    await suggested(shown)
    async with authenticator.touched():  # picked among the suggestions: no button is pressed
        await page.reload()
        await signed_in(shown)

    await sign_out(shown)
    await reset(shown, site)
    await shown.go("/account/signin")
    await give_password(shown, NEW_PASSWORD)
    await heading(shown, "One more step")
    await by_passkey(shown, authenticator, "Use a passkey")

    await delete_and_restore(shown, site)
    await shown.go("/account/signin")
    await suggested(shown)
    await by_passkey(shown, authenticator, "Sign in with a passkey")
    told = {"A second factor was set up", "A passkey was added", "Your password was changed"}
    for subject in told:
        site.mail.take(EMAIL, subject)


async def test_passkeys_at_an_address(open_site: OpenSite, open_page: OpenPage) -> None:
    """Where browsers let no passkey be used, the page says where they do."""
    site = open_site(ALLOWED_HOSTS="localhost,127.0.0.1")
    shown = await open_page(site._replace(origin=site.origin.replace("localhost", "127.0.0.1")))
    await shown.go("/account/signin")
    await shown.page.get_by_role("button", name="Sign in with a passkey").click()
    problem = shown.page.get_by_text("Passkeys do not work at this address, only at localhost.")
    await expect(problem).to_be_visible()


async def test_a_stranger_makes_an_account(open_site: OpenSite, open_page: OpenPage) -> None:
    """From the sign-in page to the account, by the code of a message; then in again by another code."""
    site = open_site(IRONAUTH_EMAIL_VERIFICATION="required", IRONAUTH_SIGN_IN_BY_EMAIL="1")
    shown = await open_page(site)
    page = shown.page
    await shown.go("/account/signin")
    await page.get_by_role("button", name="Create an account").click()
    await heading(shown, "Create an account")
    await shown.look("sign-up")
    await page.get_by_label("E-mail address").fill("new@example.com")
    await page.get_by_label("Password", exact=True).fill("password password")
    await expect(page.locator("#strength-text")).not_to_be_empty()
    with shown.refusing(400):
        await page.get_by_role("button", name="Create an account").click()
        await expect(page.get_by_role("alert")).to_contain_text("Correct what is marked")
    await expect(page.get_by_label("E-mail address")).to_have_value("new@example.com")
    await shown.look("sign-up-refused")
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await expect(page.locator("#strength-text")).to_have_text("Very good")
    show = page.get_by_role("button", name="Show", exact=True)
    for kind, pressed in (("text", "true"), ("password", "false")):
        await show.click()
        await expect(page.get_by_label("Password", exact=True)).to_have_attribute("type", kind)
        await expect(show).to_have_attribute("aria-pressed", pressed)
    await show.click()  # it is hidden again before it is sent
    await shown.look("sign-up-strength")
    await page.get_by_role("button", name="Create an account").click()
    await heading(shown, "Check your e-mail")
    await shown.look("sign-up-code")
    sent = site.mail.take("new@example.com", "Confirm your e-mail address")
    await page.get_by_label("Code of six digits").fill(digits_in(sent))
    await page.get_by_role("button", name="Continue").click()
    await signed_in(shown, "new@example.com")

    await sign_out(shown)
    await page.get_by_role("button", name="Send me a code by e-mail").click()
    await heading(shown, "Sign in with a code")
    await shown.look("ask-code")
    await page.get_by_label("E-mail address").fill("new@example.com")
    await page.get_by_role("button", name="Send me a code").click()
    await heading(shown, "Check your e-mail")
    sent = site.mail.take("new@example.com", "Your code to sign in")
    with shown.refusing(401):
        await page.get_by_label("Code of six digits").fill("000000")
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_role("alert")).to_contain_text("The code is wrong")
    await shown.look("code-refused")
    await page.get_by_label("Code of six digits").fill(digits_in(sent))
    await page.get_by_role("button", name="Continue").click()
    await signed_in(shown, "new@example.com")
