"""Lanes: which handler answers a path, and how many threads the admin lane may use."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from django.http import FileResponse, HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path

from ironauth.infrastructure.core.asgi_types import Receive, Scope, Send
from ironauth.infrastructure.http.lanes import AdminLane, LaneRouter, PageHandler, is_api_path
from ironauth.infrastructure.threads.request_threads import RequestThreads
from ironauth.tests.asgi_conversation import Conversation

pytestmark = pytest.mark.urls(__name__)
THIS_FILE = Path(__file__)
seen: list[threading.Thread] = []
opened: list[Any] = []


def page(request: HttpRequest) -> HttpResponse:
    seen.append(threading.current_thread())
    return HttpResponse(b"page")


def slow_page(request: HttpRequest) -> HttpResponse:
    time.sleep(0.05)
    return page(request)


def file_page(request: HttpRequest) -> FileResponse:
    opened.append(THIS_FILE.open("rb"))
    return FileResponse(opened[-1])


urlpatterns = [path("page", page), path("slow", slow_page), path("file", file_page)]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/api/v1/access/me", True),
        ("/oauth/token", True),
        ("/.well-known/jwks.json", True),
        ("/ping", True),
        ("/health", True),
        ("/health/live", True),
        ("/metrics", True),
        ("/perf/serialization/drf", True),
        ("/", True),
        ("/nope", True),
        ("/api", True),
        ("//api/v1/access/me", True),
        ("//admin/", True),
        ("*", True),
        ("/administrator", True),
        ("/static", True),
        ("/admin", False),
        ("/admin/", False),
        ("/static/admin/css/base.css", False),
    ],
)
def test_the_path_decides_the_lane(target: str, expected: bool) -> None:
    """The admin and its files are for people; everything else, paths nobody serves included, is the API lane's."""
    assert is_api_path({"path": target}) is expected
    assert is_api_path({"path": f"/mounted{target}", "root_path": "/mounted"}) is expected


async def test_the_router_hands_over_unchanged() -> None:
    """Each lane gets the very scope, receive and send."""
    calls: list[tuple[str, Scope]] = []

    async def api(scope: Scope, receive: Receive, send: Send) -> None:
        calls.append(("api", scope))

    async def admin(scope: Scope, receive: Receive, send: Send) -> None:
        calls.append(("admin", scope))

    router = LaneRouter(api, admin)
    first, second = Conversation("/api/x"), Conversation("/admin/")
    await first.run(router)
    await second.run(router)
    assert calls == [("api", first.scope), ("admin", second.scope)]


@pytest.mark.parametrize("host", ["evil.example", "testserver:x", "testserver@evil.example", ""])
async def test_a_foreign_host_never_reaches_the_admin_lane(host: str) -> None:
    """The API lane answers it: a 400 problem, and one line in the log instead of a traceback."""
    calls: list[str] = []

    async def api(scope: Scope, receive: Receive, send: Send) -> None:
        calls.append("api")

    async def admin(scope: Scope, receive: Receive, send: Send) -> None:
        calls.append("admin")

    for spelling in (host, "testserver", "TESTSERVER:8000"):
        await Conversation("/admin/", headers={"host": spelling}).run(LaneRouter(api, admin))
    assert calls == ["api", "admin", "admin"]


async def test_200_admin_requests_use_at_most_four_threads() -> None:
    """Threads (hence database connections) are reused, one after the other and side by side."""
    seen.clear()
    threads = RequestThreads(4)
    with override_settings(MIDDLEWARE=["django.middleware.common.CommonMiddleware"]):
        lane = AdminLane(PageHandler(), threads)
    before = threading.active_count()
    transport = httpx.ASGITransport(app=cast("Any", lane))
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        for _ in range(100):
            assert (await client.get("/page")).content == b"page"
        answers = await asyncio.gather(*(client.get("/page") for _ in range(100)))
    assert all(answer.status_code == 200 for answer in answers)
    assert threading.active_count() <= before + 4
    assert len(seen) == 200
    assert len(set(seen)) <= 4
    threads.close()


async def test_slow_pages_run_side_by_side() -> None:
    """Four requests of 50 ms take the four threads, not one after the other."""
    seen.clear()
    threads = RequestThreads(4)
    lane = AdminLane(PageHandler(), threads)
    transport = httpx.ASGITransport(app=cast("Any", lane))
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
        await asyncio.gather(*(client.get("/slow") for _ in range(4)))
    assert len(set(seen)) == 4
    threads.close()


async def test_files_of_the_admin_lane_are_sent_in_parts_and_closed() -> None:
    """WhiteNoise serves files from synchronous iterators: no warning, no copy in memory, no file left open."""
    threads = RequestThreads(1)
    lane = AdminLane(PageHandler(), threads)
    talk = await Conversation("/file").body().run(lane)
    assert talk.content == await asyncio.to_thread(THIS_FILE.read_bytes)
    assert opened[-1].closed
    threads.close()
