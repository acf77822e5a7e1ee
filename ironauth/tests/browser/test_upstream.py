"""Signing in with another provider in a browser: from an application over our page and the provider's and back."""

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import expect

from accounts.federation.models import UpstreamProvider
from accounts.federation.secrets import seal_into
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.test_oauth import arrived, heading, link, wiki_server
from tokens.oauth.tests.clients.program import JAVASCRIPT, node, start
from tokens.oauth.tests.material import make_client

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

MOST_LOOKS = 20
CLIENT_ID, SECRET = "ironauth", "a secret: of two parts"


async def test_a_person_comes_from_another_provider(open_site: OpenSite, open_page: OpenPage) -> None:
    """To an application, twice; the account's page then shows the identity, and asks for a proof to remove it."""
    site = open_site(DEBUG="1", IRONAUTH_UPSTREAM_NETWORKS="127.0.0.0/8")
    process = await start(node(), JAVASCRIPT / "upstream.mjs", CLIENT_ID, SECRET, f"{site.origin}/oauth/upstream/acme")
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        issuer = json.loads(await process.stdout.readline())["oidc-provider"]
        row = UpstreamProvider(slug="acme", name="Acme", kind="oidc", issuer=issuer, client_id=CLIENT_ID)
        row.trusts_email = True
        seal_into(row, SECRET)
        await row.asave()
        shown = await open_page(site)
        page = shown.page
        await page.route("https://fonts.googleapis.com/**", lambda route: route.fulfill(content_type="text/css"))
        with wiki_server() as wiki:
            shown.elsewhere |= {wiki, issuer}
            client, _ = await sync_to_async(make_client)(redirect_uris=[f"{wiki}/callback"], trusted=True)
            for _ in range(MOST_LOOKS):  # the server hears of the new provider a moment later
                await shown.go(link(client))
                await heading(shown, "Sign in")
                if await page.get_by_role("button", name="Continue with Acme").count():
                    break
                await asyncio.sleep(0.5)
            await shown.look("upstream-sign-in")
            await page.get_by_role("button", name="Continue with Acme").click()
            await page.get_by_placeholder("Enter any login").fill("ann")
            await page.get_by_placeholder("and password").fill("ann")
            await page.get_by_role("button", name="Sign-in").click()
            await page.get_by_role("button", name="Continue").click()
            assert "code" in await arrived(shown)

            await shown.go("/account/signin?provider=acme")
            await heading(shown, "Your account")
            await page.get_by_role("link", name="Other providers").click()
            await expect(page.locator("ul.list strong")).to_have_text("Acme")
            await shown.look("upstream-identities")
            await page.get_by_role("link", name="Remove Acme").click()
            await heading(shown, "Acme")
            # The provider has not signed when it asked last: that is no proof of these ten minutes.
            with shown.refusing(401):
                await page.get_by_role("button", name="Remove").click()
                await expect(page.get_by_role("alert")).not_to_be_empty()
            await expect(page.get_by_role("button", name="Send me a code")).to_be_visible()
            await shown.look("upstream-prove-again")
        shown.faults[:] = [fault for fault in shown.faults if not fault.startswith(issuer)]  # its pages are its own
    finally:
        process.stdin.close()
        await process.wait()
