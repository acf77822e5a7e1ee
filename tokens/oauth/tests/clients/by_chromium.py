"""A person's Chromium that goes from an application over our page to another provider and back, twice."""

import asyncio
from collections.abc import Mapping
from typing import Final

from asgiref.sync import sync_to_async
from playwright.async_api import Page, expect

from accounts.federation.models import Identity, UpstreamProvider
from accounts.federation.secrets import seal_into
from accounts.users.models import User
from ironauth.tests.browser.conftest import OpenPage, Site
from ironauth.tests.browser.test_oauth import arrived, link, wiki_server
from tokens.oauth.tests.material import make_client

#: What a server is told that may ask providers on this machine, by http.
HERE: Final = {"DEBUG": "1", "IRONAUTH_UPSTREAM_NETWORKS": "127.0.0.0/8"}
MOST_LOOKS: Final = 40
#: Seconds that the way through a provider's pages may take, on a machine with everything else to do.
PATIENCE_S: Final = 60.0
#: What sends the forms of other providers' pages.
BUTTON: Final = "[type=submit]:visible"


async def store(slug: str, name: str, issuer: str, credentials: tuple[str, str], kind: str = "oidc") -> None:
    """Store a provider that verifies addresses.

    Args:
        slug: Its name in addresses.
        name: Its name on buttons.
        issuer: Its issuer.
        credentials: Client id and secret that we have there.
        kind: Its kind.
    """
    row = UpstreamProvider(slug=slug, name=name, kind=kind, issuer=issuer, client_id=credentials[0])
    row.trusts_email = True
    seal_into(row, credentials[1])
    await row.asave()


async def come_twice(site: Site, open_page: OpenPage, slug: str, typed: Mapping[str, str]) -> User:
    """Walk from an application to the provider and back with a new browser, twice; return whose account was made.

    Args:
        site: A server that was told HERE.
        open_page: What opens pages.
        slug: The provider's.
        typed: What the person types there, into fields of these names.
    """
    provider = await UpstreamProvider.objects.aget(slug=slug)
    there = provider.issuer.partition("/realms/")[0]
    with wiki_server() as wiki:
        client, _ = await sync_to_async(make_client)(redirect_uris=[f"{wiki}/callback"], trusted=True)
        users = []
        for _ in range(2):
            shown = await open_page(site)
            shown.elsewhere |= {wiki, "/".join(there.split("/")[:3])}
            page = shown.page
            await page.route("https://fonts.googleapis.com/**", lambda route: route.fulfill(content_type="text/css"))
            button = page.locator(f"button[name=provider][value={slug}]")
            for _ in range(MOST_LOOKS):  # the server hears of the new provider a moment later
                await shown.go(link(client))
                if await button.count():
                    break
                await asyncio.sleep(0.25)
            await button.click()
            await _through(page, wiki, site.origin, typed)
            assert "code" in await arrived(shown)
            await shown.go("/account/signin")
            await page.locator(f"button[name=provider][value={slug}]").click()
            await _through(page, f"{site.origin}/account/", site.origin, typed)
            await page.locator("a[href='/account/security/identities']").click()
            await expect(page.locator("ul.list strong")).to_have_text(provider.name)
            await shown.look(f"upstream-{slug}")
            shown.faults[:] = [one for one in shown.faults if not one.startswith("http")]  # its pages are its own
            identity = await Identity.objects.select_related("user").aget()
            users.append(identity.user)
    assert users[0] == users[1] == await User.objects.aget()
    assert identity.issuer == provider.issuer
    return users[0]


async def _through(page: Page, stop: str, ours: str, typed: Mapping[str, str]) -> None:
    """Fill in the provider's forms and send them, until the browser is at an address that begins with ``stop``."""
    async with asyncio.timeout(PATIENCE_S):
        while not page.url.startswith(stop):
            if page.url.startswith(ours) or not await page.locator(BUTTON).count():
                await asyncio.sleep(0.1)
                continue
            for name, text in typed.items():
                field = page.locator(f"[name={name}]:visible")
                if await field.count():
                    await field.first.fill(text)
            async with page.expect_navigation():
                await page.locator(BUTTON).first.click()
