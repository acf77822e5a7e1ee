"""In every lane a cookie of ours counts under its exact name alone, and nothing that becomes one is let pass."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.test import Client, override_settings

from accounts.users.models import User
from conftest import PASSWORD
from ironauth import asgi
from ironauth.config import cookies as cookie_names
from ironauth.infrastructure.http.tests.cookie_spellings import WIDE, expected
from ironauth.tests.asgi_conversation import Conversation
from tokens.oauth.tests.material import make_client
from tokens.oauth.tests.walk import answered, authorize, by_password, request_of

pytestmark = pytest.mark.django_db(transaction=True)

ME = "/api/v1/access/me"


@pytest.fixture
def secure() -> Iterator[None]:
    """Cookies are Secure, as outside of DEBUG."""
    with override_settings(IRONAUTH_COOKIE_SECURE=True, SESSION_COOKIE_NAME="__Host-admin_session"):
        yield


async def ask(path: str, *fields: bytes, query: str = "") -> tuple[int, str, bytes]:
    """Send one request with these Cookie fields to the whole application: status, Location, body."""
    conversation = Conversation(path, query_string=query.encode()).body()
    conversation.scope["headers"] = [(b"host", b"testserver"), *((b"cookie", field) for field in fields)]
    await conversation.run(asgi.application)
    head, *parts = conversation.sent
    headers = {name.lower(): value.decode() for name, value in head["headers"]}
    return head["status"], headers.get(b"location", ""), b"".join(part.get("body", b"") for part in parts)


class Lane:
    """Where a request goes, which cookie it brings, and how to tell from the answer that the cookie counted."""

    def __init__(self, name: str, value: str, path: str, query: str = "") -> None:
        self.name, self.value, self.path, self.query = name.encode(), value.encode(), path, query

    async def outcome(self, before: bytes, after: bytes, *more: bytes) -> str:
        """Return ours, another, or refused."""
        field = before + self.name + after + b"=" + self.value
        status, location, body = await ask(self.path, field, *more, query=self.query)
        if status == 400:
            assert b"two_credentials" in body
            return "refused"
        return "ours" if status == 200 or "code=" in location else "another"


@pytest.fixture
async def lanes(api: httpx.AsyncClient, pair: Any, member: Any, secure: None) -> dict[str, Lane]:
    """A signed-in browser of each lane."""
    client, _ = await sync_to_async(make_client)(trusted=True)
    async with httpx.AsyncClient(transport=api._transport, base_url="https://testserver") as browser:
        arrived = await by_password(browser, await authorize(browser, client), member["email"])
        assert "code" in answered(arrived)
        sso_session = browser.cookies["__Host-sso"]
    access = Lane("__Host-access_token", pair["access_token"], ME)
    for _ in range(3):
        assert await access.outcome(b"", b"") == "ours"  # warm: the hot lane answers
    return {
        "hot": access,
        "api": Lane("__Host-access_token", pair["access_token"], "/api/v1/access/sessions"),
        "oauth": Lane("__Host-sso", sso_session, "/oauth/authorize", urlencode(request_of(client, prompt="none"))),
        "admin": Lane("__Host-admin_session", await sync_to_async(staff_session)(), "/admin/"),
    }


def staff_session() -> str:
    """Return the key of a session in Django's admin."""
    person = User.objects.create_superuser("staff@example.com", PASSWORD)
    browser = Client()
    browser.force_login(person)
    return str(browser.session.session_key)


@pytest.mark.live
@pytest.mark.parametrize("lane", ["hot", "api", "oauth", "admin"])
async def test_every_byte_in_every_lane(lanes: dict[str, Lane], lane: str) -> None:
    """A cookie counts under its exact name alone; with any byte around it it is another one's, or the answer is 400."""
    asked = lanes[lane]
    for number in range(256):
        byte = bytes([number])
        for before, after in ((byte, b""), (b"", byte)):
            known = expected(before, after)
            outcome = await asked.outcome(before, after)
            assert outcome == ("another" if known == "other value" else known), (before, after)
    for wide in WIDE:
        assert await asked.outcome(wide, b"") == await asked.outcome(b"", wide) == "refused"


@pytest.mark.parametrize("lane", ["hot", "api", "oauth", "admin"])
async def test_doubles_in_every_lane(lanes: dict[str, Lane], lane: str) -> None:
    """A cookie of ours that comes twice is refused, in one field or in several; any number of others is not."""
    asked = lanes[lane]
    genuine = asked.name + b"=" + asked.value
    assert await asked.outcome(b"a=b;", b"", b"a=b; a=c") == "ours"
    assert await asked.outcome(b"a=b;", b"", genuine) == "refused"
    assert await asked.outcome(genuine + b";", b"") == "refused"
    for other in cookie_names.REGISTRY:
        twice = cookie_names.name_of(other, secure=True).encode()
        assert await asked.outcome(b"", b"", twice + b"=x;" + twice + b"=y") == "refused", other
        assert await asked.outcome(b"", b"", b"\xa0" + twice + b"=x") == "refused", other


async def test_people_are_told_on_a_page(lanes: dict[str, Lane]) -> None:
    """A browser that looks for a page gets one that says what to do, in both lanes; a program gets a problem."""
    for path in ("/", "/oauth/authorize", "/account/signin", "/admin/"):
        for accept, kind in ((b"text/html,*/*;q=0.8", b"text/html"), (b"*/*", b"application/problem+json")):
            conversation = Conversation(path).body()
            fields = [(b"host", b"testserver"), (b"cookie", b"\xa0__Host-sso=x"), (b"accept", accept)]
            conversation.scope["headers"] = fields
            await conversation.run(asgi.application)
            headers = {name.lower(): value for name, value in conversation.sent[0]["headers"]}
            assert conversation.sent[0]["status"] == 400, path
            assert headers[b"content-type"].startswith(kind), (path, accept)
            assert headers[b"x-frame-options"] == b"DENY"
            assert b"form-action" in headers[b"content-security-policy"] or kind != b"text/html"


@pytest.mark.parametrize(
    ("cookie", "query", "status"),
    [
        (b"\xa0__Host-sso=x", b"", 400),
        (b"__Host-admin_session=x; __Host-admin_session=y", b"", 400),
        (b"__Host-admin_session=x", b"\xff", 413),
        (b"__Host-admin_session=\xff", b"", 413),
    ],
)
async def test_cookies_are_judged_before_a_large_body_is_taken(
    secure: None, cookie: bytes, query: bytes, status: int
) -> None:
    """A body for the admin over 64 KiB is taken for its session alone: what else is in the head is never a 5xx."""
    size = 100_000
    conversation = Conversation("/admin/login/", "POST", query_string=query).body(b"a" * size)
    fields = [(b"host", b"testserver"), (b"cookie", cookie), (b"content-length", str(size).encode())]
    conversation.scope["headers"] = [*fields, (b"content-type", b"application/x-www-form-urlencoded")]
    await conversation.run(asgi.application)
    assert conversation.sent[0]["status"] == status
    assert (b"two_credentials" in conversation.sent[1]["body"]) is (status == 400)
