"""The headers of every kind of answer, in every lane: security headers, and no type where there is no content."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from pytest_django import Settings

from conftest import bearer
from ironauth.asgi import application
from ironauth.config.addresses import hsts_reach
from ironauth.config.environment import Environment
from ironauth.tests.asgi_conversation import Conversation
from tokens.oauth.tests.material import make_client

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]
JSON_POLICY = "default-src 'none'; frame-ancestors 'none'"
JWKS = "/.well-known/jwks.json"
STYLE = "/static/ironauth/pages.css"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def assert_hardened(answer: httpx.Response) -> None:
    """Check the headers that no answer may lack."""
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] in ("no-referrer", "same-origin")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-request-id"]


def assert_empty(answer: httpx.Response) -> None:
    """Check an answer without content: it has no type."""
    assert answer.content == b""
    assert "content-type" not in answer.headers
    assert_hardened(answer)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/admin", 301), ("GET", "/admin/", 302), ("GET", "/account", 302), ("OPTIONS", "/ping", 204),
        ("OPTIONS", "/api/v1/access/me", 204), ("OPTIONS", "/oauth/token", 204), ("OPTIONS", "/oauth/authorize", 204),
        ("GET", "/api/v1/access/verify", 204), ("HEAD", "/api/v1/access/verify", 204), ("HEAD", "/admin/", 302),
        ("POST", "/api/v1/access/logout", 204),
    ],
)  # fmt: skip
async def test_redirects_and_204(
    api: httpx.AsyncClient, pair: dict[str, Any], method: str, path: str, status: int
) -> None:
    """Redirects and 204 of every lane, the hot one too, have all security headers and no type."""
    body = {"refresh_token": pair["refresh_token"]} if method == "POST" else None
    for _ in range(1 if method == "POST" else 3):
        answer = await api.request(method, path, headers=bearer(pair), json=body)
        assert answer.status_code == status
        assert_empty(answer)


async def test_202(api: httpx.AsyncClient) -> None:
    """What will be done later is answered without content."""
    answer = await api.post("/api/v1/access/password/reset", json={"email": "nobody@example.com"})
    assert answer.status_code == 202
    assert_hardened(answer)
    assert ("content-type" in answer.headers) is bool(answer.content)


async def test_a_revocation_has_no_type(api: httpx.AsyncClient) -> None:
    """``/oauth/revoke`` answers 200 without content, and says no type that a client would try to read."""
    client, secret = await sync_to_async(make_client)()
    answer = await api.post("/oauth/revoke", data={"token": "x", "client_id": str(client.pk), "client_secret": secret})
    assert (answer.status_code, answer.headers["content-length"]) == (200, "0")
    assert_empty(answer)


async def test_a_client_is_sent_on(api: httpx.AsyncClient) -> None:
    """The redirect of a form on the way to a client has the headers of every answer."""
    answer = await api.post("/oauth/authorize", content=b"client_id=x", headers=FORM)
    assert answer.status_code == 303
    assert_empty(answer)


@pytest.mark.parametrize("path", [JWKS, STYLE])
async def test_304(api: httpx.AsyncClient, path: str) -> None:
    """An answer that has not changed has no type either, for keys and for files."""
    first = await api.get(path)
    wanted = "ETag" if "etag" in first.headers else "Last-Modified"
    condition = {"ETag": "If-None-Match", "Last-Modified": "If-Modified-Since"}[wanted]
    answer = await api.get(path, headers={condition: first.headers[wanted]})
    assert answer.status_code == 304
    assert_empty(answer)


@pytest.mark.parametrize(
    "path", ["/ping", "/health", "/api/openapi.json", STYLE, "/favicon.ico", "/.well-known/jwks.json"]
)
async def test_head_says_what_get_would(api: httpx.AsyncClient, path: str) -> None:
    """HEAD has the type of the content that GET has, and none of the content."""
    got, head = await api.get(path), await api.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == got.headers["content-type"]


@pytest.mark.parametrize(
    ("path", "status"),
    [(STYLE, 200), ("/static/nothing.css", 404), ("/favicon.ico", 200), ("/static/", 404)],
)
async def test_files_are_for_our_own_pages(api: httpx.AsyncClient, path: str, status: int) -> None:
    """Static files and the icon are for pages of this origin, what is missing and what is unchanged too."""
    answer = await api.get(path)
    assert answer.status_code == status
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    unchanged = await api.get(path, headers={"If-Modified-Since": answer.headers.get("last-modified", "")})
    assert unchanged.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("path", ["/admin/", "/api/v1/access/me", "/oauth/authorize", "/static/x.css"])
@pytest.mark.parametrize(
    ("query", "kind"),
    [(b"a=\xff", "text/plain"), (b"&" * 3_000, "text/plain; charset=utf-8"), (b"", "a;" * 6_000)],
)
async def test_a_head_that_cannot_be_read(path: str, query: bytes, kind: str, settings: Settings) -> None:
    """A query or a type that Django cannot read is 400 with the same headers, HSTS too, in every lane."""
    settings.SECURE_HSTS_SECONDS = 31_536_000
    talk = Conversation(path, headers={"content-type": kind}, query_string=query, scheme="https").body()
    await talk.run(application)
    assert talk.status == 400
    assert talk.headers["x-content-type-options"] == "nosniff"
    assert talk.headers["x-frame-options"] == "DENY"
    assert talk.headers["referrer-policy"] == "no-referrer"
    assert talk.headers["x-request-id"]
    assert talk.headers["strict-transport-security"].startswith("max-age=31536000")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "max-age=31536000"), ("host", "max-age=31536000"),
        ("subdomains", "max-age=31536000; includeSubDomains"),
        ("preload", "max-age=31536000; includeSubDomains; preload"),
    ],
)  # fmt: skip
async def test_hsts_reaches_as_far_as_it_was_asked_to(settings: Settings, value: str | None, said: str) -> None:
    """Other hosts, and browsers' lists, are in it only when IRONAUTH_HSTS says it; in both lanes and in refusals."""
    found = hsts_reach(Environment({} if value is None else {"IRONAUTH_HSTS": value}, {}))
    settings.SECURE_HSTS_SECONDS = 31_536_000
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS, settings.SECURE_HSTS_PRELOAD = found
    for path in ("/ping", "/admin", "/a%2fb"):
        talk = await Conversation(path, scheme="https").body().run(application)
        assert talk.headers["strict-transport-security"] == said


def test_by_default_hsts_is_for_this_host_alone(settings: Settings) -> None:
    """The settings as they come ask for no other host."""
    assert not settings.SECURE_HSTS_INCLUDE_SUBDOMAINS
    assert not settings.SECURE_HSTS_PRELOAD
