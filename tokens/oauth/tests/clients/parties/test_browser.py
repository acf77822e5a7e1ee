"""oidc-client-ts in a browser, with a client of the kind "Single-page app": silent renewal, in one tab and in two."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import Page, expect

from accounts.users.models import User
from conftest import PASSWORD
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from tokens.clients.presets import PRESETS
from tokens.keys.key_set import Family
from tokens.keys.units import create_first_keys
from tokens.oauth.tests.clients.default import ran
from tokens.oauth.tests.clients.default.libraries import LIBRARIES, REFRESHED, REVOKED, SIGNED_OUT
from tokens.oauth.tests.clients.program import JAVASCRIPT, PARTIES, node
from tokens.oauth.tests.material import make_client
from tokens.sessions.models import Session

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

EMAIL: Final = "mia@example.com"
BUNDLE: Final = JAVASCRIPT / "node_modules" / "oidc-client-ts" / "dist" / "browser" / "oidc-client-ts.min.js"
PAGE: Final = PARTIES / "javascript" / "single-page-app.html"
PATIENCE_MS: Final = 60_000  # on a machine with everything else to do
RENEWALS: Final = 3


@contextmanager
def application(settings: dict[str, Any]) -> Iterator[str]:
    """Serve the application's page and the library; its origin. What ``settings`` has is the page's settings.json."""
    types = {"html": "text/html", "js": "text/javascript", "json": "application/json"}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            kind = "js" if path == "/oidc-client-ts.js" else "json" if path == "/settings.json" else "html"
            body = json.dumps(settings).encode() if kind == "json" else {"js": BUNDLE, "html": PAGE}[kind].read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", types[kind])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


async def renewed(page: Page, times: int) -> None:
    """Wait until a tab has renewed its tokens so often."""
    await page.wait_for_function(f"window.renewals >= {times}", timeout=PATIENCE_MS)


async def shows(page: Page, text: str) -> None:
    """Wait until the page has this text."""
    await expect(page.locator("#who")).to_have_text(text, timeout=PATIENCE_MS)


async def allow(page: Page) -> None:
    """Say yes on our page, which asks each time as long as the application is at localhost."""
    await page.locator("button[name=decision][value=allow]").click()


async def test_silent_renewal(open_site: OpenSite, open_page: OpenPage) -> None:
    """Two tabs that share their tokens renew them at the same moment, again and again, and stay signed in."""
    node()
    await sync_to_async(create_first_keys)(Family.RS256)  # which the kind's ID tokens are signed by
    await sync_to_async(User.objects.create_user)(email=EMAIL, password=PASSWORD, name="Mia")
    settings: dict[str, Any] = {}
    with application(settings) as origin:
        places = {"redirect_uris": [f"{origin}/callback"], "post_logout_redirect_uris": [f"{origin}/"]}
        client, _ = await sync_to_async(make_client)(**PRESETS["spa"].initial, **places)
        site = open_site()
        settings |= {"authority": site.origin, "client_id": str(client.pk)}
        shown = await open_page(site)
        shown.elsewhere |= {origin}
        first = shown.page
        await first.goto(origin)
        await first.locator("#in").click()
        await first.get_by_label("E-mail address").fill(EMAIL)
        await first.get_by_label("Password", exact=True).fill(PASSWORD)
        await first.get_by_role("button", name="Sign in", exact=True).click()
        await allow(first)
        await shows(first, EMAIL)
        await renewed(first, 1)
        second = await first.context.new_page()
        await second.goto(origin)
        await shows(second, EMAIL)
        for page in (first, second):
            await page.evaluate("window.renewals = 0")
        for page in (first, second):
            await renewed(page, RENEWALS)
            assert await page.evaluate("window.faults") == []
            await shows(page, EMAIL)
        sessions = Session.objects.filter(client_id=str(client.pk))
        assert [row.revoked_at async for row in sessions.all()] == [None]
        await second.close()
        await first.locator("#revoke").click()
        await shows(first, "revoked")
        assert None not in [row.revoked_at async for row in sessions.all()]
        await first.goto(origin)
        await first.locator("#in").click()
        await allow(first)
        await shows(first, EMAIL)
        await first.locator("#out").click()
        await shows(first, "nobody")
        await first.goto(f"{site.origin}/oauth/logout")
        await expect(first.get_by_role("heading", level=1)).to_have_text("You are signed out")
    library = next(library for library in LIBRARIES if library.public == "spa")
    ran.keep(library.name, library.version, [REFRESHED, REVOKED, SIGNED_OUT])
