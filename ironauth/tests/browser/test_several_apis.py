"""The page that asks about APIs, and the list of what was allowed, in a browser."""

import httpx
import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import expect

from conftest import PASSWORD
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.test_oauth import EMAIL, arrived, link, wiki_server
from tokens.oauth.tests.apis import make_api
from tokens.oauth.tests.material import make_client, make_public_client

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

LONG = "https://a-rather-long-name-of-a-host.api.example.com/orders/and/returns/of/the/north/and/of/the/south"
MAIL = "https://mail.example.com"
SCOPES = ["openid", "email", "orders:read", "orders:write", "mail:send"]
FOR = {"en-GB": "For Orders", "de": "F\u00fcr Orders", "fr": "Pour Orders", "es": "Para Orders"}


@pytest.mark.parametrize("language", list(FOR))
async def test_a_person_allows_an_application_apis(language: str, open_site: OpenSite, open_page: OpenPage) -> None:
    """Each is named on the page; the account's page lists them, until the application is removed."""
    site = open_site()
    shown = await open_page(site, locale=language)
    with wiki_server() as wiki:
        shown.elsewhere.add(wiki)
        await sync_to_async(make_api)(LONG, scopes=["orders:read", "orders:write"])
        await sync_to_async(make_api)(MAIL, name="Mail", scopes=["mail:send"], for_self_registered=True)
        fields = {"redirect_uris": [f"{wiki}/callback"], "scopes": SCOPES}
        client, _ = await sync_to_async(make_client)(**fields)
        agent = await sync_to_async(make_public_client)(
            **{**fields, "scopes": ["openid"], "name": "Agent", "profile": "agent", "origin": "registered"}
        )
        async with httpx.AsyncClient(base_url=site.origin, timeout=30) as api:
            person = {"email": EMAIL, "password": PASSWORD, "name": "Mia"}
            assert (await api.post("/api/v1/access/signup", json=person)).status_code == 201
        await shown.go(f"{link(client, scope=' '.join(SCOPES), resource=LONG)}&resource={MAIL}")
        await shown.page.locator("input[name=email]").fill(EMAIL)
        await shown.page.locator("input[name=password]").fill(PASSWORD)
        await shown.page.locator("input[name=password]").press("Enter")
        await expect(shown.page.get_by_text(LONG)).to_be_visible()
        await shown.look(f"oauth-consent-apis-{language}")
        await shown.page.locator("button[value=allow]").click()
        assert "code" in await arrived(shown)
        await shown.go(link(agent, scope="mail:send", resource=MAIL))
        await expect(shown.page.get_by_text("mail:send")).to_be_visible()
        await shown.look(f"oauth-consent-apis-unverified-{language}")
        await shown.page.locator("button[value=allow]").click()
        assert "code" in await arrived(shown)
        await shown.go("/account/security/applications")
        await expect(shown.page.locator("main")).to_contain_text(FOR[language])
        await expect(shown.page.locator("main")).to_contain_text(MAIL)
        await shown.look(f"account-applications-apis-{language}")
