"""Signing in at an application of another origin through the provider's pages, in a browser, until signing out."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import expect

from conftest import PASSWORD
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.watched import Watched
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import VERIFIER, request_of
from tokens.protocol import GrantType

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

EMAIL = "mia@example.com"
WRONG = "not the password at all"
GRANTS = [GrantType.AUTHORIZATION_CODE.value, GrantType.REFRESH_TOKEN.value, GrantType.DEVICE_CODE.value]
#: With an icon of its own: else the browser asks for one, maybe when the test is over and the server gone.
PAGE = (
    b'<!doctype html><html lang="en"><title>Wiki</title><link rel="icon" href="data:,"><h1>Back at the wiki</h1></html>'
)


class _Wiki(BaseHTTPRequestHandler):
    """An application's server: whatever is asked of it, it shows its page."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing: codes are in the paths."""


@contextmanager
def wiki_server() -> Iterator[str]:
    """Run the application on a port of this machine; its origin, which is not the provider's."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Wiki) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def arrived(shown: Watched) -> dict[str, str]:
    """Wait until the browser is back at the application; what it was sent there with."""
    await expect(shown.page.get_by_role("heading", name="Back at the wiki")).to_be_visible()
    return dict(parse_qsl(urlsplit(shown.page.url).query))


async def heading(shown: Watched, text: str) -> None:
    """Wait until the page has this heading."""
    await expect(shown.page.get_by_role("heading", level=1, name=text)).to_be_visible()


async def give_password(shown: Watched, password: str) -> None:
    """Fill in the first form and send it."""
    await shown.page.get_by_label("E-mail address").fill(EMAIL)
    await shown.page.get_by_label("Password", exact=True).fill(password)
    await shown.page.get_by_role("button", name="Sign in", exact=True).click()


def link(client: OAuthClient, **changes: str) -> str:
    """Return where the application sends a browser that is to sign in."""
    return f"/oauth/authorize?{urlencode(request_of(client, redirect_uri=client.redirect_uris[0], **changes))}"


async def connect_device(shown: Watched, api: httpx.AsyncClient, credentials: tuple[str, str]) -> None:
    """Let in a device that has no browser, by the code it shows."""
    begun = (await api.post("/oauth/device_authorization", data={"scope": "openid"}, auth=credentials)).json()
    await shown.go("/oauth/device")
    await heading(shown, "Connect a device")
    await shown.look("oauth-device")
    await shown.page.get_by_label("Code").fill(begun["user_code"].lower())
    await shown.page.get_by_role("button", name="Continue").click()
    await expect(shown.page.get_by_text(begun["user_code"])).to_be_visible()
    await shown.look("oauth-device-confirm")
    await shown.page.locator("button[value=allow]").click()
    await expect(shown.page.locator("[role=status]")).to_be_visible()
    await shown.look("oauth-device-done")
    asked = {"grant_type": GrantType.DEVICE_CODE.value, "device_code": begun["device_code"]}
    assert (await api.post("/oauth/token", data=asked, auth=credentials)).status_code == 200


async def sign_out_of_own_pages(shown: Watched, application: str) -> None:
    """Sign in to the application, which needs no consent any more, and to the pages of one's account; leave these."""
    await shown.go(application)
    await give_password(shown, PASSWORD)
    assert "code" in await arrived(shown)
    await shown.go("/account/signin")
    await give_password(shown, PASSWORD)
    await heading(shown, "Your account")
    await shown.page.get_by_role("button", name="Sign out", exact=True).click()
    await heading(shown, "Sign in")


async def test_a_person_signs_in_at_an_application(open_site: OpenSite, open_page: OpenPage) -> None:
    """Password, consent, code, tokens; silently the second time; a device; signed out there and here."""
    site = open_site()
    shown = await open_page(site)
    with wiki_server() as wiki:
        shown.elsewhere.add(wiki)
        uris = {"redirect_uris": [f"{wiki}/callback"], "post_logout_redirect_uris": [f"{wiki}/gone"]}
        client, secret = await sync_to_async(make_client)(grants=GRANTS, **uris)
        credentials = (str(client.pk), secret)
        async with httpx.AsyncClient(base_url=site.origin, timeout=30) as api:
            person = {"email": EMAIL, "password": PASSWORD, "name": "Mia"}
            assert (await api.post("/api/v1/access/signup", json=person)).status_code == 201

            await shown.go(link(client))
            await heading(shown, "Sign in")
            await shown.look("oauth-sign-in")
            with shown.refusing(401):
                await give_password(shown, WRONG)
                await expect(shown.page.locator("#problem")).to_be_visible()
            await shown.look("oauth-sign-in-wrong")
            await give_password(shown, PASSWORD)
            await heading(shown, "Allow Wiki?")
            await shown.look("oauth-consent")
            await shown.page.get_by_role("button", name="Allow", exact=True).click()
            answer = await arrived(shown)
            assert (answer["state"], answer["iss"]) == ("st&te=1 é", site.origin)
            asked = {"grant_type": "authorization_code", "code": answer["code"], "code_verifier": VERIFIER}
            asked["redirect_uri"] = client.redirect_uris[0]
            tokens = (await api.post("/oauth/token", data=asked, auth=credentials)).json()
            bearer = {"Authorization": f"Bearer {tokens['access_token']}"}
            assert (await api.get("/oauth/userinfo", headers=bearer)).json()["name"] == "Mia"

            await shown.go(link(client, prompt="none"))
            assert "code" in await arrived(shown)
            await connect_device(shown, api, credentials)

            leaving = {"id_token_hint": tokens["id_token"], "post_logout_redirect_uri": f"{wiki}/gone", "state": "x"}
            await shown.go(f"/oauth/logout?{urlencode(leaving)}")
            assert await arrived(shown) == {"state": "x"}
            await shown.go(link(client, prompt="none"))
            assert (await arrived(shown))["error"] == "login_required"
            await shown.go("/oauth/logout")
            await heading(shown, "You are signed out")
            await shown.look("oauth-signed-out")
            await sign_out_of_own_pages(shown, link(client))
            await shown.go(link(client, prompt="none"))
            assert (await arrived(shown))["error"] == "login_required"
            with shown.refusing(400):
                await shown.go(link(client, client_id="nobody"))
                await heading(shown, "This did not work")
            await shown.look("oauth-error")
