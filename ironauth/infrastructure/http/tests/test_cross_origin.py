"""Which pages of other origins may read the API's answers, and that nothing else is opened."""

from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from conftest import ServeProcess
from ironauth.infrastructure.core.asgi_types import WHOLE_ANSWER, Message, Receive, Scope, Send
from ironauth.infrastructure.http.cross_origin import CrossOrigin

APP = "https://app.example.com"
PREFLIGHT = {"Origin": APP, "Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "dpop"}


async def _answers(scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 401, "headers": [(b"retry-after", b"1")]})
    await send({"type": "http.response.body", "body": b"{}"})


def browser() -> httpx.AsyncClient:
    """Return a client of the API behind the headers."""
    application: Any = CrossOrigin(_answers, origins=[APP, "http://localhost:5173"], prefixes=("/api/v1/",))
    return httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://testserver")


@pytest.mark.parametrize("origin", [APP, "http://localhost:5173"])
async def test_listed_origins_read_answers(origin: str) -> None:
    """Refusals too, with cookies, and what says when to try again."""
    async with browser() as client:
        answer = await client.get("/api/v1/access/me", headers={"Origin": origin})
    assert (answer.status_code, answer.headers["vary"]) == (401, "Origin")
    assert answer.headers["access-control-allow-origin"] == origin
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert "Retry-After" in answer.headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        ("/api/v1/access/me", None),
        ("/api/v1/access/me", "null"),
        ("/api/v1/access/me", "https://evil.example"),
        ("/api/v1/access/me", f"{APP}.evil.example"),
        ("/api/v1/access/me", "http://app.example.com"),
        ("/api/v1/access/me", f"{APP}:8443"),
        ("/api/v1/access/me", APP.upper()),
        ("/oauth/authorize", APP),
        ("/account/security", APP),
        ("/api/v1", APP),
    ],
)
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
async def test_nothing_else_is_opened(path: str, origin: str | None, method: str) -> None:
    """Other origins, however alike, and other paths get no such header; a preflight is answered by the application."""
    headers = {**PREFLIGHT, "Origin": origin} if origin else {}
    async with browser() as client:
        answer = await client.request(method, path, headers=headers)
    assert answer.status_code == 401
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert ("vary" in answer.headers) == path.startswith("/api/v1/")


async def test_a_preflight_is_answered() -> None:
    """Methods and headers of the API, kept by the browser for a while; OPTIONS without one is the application's."""
    async with browser() as client:
        answer = await client.options("/api/v1/access/me", headers=PREFLIGHT)
        plain = await client.options("/api/v1/access/me", headers={"Origin": APP})
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == APP
    assert "PATCH" in answer.headers["access-control-allow-methods"]
    assert {"Authorization", "DPoP"} <= set(answer.headers["access-control-allow-headers"].split(", "))
    assert plain.status_code == 401


async def test_two_origins_are_none() -> None:
    """A request with two Origin headers is no browser's."""
    async with browser() as client:
        answer = await client.get("/api/v1/access/me", headers=[("Origin", APP), ("Origin", APP)])
    assert "access-control-allow-origin" not in answer.headers


async def test_whole_answers_carry_them() -> None:
    """The server's own message has its head as lines."""

    async def whole(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": WHOLE_ANSWER, "status": 200, "lines": b"x-request-id: 1\r\n", "body": b"{}"})

    sent: list[Message] = []

    async def keep(message: Message) -> None:
        sent.append(message)

    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": "/api/v1/access/me", "headers": [(b"origin", APP.encode())]}
    await CrossOrigin(whole, origins=[APP], prefixes=("/api/v1/",))(scope, nothing, keep)
    assert sent[0]["lines"].startswith(b"x-request-id: 1\r\nvary: Origin\r\naccess-control-allow-origin: ")
    assert sent[0]["lines"].endswith(b"\r\n")


@pytest.mark.live
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("signing_key")
async def test_a_server_with_a_listed_origin(serve_process: ServeProcess) -> None:
    """A real server, warm and cold: a page of the origin reads answers and refusals, another one does not."""
    base = await sync_to_async(serve_process)(IRONAUTH_TRUSTED_ORIGINS=APP, IRONAUTH_SIMPLEJWT="keep")
    async with httpx.AsyncClient(base_url=base, timeout=30) as client:
        person = {"email": "cors@example.com", "password": "seven amber kites over Lyon"}
        await client.post("/api/v1/access/signup", json=person)
        pair = await client.post("/api/v1/access/signin", json=person, headers={"Origin": APP})
        assert pair.headers["access-control-allow-origin"] == APP
        token = {"Authorization": f"Bearer {pair.json()['access_token']}"}
        for _ in range(3):  # the hot lane answers the second and third
            answer = await client.get("/api/v1/access/me", headers={**token, "Origin": APP})
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, APP)
            other = await client.get("/api/v1/access/me", headers={**token, "Origin": "https://evil.example"})
            assert "access-control-allow-origin" not in other.headers
        assert (await client.options("/api/v1/access/me", headers=PREFLIGHT)).status_code == 204
        for path, origin, allowed in (("/api/token/", APP, APP), ("/api/token/", "https://evil.example", None)):
            answer = await client.post(path, json=person, headers={"Origin": origin})
            assert (answer.status_code, answer.headers.get("access-control-allow-origin")) == (200, allowed)
        assert (await client.options("/api/token/refresh/", headers=PREFLIGHT)).status_code == 204
