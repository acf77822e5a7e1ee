"""The TypeScript client in a page of another origin: sign in, call, refresh in one tab for all, sign out."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import Page, Request, expect

from accounts.users.models import User
from conftest import PASSWORD
from ironauth.tests.browser.conftest import OpenPage, OpenSite
from tokens.clients.models import OAuthClient
from tokens.oauth.tests.material import make_public_client
from tokens.protocol import GrantType, Scope
from tokens.sessions.models import Session
from typescript.tests.build import built

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

EMAIL = "mia@example.com"
GRANTS = [GrantType.AUTHORIZATION_CODE.value, GrantType.REFRESH_TOKEN.value]
SCOPES = [Scope.OPENID.value, Scope.PROFILE.value, Scope.EMAIL.value, Scope.OFFLINE_ACCESS.value]
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Shop</title><main><h1>Shop</h1><p id="who"></p>
<button id="in">Sign in</button></main><script type="module" src="/app.js"></script></html>"""
APP = """
import { Session } from "/dist/browser.js";
const settings = await (await fetch("/settings.json")).json();
const session = window.session = new Session({
  ...settings, redirectUri: `${location.origin}/callback`, scope: "openid profile email offline_access",
});
const show = async () => {
  const person = await session.person();
  document.querySelector("#who").textContent = person === undefined ? "nobody" : `signed in: ${person.subject}`;
};
document.querySelector("#in").addEventListener("click", () => session.signIn({ returnTo: "/cart?page=2" }));
try {
  const [onward, again] = await Promise.all([session.finishSignIn(), new Session(session.options).finishSignIn()]);
  if (again !== onward) throw new Error("two calls at once differ");
  if (onward !== undefined) history.replaceState(null, "", onward);
  await show();
} catch (error) {
  document.querySelector("#who").textContent = `failed: ${error.code}`;
}
"""


class _Shop(BaseHTTPRequestHandler):
    """A single-page application: one page at every path, and its scripts."""

    settings: bytes = b"{}"

    def do_GET(self) -> None:
        """Answer with the page, or one of its scripts."""
        path = self.path.partition("?")[0]
        if path.startswith("/dist/"):
            self._send((built() / "dist" / path.rpartition("/")[2]).read_bytes(), "text/javascript")
        elif path == "/app.js":
            self._send(APP.encode(), "text/javascript")
        elif path == "/settings.json":
            self._send(type(self).settings, "application/json")
        elif path == "/favicon.ico":
            self._send(b"", "image/x-icon")
        else:
            self._send(PAGE.encode(), "text/html")

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@contextmanager
def shop() -> Iterator[tuple[str, type[_Shop]]]:
    """Serve the application; its origin, and where its settings go."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Shop) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}", _Shop
        server.shutdown()


def asked_for_tokens(page: Page, origin: str) -> list[str]:
    """Return the list that will have what the page sends to the token endpoint."""
    found: list[str] = []

    def note(request: Request) -> None:
        if request.url == f"{origin}/oauth/token" and request.method == "POST":
            found.append(request.post_data or "")

    page.on("request", note)
    return found


async def test_a_single_page_application(open_site: OpenSite, open_page: OpenPage) -> None:
    """Two tabs: one signs in, both are; a token is refreshed once for both; signing out ends both."""
    built()
    site = open_site(DEBUG="1")
    mia = await sync_to_async(User.objects.create_user)(email=EMAIL, password=PASSWORD, name="Mia")
    shown = await open_page(site)
    page: Any = shown.page
    with shop() as (origin, server):
        shown.elsewhere.add(origin)
        client: OAuthClient = await sync_to_async(make_public_client)(
            redirect_uris=[f"{origin}/callback"], grants=GRANTS, scopes=SCOPES, trusted=True
        )
        server.settings = f'{{"issuer": "{site.origin}", "clientId": "{client.pk}"}}'.encode()
        await page.goto(f"{origin}/")
        await expect(page.locator("#who")).to_have_text("nobody")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_label("E-mail address").fill(EMAIL)
        await page.get_by_label("Password", exact=True).fill(PASSWORD)
        await page.get_by_role("button", name="Sign in", exact=True).click()
        await expect(page.locator("#who")).to_have_text(f"signed in: {mia.pk}")
        assert page.url == f"{origin}/cart?page=2"

        call = "session.fetch(session.options.issuer + '/oauth/userinfo').then((answer) => answer.json())"
        assert (await page.evaluate(call))["email"] == EMAIL
        assert (await page.evaluate("session.person()"))["name"] == "Mia"
        await User.objects.filter(pk=mia.pk).aupdate(name="")
        asked_anew = "session.userinfo().then(() => session.person()).then((person) => person.name === undefined)"
        await page.wait_for_function(asked_anew, polling=200)  # every worker knows it within its stated bound
        kept = await page.evaluate("session.accessToken()")
        alone = """(token) => fetch(`${session.options.issuer}/oauth/userinfo`, {
          headers: { Authorization: `Bearer ${token}` },
        }).then((answer) => answer.status)"""
        with shown.refusing(401):  # who has the token alone has nothing
            assert await page.evaluate(alone, kept) == 401

        tab = await page.context.new_page()
        await tab.goto(f"{origin}/")
        await expect(tab.locator("#who")).to_have_text(f"signed in: {mia.pk}")
        assert await tab.evaluate("session.accessToken()") == kept
        asked = asked_for_tokens(page, site.origin), asked_for_tokens(tab, site.origin)
        lock = "`ironauth ${session.options.issuer} ${session.options.clientId}`"
        await page.evaluate(f"void navigator.locks.request({lock}, () => new Promise((end) => (window.end = end)))")
        for each in (page, tab):  # both find the token too old, before either may replace it
            await each.evaluate("session.options.early = 1e6; window.next = session.accessToken(); undefined")
        await page.evaluate("window.end()")
        tokens = {await each.evaluate("window.next") for each in (page, tab)}
        assert len(tokens) == 1
        assert kept not in tokens
        assert len([*asked[0], *asked[1]]) == 1

        await page.evaluate("session.signOut()")
        for each in (page, tab):
            said = await each.evaluate("session.accessToken().then(() => 'good', (error) => error.code)")
            assert said == "signed_out"
        assert (await Session.objects.aget(client_id=str(client.pk))).revoked_at is not None
        await tab.goto(f"{origin}/callback?code=a&state=planted&iss={site.origin}")
        await expect(tab.locator("#who")).to_have_text("failed: unknown_state")
        await tab.close()
