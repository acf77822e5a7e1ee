"""The page that asks about an application of a stranger, in a browser."""

import httpx
import pytest
from asgiref.sync import sync_to_async

from conftest import PASSWORD
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.test_oauth import EMAIL, arrived, give_password, heading, link, wiki_server
from tokens.clients.fetched.models import ClientLogo
from tokens.oauth.tests.material import PICTURE, make_public_client

SITE = "https://agent.example.com"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]


async def test_a_person_allows_an_unverified_application(open_site: OpenSite, open_page: OpenPage) -> None:
    """The page says what it is in every width and colour; allowed, the application gets its code."""
    site = open_site()
    shown = await open_page(site)
    with wiki_server() as wiki:
        shown.elsewhere.add(wiki)
        said = {"logo_uri": f"{SITE}/logo.png", "policy_uri": f"{SITE}/privacy", "tos_uri": f"{SITE}/terms"}
        client = await sync_to_async(make_public_client)(
            name="Agent Smith", profile="agent", origin="registered", redirect_uris=[f"{wiki}/callback"], **said
        )
        await ClientLogo.objects.acreate(client=client, uri=said["logo_uri"], media="image/png", content=PICTURE)
        async with httpx.AsyncClient(base_url=site.origin, timeout=30) as api:
            person = {"email": EMAIL, "password": PASSWORD, "name": "Mia"}
            assert (await api.post("/api/v1/access/signup", json=person)).status_code == 201
        await shown.go(link(client))
        await shown.page.get_by_text("Unverified application").wait_for()
        assert await shown.page.locator(".client-logo img").evaluate("image => image.naturalWidth") == 1
        await shown.page.get_by_text("Privacy policy at agent.example.com").wait_for()
        await shown.look("oauth-sign-in-unverified")
        await give_password(shown, PASSWORD)
        await heading(shown, "Allow an unverified application?")
        await shown.look("oauth-consent-unverified")
        await shown.page.locator("button[value=allow]").click()
        assert "code" in await arrived(shown)
