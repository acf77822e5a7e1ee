"""Where a form of the OAuth pages leads in a browser: to the client, whatever its address, and to nobody else."""

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import Browser

from conftest import PASSWORD
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from ironauth.tests.browser.test_oauth import EMAIL, PAGE, arrived, give_password, link, wiki_server
from ironauth.tests.browser.watched import Watched
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_client

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

#: Sends what is typed into the page's own form to another origin, as an injected attribute would.
STEAL = """(target) => new Promise((resolve) => {
  document.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
  const form = document.querySelector("form");
  form.action = target;
  form.submit();
})"""


class _Six(ThreadingHTTPServer):
    address_family = socket.AF_INET6


@pytest.fixture
def application() -> Iterator[dict[str, Any]]:
    """An application on IPv6, and one whose callback sends people on: their origins, and where it sends them."""
    found: dict[str, Any] = {"on": ""}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if found["on"]:
                self.send_response(302)
                self.send_header("Location", f"{found['on']}{self.path}")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, *_: Any) -> None:
            """Write nothing: codes are in the paths."""

    servers = [_Six(("::1", 0), Handler), ThreadingHTTPServer(("127.0.0.1", 0), Handler)]
    threads = [Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}) for server in servers]
    for thread in threads:
        thread.start()
    found["six"] = f"http://[::1]:{servers[0].server_port}"
    found["four"] = f"http://127.0.0.1:{servers[1].server_port}"
    yield found
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()


async def signs_in(shown: Watched, client: OAuthClient) -> dict[str, str]:
    """Sign in for the client by the form; what it was told."""
    await shown.page.context.clear_cookies()
    await shown.go(link(client))
    await give_password(shown, PASSWORD)
    return await arrived(shown)


async def test_forms_lead_to_the_client_alone(
    open_site: OpenSite, open_page: OpenPage, chromium: Browser, application: dict[str, Any]
) -> None:
    """The redirect behind a form reaches the client, on IPv6 too, and its registered origins; nothing else does."""
    site = open_site()
    shown = await open_page(site)
    async with httpx.AsyncClient(base_url=site.origin, timeout=30) as api:
        person = {"email": EMAIL, "password": PASSWORD, "name": "Mia"}
        assert (await api.post("/api/v1/access/signup", json=person)).status_code == 201
    with wiki_server() as wiki:
        shown.elsewhere |= {wiki, application["six"], application["four"]}
        made = sync_to_async(make_client)
        for origin in (wiki, application["six"]):
            client, _ = await made(trusted=True, name="Wiki", redirect_uris=[f"{origin}/callback"])
            assert "code" in await signs_in(shown, client)
            assert shown.page.url.startswith(f"{origin}/callback?code=")

        application["on"] = wiki
        uris = {"redirect_uris": [f"{application['four']}/callback"], "post_logout_redirect_uris": [f"{wiki}/gone"]}
        client, _ = await made(trusted=True, name="Behind", **uris)
        assert "code" in await signs_in(shown, client)
        assert shown.page.url.startswith(f"{wiki}/callback?code=")

        client, _ = await made(trusted=True, name="Other", redirect_uris=[f"{application['four']}/callback"])
        context = await chromium.new_context()  # not watched: what is blocked is reported as an error
        page = await context.new_page()
        await page.goto(f"{site.origin}{link(client)}")
        assert await page.evaluate(STEAL, f"{wiki}/stolen") == "form-action"
        assert page.url.startswith(f"{site.origin}/oauth/authorize?")
        await context.close()
