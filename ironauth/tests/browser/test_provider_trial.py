"""A trial of a provider that others wrote, by staff in a browser: what came, and each thing that is wrong by name."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from playwright.async_api import expect

from accounts.audit.models import AuditEvent
from accounts.federation.models import Identity, UpstreamProvider, UpstreamSignIn
from accounts.federation.secrets import seal_into
from accounts.users.models import User
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.test_staff_tasks import signed_in
from ironauth.tests.browser.watched import Watched
from tokens.oauth.tests.clients.program import JAVASCRIPT, node, start
from tokens.sessions.models import Session

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

CLIENT_ID, SECRET = "ironauth", "a secret: of two parts"
#: Short names: one whose redirect URI the provider knows, one whose it does not.
KNOWN, UNKNOWN = "acme", "other"
#: What a trial changes nothing of.
TABLES: Final = (User, Identity, UpstreamSignIn, Session)


def store(slug: str, issuer: str, secret: str = SECRET) -> None:
    """Store the provider under a short name, whose addresses count here."""
    row = UpstreamProvider(slug=slug, name=slug.title(), kind="oidc", issuer=issuer, client_id=CLIENT_ID)
    row.trusts_email = True
    seal_into(row, secret)
    row.save()


@pytest_asyncio.fixture(loop_scope="session")
async def shown(open_site: OpenSite, open_page: OpenPage) -> AsyncIterator[Watched]:
    """A page of a superuser's, and the provider at ``shown.elsewhere``, which knows the redirect URI of one name."""
    site = open_site(DEBUG="1", IRONAUTH_UPSTREAM_NETWORKS="127.0.0.0/8")
    there = f"{site.origin}/oauth/upstream/{KNOWN}"
    process = await start(node(), JAVASCRIPT / "upstream.mjs", CLIENT_ID, SECRET, there)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        issuer = json.loads(await process.stdout.readline())["oidc-provider"]
        shown = await signed_in(open_page, site)
        shown.elsewhere.add(issuer)
        await shown.page.route("https://fonts.googleapis.com/**", lambda route: route.fulfill(content_type="text/css"))
        yield shown
        shown.faults[:] = [fault for fault in shown.faults if not fault.startswith(issuer)]  # its pages are its own
    finally:
        process.stdin.close()
        await process.wait()


async def begin(shown: Watched, slug: str) -> None:
    """Open the provider's page in the admin, and press the button."""
    row = await UpstreamProvider.objects.aget(slug=slug)
    await shown.go(f"/admin/accounts/upstreamprovider/{row.pk}/change/")
    await shown.page.get_by_role("button", name="Try a sign-in").click()


async def sign_in_there(shown: Watched) -> None:
    """Go through the provider's own pages."""
    page = shown.page
    await page.get_by_placeholder("Enter any login").fill("ann")
    await page.get_by_placeholder("and password").fill("ann")
    await page.get_by_role("button", name="Sign-in").click()
    await page.get_by_role("button", name="Continue").click()


def kept() -> dict[str, list[Any]]:
    """Return the rows that a trial must not change."""
    return {one.__name__: list(one.objects.order_by("pk").values()) for one in TABLES}


async def tried() -> list[tuple[str, str]]:
    """Return outcome and cause of each trial that has ended, the oldest first."""
    found = AuditEvent.objects.filter(event="provider_tried").order_by("id")
    return [(one.outcome, one.details.get("cause", "")) async for one in found]


async def test_what_the_provider_says_is_shown(shown: Watched) -> None:
    """There and back by the redirect URI: who came, and that a sign-in would make an account; none is made."""
    (issuer,) = shown.elsewhere
    await sync_to_async(store)(KNOWN, issuer)
    before = await sync_to_async(kept)()
    await begin(shown, KNOWN)
    await sign_in_there(shown)
    page = shown.page
    await expect(page.get_by_role("status").filter(has_text="Acme works.")).to_be_visible()
    for text in (issuer, "ann@example.com, verified there", "make a new account and sign in to it"):
        await expect(page.locator(".trial dd").get_by_text(text, exact=True)).to_be_visible()
    await shown.look("trial-works")
    assert await sync_to_async(kept)() == before
    assert await tried() == [("success", "")]
    with shown.refusing(400):
        await page.reload()  # the same answer does not count twice
    await expect(page.get_by_role("alert")).to_contain_text("belongs to no trial of this session")
    assert await sync_to_async(kept)() == before


async def test_a_wrong_secret_is_named(shown: Watched) -> None:
    """Somebody signs in there, the code is not exchanged: the page says that it is the secret, and what to do."""
    (issuer,) = shown.elsewhere
    await sync_to_async(store)(KNOWN, issuer, "another secret")
    before = await sync_to_async(kept)()
    await begin(shown, KNOWN)
    await sign_in_there(shown)
    alert = shown.page.get_by_role("alert")
    await expect(alert).to_contain_text("the client secret is wrong or has expired")
    await expect(alert).to_contain_text("Copy both again from the provider's page")
    await shown.look("trial-wrong-secret")
    assert await sync_to_async(kept)() == before
    assert await tried() == [("failure", "code invalid_client")]


async def test_a_redirect_uri_that_is_not_registered_is_named(shown: Watched) -> None:
    """The browser stays here: the page says which address to register. Going there all the same shows why."""
    (issuer,) = shown.elsewhere
    await sync_to_async(store)(UNKNOWN, issuer)
    before = await sync_to_async(kept)()
    await begin(shown, UNKNOWN)
    page = shown.page
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("is not registered at the provider")
    await expect(alert).to_contain_text(f"Register exactly {shown.origin}/oauth/upstream/{UNKNOWN} at the provider")
    await shown.look("trial-redirect")
    assert await tried() == []  # nobody has been there yet
    await page.get_by_role("link", name="Continue to Other").click()
    await expect(page.get_by_text("invalid_redirect_uri")).to_be_visible()
    assert await sync_to_async(kept)() == before
