"""What a sibling host can do to a person's cookies in a browser: it plants one, and nothing comes of it."""

import asyncio
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from asgiref.sync import sync_to_async
from playwright.async_api import Browser, BrowserContext, expect

from conftest import PASSWORD, ServeProcess
from ironauth import settings_test
from ironauth.tests.browser.test_oauth import wiki_server
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import form_to, request_of

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.asyncio(loop_scope="session"),
]

#: Two hosts of one site, which every system takes for this machine (RFC 6761 §6.3).
PARENT = "ironauth.localhost"
OURS, EVIL = f"id.{PARENT}", f"evil.{PARENT}"
NAME = b"__Host-sso"
#: What stands before the name. Python's str.strip() drops the first four; other readers drop or decode the others.
DISGUISES = [b"\xa0", b"\x85", b"\xa0\x85", b"\xc2\xa0", b'"', b"%20", b""]
REFUSED = "Your browser sent a cookie that is not ours"


class Sibling:
    """A server of the sibling host: it sets ``lines``, and keeps the Cookie fields it was sent."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.sent: list[bytes] = []
        found = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found.sent.append(self.headers.get("Cookie", "").encode("latin-1"))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.flush_headers()
                for line in found.lines:
                    self.wfile.write(b"Set-Cookie: " + line + b"\r\n")
                self.wfile.write(b"\r\n<!doctype html><title>Evil</title><h1>Hello</h1>")

            def log_message(self, *_: Any) -> None:
                """Write nothing: cookies are in the lines."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://{EVIL}:{self.server.server_port}"


@pytest.fixture
def sibling() -> Iterator[Sibling]:
    """The attacker's server."""
    found = Sibling()
    thread = Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def sso_session_of(site: str, asked: dict[str, str]) -> str:
    """Return the SSO cookie of the attacker's own account."""
    email = "eve@example.com"
    with httpx.Client(base_url=site, timeout=30) as api:
        person = {"email": email, "password": PASSWORD, "name": "Eve"}
        assert api.post("/api/v1/access/signup", json=person).status_code == 201
        page = api.get("/oauth/authorize", params=asked)
        browser = page.headers["set-cookie"].partition(";")[0]
        fields = {**form_to(page, "/oauth/signin").fields, "email": email, "password": PASSWORD}
        answer = api.post("/oauth/signin", data=fields, headers={"Cookie": browser})
        assert "code=" in answer.headers["location"]
        line = next(one for one in answer.headers.get_list("set-cookie") if one.startswith("__Host-sso="))
        return line.partition(";")[0].partition("=")[2]


async def planted(context: BrowserContext, sibling: Sibling, name: bytes, value: str) -> bytes:
    """Visit the attacker's page, which plants the cookie for the whole site; return what the browser sends then."""
    sibling.lines = [name + b"=" + value.encode() + f"; Domain={PARENT}; Path=/".encode()]
    page = await context.new_page()
    for _ in range(2):
        await page.goto(sibling.origin)
    await page.close()
    return sibling.sent[-1]


async def test_a_sibling_host_plants_a_sso_session(
    chromium: Browser, serve_process: ServeProcess, sibling: Sibling, signing_key: str
) -> None:
    """The browser accepts a disguised name and sends it here; no application gets a code for the attacker by it."""
    port = settings_test._free_port()
    site = f"http://{OURS}:{port}"
    serve_process(port=port, ALLOWED_HOSTS=f"{OURS},127.0.0.1", IRONAUTH_ISSUER=site, IRONAUTH_COOKIE_SECURE="1")
    with wiki_server() as wiki:
        client, _ = await sync_to_async(make_client)(trusted=True, redirect_uris=[f"{wiki}/callback"])
        asked = request_of(client, redirect_uri=f"{wiki}/callback", prompt="none")
        value = await asyncio.to_thread(sso_session_of, f"http://127.0.0.1:{port}", {**asked, "prompt": "login"})
        for disguise in DISGUISES:
            context = await chromium.new_context()
            sent = await planted(context, sibling, disguise + NAME, value)
            assert (disguise + NAME in sent) is (disguise != b""), "the browser itself protects the plain name alone"
            page = await context.new_page()
            answer = await page.goto(f"{site}/oauth/authorize?{urlencode(asked)}")
            assert answer is not None
            assert "code=" not in page.url, disguise
            if disguise:
                assert answer.status == 400, disguise
                await expect(page.get_by_role("heading", level=1)).to_have_text(REFUSED)
            else:
                assert "error=login_required" in page.url
            await context.close()
        context = await chromium.new_context()  # the very cookie, set by this server, does sign in
        await context.add_cookies([{"name": NAME.decode(), "value": value, "url": f"https://{OURS}", "secure": True}])
        page = await context.new_page()
        await page.goto(f"{site}/oauth/authorize?{urlencode(asked)}")
        assert "code=" in page.url
        await context.close()
