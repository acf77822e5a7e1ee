"""An invitation in a browser: the message, its page with the terms, and the way in; the link works once."""

import httpx
import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import expect

from accounts.tests.mail_files import link_in
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.watched import Watched

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]
EMAIL, NEW_PASSWORD = "ida@example.com", "seven amber kites over Lyon"


async def heading(shown: Watched, text: str) -> None:
    """Wait until the page has this heading."""
    await expect(shown.page.get_by_role("heading", level=1, name=text, exact=True)).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False])
async def test_an_invitation(open_site: OpenSite, open_page: OpenPage, scripts: bool) -> None:
    """With and without JavaScript: invited by staff, the terms accepted, signed in; then the link is of no use."""
    site = open_site(
        IRONAUTH_EMAIL_VERIFICATION="required",
        IRONAUTH_SIGN_UP="invitation",
        IRONAUTH_TERMS_VERSION="2026-11-01",
        IRONAUTH_TERMS_URL="https://example.com/terms",
        IRONAUTH_PRIVACY_URL="https://example.com/privacy",
    )
    await sync_to_async(User.objects.create_superuser)("root@example.com", PASSWORD)
    async with httpx.AsyncClient(base_url=f"{site.origin}/api/v1", timeout=30) as api:
        signed = await api.post("/access/signin", json={"email": "root@example.com", "password": PASSWORD})
        headers = {"Authorization": f"Bearer {signed.json()['access_token']}"}
        shown = await open_page(site, scripts=scripts)
        look = shown.look if scripts else _unseen

        async def invited() -> str:
            made = await api.post("/users/invitations", json={"email": EMAIL, "name": "Ida"}, headers=headers)
            assert made.status_code == 201, made.text
            return link_in(site.mail.take(EMAIL, "You are invited: create your account"))

        await shown.go(await invited())
        await shown.page.get_by_role("button", name="Decline the invitation").click()
        await heading(shown, "You have declined")
        await look("invitation-declined")
        link = await invited()
    await shown.go(link)
    await heading(shown, "Create your account")
    await expect(shown.page.get_by_label("E-mail address")).to_have_value(EMAIL)
    await expect(shown.page.get_by_label("Name")).to_have_value("Ida")
    await look("invitation")
    password, create = shown.page.get_by_label("Password", exact=True), shown.page.get_by_role("button", name="Create")
    await shown.page.get_by_role("checkbox").check()
    await password.fill("ida@example.com!!")
    if scripts:
        await expect(shown.page.get_by_role("meter")).to_be_visible()
    with shown.refusing(400):
        await create.click()
        await expect(shown.page.get_by_role("alert")).to_contain_text("Your account was not created")
    await expect(shown.page.get_by_role("checkbox")).to_be_checked()
    await look("invitation-refused")
    await password.fill(NEW_PASSWORD)
    await create.click()
    await heading(shown, "Your account is ready")
    await look("invitation-done")
    await shown.page.get_by_role("link", name="Sign in").click()
    await heading(shown, "Sign in")
    await shown.page.get_by_label("E-mail address").fill(EMAIL)
    await password.fill(NEW_PASSWORD)
    await shown.page.get_by_role("button", name="Sign in", exact=True).click()
    await heading(shown, "Your account")
    with shown.refusing(400):
        await shown.go(link)
        await heading(shown, "This did not work")
    await look("invitation-used")


async def _unseen(_: str) -> None:
    """Look at nothing: axe-core is a script."""
