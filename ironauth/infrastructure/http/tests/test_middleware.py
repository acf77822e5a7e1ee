"""The shared middleware: request id, security headers, access log; in both lanes."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import path

from ironauth.infrastructure.api.views import AsyncAPIView
from ironauth.infrastructure.http.handler import LeanHandler
from ironauth.infrastructure.http.lanes import AdminLane
from ironauth.infrastructure.http.middleware import RequestContextMiddleware, current_request_id
from ironauth.infrastructure.telemetry import logs
from ironauth.infrastructure.threads.request_threads import RequestThreads
from ironauth.tests.asgi_conversation import Conversation

pytestmark = [pytest.mark.urls(__name__)]
MIDDLEWARE = ["ironauth.infrastructure.http.middleware.RequestContextMiddleware"]


class IdView(AsyncAPIView):
    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []

    async def get(self, request: HttpRequest) -> dict[str, str]:
        return {"id": current_request_id()}


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(current_request_id().encode())


async def slow(request: HttpRequest) -> HttpResponse:
    await asyncio.sleep(30)
    return HttpResponse()


async def framed(request: HttpRequest) -> HttpResponse:
    return HttpResponse(headers={"X-Frame-Options": "SAMEORIGIN", "Content-Security-Policy": "default-src 'self'"})


urlpatterns = [path("api/id", IdView.as_view()), path("page", page), path("api/slow", slow), path("api/framed", framed)]


@pytest.fixture(autouse=True)
def _start_with_an_empty_log(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    logs.flush()
    capsys.readouterr()
    with override_settings(IRONAUTH_ACCESS_LOG=True):
        yield


@pytest.fixture
def threads() -> Iterator[RequestThreads]:
    own = RequestThreads()
    yield own
    own.close()


@pytest.fixture
def lean(threads: RequestThreads) -> LeanHandler:
    return LeanHandler(threads)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the access lines written so far."""
    logs.flush()
    events = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    return [event for event in events if event["event"] == "request"]


async def test_a_valid_request_id_is_kept(lean: LeanHandler) -> None:
    """The view, the header and the client agree on it."""
    talk = await Conversation("/api/id", headers={"x-request-id": "abc.DEF_1-2"}).body().run(lean)
    assert talk.headers["x-request-id"] == talk.json["id"] == "abc.DEF_1-2"


@pytest.mark.parametrize("bad", ["", "a b", "x" * 65, "a\u00e9", "<script>", "a,b", "a\tb"])
async def test_an_invalid_request_id_is_replaced(lean: LeanHandler, bad: str) -> None:
    """By 32 hexadecimal digits of a UUIDv7."""
    talk = await Conversation("/api/id", headers={"x-request-id": bad}).body().run(lean)
    assert re.fullmatch(r"[0-9a-f]{12}7[0-9a-f]{19}", talk.headers["x-request-id"])


async def test_the_request_id_ends_with_the_request(lean: LeanHandler) -> None:
    """Outside a request there is none."""
    await Conversation("/api/id").body().run(lean)
    assert current_request_id() == ""


async def test_security_headers_are_on_every_answer(lean: LeanHandler) -> None:
    """Also on errors; the JSON policy forbids everything."""
    for target in ("/api/id", "/api/none"):
        headers = (await Conversation(target).body().run(lean)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["content-security-policy"].startswith("default-src 'none'")


async def test_a_views_own_headers_win(lean: LeanHandler) -> None:
    """What a view decided is left as it is; a page gets no JSON policy."""
    headers = (await Conversation("/api/framed").body().run(lean)).headers
    assert headers["x-frame-options"] == "SAMEORIGIN"
    assert headers["content-security-policy"] == "default-src 'self'"


@pytest.mark.parametrize(("scheme", "expected"), [("http", False), ("https", True)])
async def test_hsts_is_sent_over_tls_only(lean: LeanHandler, scheme: str, expected: bool) -> None:
    """RFC 6797 §7.2: never over plain HTTP."""
    with override_settings(SECURE_HSTS_SECONDS=60, SECURE_HSTS_INCLUDE_SUBDOMAINS=True, SECURE_HSTS_PRELOAD=True):
        headers = (await Conversation("/api/id", scheme=scheme).body().run(lean)).headers
    sent = headers.get("strict-transport-security")
    assert sent == ("max-age=60; includeSubDomains; preload" if expected else None)


async def test_an_access_line_has_these_fields_and_no_query(
    lean: LeanHandler, capsys: pytest.CaptureFixture[str]
) -> None:
    """Method, path, status, duration, client and id; nothing of query string or credentials."""
    talk = Conversation(
        "/api/id",
        headers={"authorization": "Bearer topsecret", "cookie": "access_token=topsecret", "x-request-id": "line-1"},
        query_string=b"token=topsecret",
    )
    await talk.body().run(lean)
    (line,) = lines(capsys)
    assert line.pop("duration_ms") >= 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("timestamp"))
    assert line == {
        "level": "info", "event": "request", "method": "GET", "path": "/api/id", "status": 200,
        "client": "203.0.113.9", "request_id": "line-1",
    }  # fmt: skip


async def test_the_switch_silences_the_access_log(lean: LeanHandler, capsys: pytest.CaptureFixture[str]) -> None:
    """IRONAUTH_ACCESS_LOG=0: no line."""
    with override_settings(IRONAUTH_ACCESS_LOG=False):
        await Conversation("/api/id").body().run(lean)
    assert lines(capsys) == []


async def test_a_path_cannot_forge_a_line(lean: LeanHandler, capsys: pytest.CaptureFixture[str]) -> None:
    """CR, LF, terminal escapes and Unicode line ends stay inside one ASCII line."""
    evil = '/api/\r\n{"event":"request"}\x1b[31m\x9b\u2028\u0085\x7f"'
    talk = Conversation(evil)
    talk.scope["raw_path"] = b"/api/x"
    await talk.body().run(lean)
    logs.flush()
    written = capsys.readouterr().err
    (line,) = [line for line in written.split("\n") if '"event":"request"' in line and '"path"' in line]
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["path"] == evil


async def test_a_client_that_left_is_logged_as_499(lean: LeanHandler, capsys: pytest.CaptureFixture[str]) -> None:
    """The code nginx uses for it; the cancellation goes on."""
    talk = Conversation("/api/slow").body()
    running = asyncio.create_task(talk.run(lean))
    await asyncio.sleep(0.01)
    talk.leave()
    await running
    assert [line["status"] for line in lines(capsys)] == [499]


async def test_the_admin_lane_is_named_and_logged_too(
    threads: RequestThreads, capsys: pytest.CaptureFixture[str]
) -> None:
    """The synchronous page sees the id that its answer carries."""
    with override_settings(MIDDLEWARE=MIDDLEWARE):
        lane = AdminLane(ASGIHandler(), threads)
    talk = await Conversation("/page").body().run(lane)
    assert talk.content.decode() == talk.headers["x-request-id"]
    assert [line["path"] for line in lines(capsys)] == ["/page"]


def test_it_works_under_a_synchronous_handler(capsys: pytest.CaptureFixture[str]) -> None:
    """Django's sync test client: same id, one line."""
    with override_settings(MIDDLEWARE=MIDDLEWARE):
        answer = Client().get("/page", headers={"X-Request-ID": "sync-1"})
    assert answer.headers["X-Request-ID"] == answer.content.decode() == "sync-1"
    assert [line["request_id"] for line in lines(capsys)] == ["sync-1"]


def test_it_is_natively_async() -> None:
    """Around an async handler it is a coroutine function, so that Django never adapts it."""

    async def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    assert RequestContextMiddleware(view).is_async
