"""The lean handler: fast, and still Django."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
import pytest
from django.core.exceptions import ImproperlyConfigured, PermissionDenied, SuspiciousOperation
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.signals import got_request_exception, request_finished, request_started
from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import AsyncClient, Client, override_settings
from django.urls import path, reverse
from django.utils.datastructures import MultiValueDict

from ironauth.infrastructure.api.views import AsyncAPIView
from ironauth.infrastructure.http.handler import LeanHandler
from ironauth.infrastructure.threads.request_threads import RequestThreads
from ironauth.tests.asgi_conversation import Conversation

pytestmark = pytest.mark.urls(__name__)
THIS_FILE = Path(__file__)
CONTENT = THIS_FILE.read_bytes()
seen: list[Any] = []


class Answer(msgspec.Struct):
    value: str


class HelloView(AsyncAPIView):
    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []

    async def get(self, request: HttpRequest) -> Answer:
        seen.append(threading.current_thread())
        return Answer("hello")


async def function_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b"async")


async def item_view(request: HttpRequest, number: int) -> HttpResponse:
    return HttpResponse(str(number).encode())


def sync_view(request: HttpRequest) -> HttpResponse:
    seen.append(threading.current_thread())
    return HttpResponse(b"sync")


async def waiting_view(request: HttpRequest) -> HttpResponse:
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        seen.append("cancelled")
        raise
    return HttpResponse()


async def brief_view(request: HttpRequest) -> HttpResponse:
    await asyncio.sleep(0.01)
    return HttpResponse(b"brief")


async def async_stream(request: HttpRequest) -> StreamingHttpResponse:
    async def parts() -> AsyncIterator[bytes]:
        try:
            for part in (b"a", b"b", b"c"):
                yield part
                await asyncio.sleep(0)
        finally:
            seen.append("stream closed")

    return StreamingHttpResponse(parts())


async def endless_stream(request: HttpRequest) -> StreamingHttpResponse:
    async def parts() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0.01)
        finally:
            seen.append("stream closed")

    return StreamingHttpResponse(parts())


async def sync_stream(request: HttpRequest) -> StreamingHttpResponse:
    def parts() -> Iterator[bytes]:
        for part in (b"1", b"2"):
            seen.append(threading.current_thread())
            yield part

    return StreamingHttpResponse(parts())


async def file_view(request: HttpRequest) -> FileResponse:
    opened = await asyncio.to_thread(THIS_FILE.open, "rb")
    seen.append(opened)
    return FileResponse(opened)


async def cookie_view(request: HttpRequest) -> HttpResponse:
    response = HttpResponse(b"x" * 200_000)
    response.set_cookie("a", "1")
    response.set_cookie("b", "2")
    return response


async def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("the secret is 42")


async def forbidden(request: HttpRequest) -> HttpResponse:
    raise PermissionDenied("because of the secret")


async def suspicious(request: HttpRequest) -> HttpResponse:
    raise SuspiciousOperation("the secret")


async def nothing(request: HttpRequest) -> Any:
    return None


async def prefix(request: HttpRequest) -> HttpResponse:
    return HttpResponse(reverse("hello").encode())


urlpatterns = [
    path("api/hello", HelloView.as_view(), name="hello"),
    path("api/items/<int:number>", item_view),
    path("api/function", function_view),
    path("api/sync", sync_view),
    path("api/waiting", waiting_view),
    path("api/brief", brief_view),
    path("api/stream", async_stream),
    path("api/endless", endless_stream),
    path("api/sync-stream", sync_stream),
    path("api/file", file_view),
    path("api/cookies", cookie_view),
    path("api/broken", broken),
    path("api/forbidden", forbidden),
    path("api/suspicious", suspicious),
    path("api/nothing", nothing),
    path("api/prefix", prefix),
]


@pytest.fixture(autouse=True)
def _forget() -> None:
    seen.clear()


@pytest.fixture
def threads() -> Iterator[RequestThreads]:
    """Threads of the test's own, so that their number can be counted."""
    own = RequestThreads()
    yield own
    own.close()


@pytest.fixture
def handler(threads: RequestThreads) -> LeanHandler:
    return LeanHandler(threads)


@pytest.fixture
async def client(handler: LeanHandler) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=cast("Any", handler))
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as own:
        yield own


async def test_a_view_answers_on_the_event_loops_thread(client: httpx.AsyncClient) -> None:
    """The whole of an async request runs in the loop's own thread."""
    answer = await client.get("/api/hello")
    assert (answer.status_code, answer.json()) == (200, {"value": "hello"})
    assert seen == [threading.current_thread()]
    assert answer.headers["content-length"] == str(len(answer.content))
    assert answer.headers["cache-control"] == "no-store"


async def test_500_requests_start_no_thread(client: httpx.AsyncClient) -> None:
    """The number of threads is the same after 500 requests as before them."""
    await client.get("/api/hello")
    before = threading.active_count()
    for _ in range(500):
        await client.get("/api/hello")
    assert threading.active_count() == before


async def test_a_response_that_never_waits_starts_no_listener(handler: LeanHandler) -> None:
    """``receive`` is called once, for the body: nobody listens for a disconnect."""
    assert (await Conversation("/api/hello").body().run(handler)).received == 1
    assert (await Conversation("/api/brief").body().run(handler)).received == 2


async def test_a_disconnect_cancels_the_view(handler: LeanHandler) -> None:
    """The view sees CancelledError, nothing is sent, and the server sees no error."""
    talk = Conversation("/api/waiting").body()
    running = asyncio.create_task(talk.run(handler))
    await asyncio.sleep(0.01)
    talk.leave()
    await asyncio.wait_for(running, 2)
    assert seen == ["cancelled"]
    assert talk.sent == []


async def test_a_disconnect_closes_a_stream(handler: LeanHandler) -> None:
    """An endless stream ends, its generator closed, when the client leaves."""
    talk = Conversation("/api/endless").body()
    running = asyncio.create_task(talk.run(handler))
    await asyncio.sleep(0.05)
    talk.leave()
    await asyncio.wait_for(running, 2)
    assert seen == ["stream closed"]
    assert len(talk.sent) > 2


async def test_the_servers_own_cancellation_reaches_the_server(handler: LeanHandler) -> None:
    """A task the server cancels ends cancelled, and so does the view."""
    running = asyncio.create_task(Conversation("/api/waiting").body().run(handler))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert seen == ["cancelled"]


async def test_a_client_that_leaves_during_its_body_is_forgotten(handler: LeanHandler) -> None:
    """No view runs, nothing is sent."""
    talk = await Conversation("/api/hello", "POST").body(b"a", finished=False).leave().run(handler)
    assert (talk.sent, seen) == ([], [])


async def test_async_streams_are_sent_part_by_part(handler: LeanHandler) -> None:
    """Each part is its own message, the generator is closed, and no length is claimed."""
    talk = await Conversation("/api/stream").body().run(handler)
    assert [message.get("body", b"") for message in talk.sent[1:]] == [b"a", b"b", b"c", b""]
    assert seen == ["stream closed"]
    assert "content-length" not in talk.headers


async def test_sync_streams_are_read_in_a_thread(client: httpx.AsyncClient) -> None:
    """A synchronous iterator never runs on the event loop."""
    assert (await client.get("/api/sync-stream")).content == b"12"
    assert threading.current_thread() not in seen


async def test_files_are_sent_whole_and_closed(client: httpx.AsyncClient) -> None:
    """FileResponse works, with its length, and the file is closed afterwards."""
    answer = await client.get("/api/file")
    assert answer.content == CONTENT
    assert answer.headers["content-length"] == str(len(answer.content))
    assert seen[0].closed


async def test_large_bodies_and_several_cookies_arrive(handler: LeanHandler) -> None:
    """A body over 64 KiB is sent in 64 KiB messages; every cookie has its own field."""
    talk = await Conversation("/api/cookies").body().run(handler)
    assert [len(message["body"]) for message in talk.sent[1:]] == [65_536, 65_536, 65_536, 3_392]
    cookies = [value for name, value in talk.sent[0]["headers"] if name == b"Set-Cookie"]
    assert len(cookies) == 2


async def test_synchronous_views_run_in_the_bounded_threads(client: httpx.AsyncClient) -> None:
    """A synchronous view works, off the loop, and 50 requests use no more than the four threads."""
    for _ in range(50):
        assert (await client.get("/api/sync")).content == b"sync"
    assert threading.current_thread() not in seen
    assert len(set(seen)) <= 4


async def test_custom_signal_receivers_are_called(client: httpx.AsyncClient) -> None:
    """Sync and async receivers of request_started and request_finished are called; sync ones off the loop."""
    calls: list[tuple[str, threading.Thread]] = []

    def started(sender: type, scope: dict[str, Any], **kwargs: Any) -> None:
        calls.append((f"started {scope['path']} {sender.__name__}", threading.current_thread()))

    async def finished(sender: type, **kwargs: Any) -> None:
        calls.append((f"finished {sender.__name__}", threading.current_thread()))

    request_started.connect(started)
    request_finished.connect(finished)
    try:
        await client.get("/api/hello")
    finally:
        request_started.disconnect(started)
        request_finished.disconnect(finished)
    assert [name for name, _ in calls] == ["started /api/hello LeanHandler", "finished LeanHandler"]
    assert calls[0][1] is not threading.current_thread()
    await client.get("/api/hello")
    assert len(calls) == 2


async def test_what_a_request_leaves_open_is_closed(handler: LeanHandler) -> None:
    """Its uploads at once; what a view handed to the response, which may block, in a thread."""
    upload = SimpleUploadedFile("a.txt", b"x")
    closed_in: list[threading.Thread] = []

    async def view(request: HttpRequest) -> HttpResponseBase:
        request._files = MultiValueDict({"file": [upload]})  # type: ignore[attr-defined] # what a parsed form leaves
        response = HttpResponse(b"x")
        if request.path == "/further":
            cast("Any", response)._resource_closers.append(lambda: closed_in.append(threading.current_thread()))
        return response

    handler._middleware_chain = view
    await Conversation("/").body().run(handler)
    assert upload.closed
    await Conversation("/further").body().run(handler)
    assert closed_in
    assert closed_in[0] is not threading.current_thread()


async def test_a_response_with_its_own_close_is_closed(handler: LeanHandler) -> None:
    """An overridden close() is called, and the signal is sent once."""
    closed: list[str] = []
    finished: list[str] = []

    class Closing(HttpResponse):
        def close(self) -> None:
            closed.append("closed")
            super().close()

    async def view(request: HttpRequest) -> HttpResponseBase:
        return Closing(b"x")

    def receiver(**kwargs: Any) -> None:
        finished.append("finished")

    request_finished.connect(receiver)
    try:
        handler._middleware_chain = view
        await Conversation().body().run(handler)
    finally:
        request_finished.disconnect(receiver)
    assert (closed, finished) == (["closed"], ["finished"])


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("/api/none", 404, "not_found"),
        ("/api/forbidden", 403, "permission_denied"),
        ("/api/suspicious", 400, "bad_request"),
        ("/api/broken", 500, "internal_error"),
        ("/api/nothing", 500, "internal_error"),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
async def test_every_error_is_a_problem_without_internals(
    client: httpx.AsyncClient, target: str, status: int, code: str, debug: bool
) -> None:
    """Status, code and request id are there; messages of exceptions are not, not even under DEBUG."""
    with override_settings(DEBUG=debug):
        answer = await client.get(target)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


async def test_error_trackers_hear_of_bugs_only(client: httpx.AsyncClient) -> None:
    """got_request_exception is sent for the RuntimeError, not for the 404."""
    heard: list[str] = []

    def receiver(request: HttpRequest, **kwargs: Any) -> None:
        heard.append(request.path)

    got_request_exception.connect(receiver)
    try:
        await client.get("/api/none")
        await client.get("/api/broken")
    finally:
        got_request_exception.disconnect(receiver)
    assert heard == ["/api/broken"]


async def test_foreign_hosts_are_refused(client: httpx.AsyncClient) -> None:
    """A Host that ALLOWED_HOSTS does not name is 400, also right after an accepted one, also after a change."""
    assert (await client.get("/api/hello")).status_code == 200
    for host in ("evil.example", "testserver,evil.example", "testserver/x", ""):
        assert (await client.get("/api/hello", headers={"Host": host})).status_code == 400, host
    with override_settings(ALLOWED_HOSTS=["other.example"]):
        answer = await client.get("/api/hello")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_host")


async def test_an_undecodable_query_string_is_400(handler: LeanHandler) -> None:
    """Raw bytes that are not UTF-8 are the client's fault."""
    talk = await Conversation("/api/hello", query_string=b"a=\xff").body().run(handler)
    assert (talk.status, talk.json["code"]) == (400, "bad_request")


async def test_a_mount_point_is_stripped_and_does_not_leak(handler: LeanHandler) -> None:
    """reverse() carries root_path in that request only."""
    mounted = await Conversation("/app/api/prefix", root_path="/app").body().run(handler)
    assert mounted.content == b"/app/api/hello"
    assert (await Conversation("/api/prefix").body().run(handler)).content == b"/api/hello"


async def test_remembered_routes_follow_the_urlconf(client: httpx.AsyncClient) -> None:
    """A remembered match is not used after ROOT_URLCONF changed, and parameters are never mixed up."""
    assert (await client.get("/api/hello")).status_code == 200
    assert (await client.get("/api/items/1")).content == b"1"
    assert (await client.get("/api/items/2")).content == b"2"
    assert (await client.get("/api/items/x")).status_code == 404
    with override_settings(ROOT_URLCONF="ironauth.infrastructure.http.tests.test_lanes"):
        assert (await client.get("/api/hello")).status_code == 404


async def test_views_also_work_under_stock_django() -> None:
    """Django's own test clients and handlers drive the same view."""
    answer = await AsyncClient().get("/api/hello")
    assert (answer.status_code, answer.json()) == (200, {"value": "hello"})


def test_views_also_work_under_the_sync_client() -> None:
    """Django's WSGI test client drives the same view."""
    assert Client().get("/api/hello").json() == {"value": "hello"}


def test_middleware_that_is_not_async_stops_start_up(threads: RequestThreads) -> None:
    """A synchronous middleware in API_MIDDLEWARE is refused by name, and so is ATOMIC_REQUESTS."""
    name = f"{__name__}.SyncOnly"
    with override_settings(API_MIDDLEWARE=[name]), pytest.raises(ImproperlyConfigured, match="SyncOnly"):
        LeanHandler(threads)


class SyncOnly:
    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response


class Hooks:
    sync_capable = False
    async_capable = True

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await self.get_response(request)
        response.headers["X-Outer"] = "yes"
        return response

    async def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        seen.append("process_view")

    async def process_exception(self, request: HttpRequest, exc: Exception) -> HttpResponse:
        return HttpResponse(f"caught {type(exc).__name__}".encode())


async def test_middleware_hooks_are_called(threads: RequestThreads) -> None:
    """process_view and process_exception of an async middleware work as under Django's handler."""
    with override_settings(API_MIDDLEWARE=[f"{__name__}.Hooks"]):
        handler = LeanHandler(threads)
    talk = await Conversation("/api/broken").body().run(handler)
    assert (talk.content, talk.headers["x-outer"]) == (b"caught RuntimeError", "yes")
    assert seen == ["process_view"]


async def test_no_middleware_of_the_project_is_adapted(
    threads: RequestThreads, caplog: pytest.LogCaptureFixture
) -> None:
    """Django reports no "handler adapted": every API middleware is natively async."""
    with override_settings(DEBUG=True), caplog.at_level(logging.DEBUG, logger="django.request"):
        LeanHandler(threads)
    assert "adapted" not in caplog.text


async def test_only_http_is_served(handler: LeanHandler) -> None:
    """Another protocol is a programming error."""
    with pytest.raises(ValueError, match="websocket"):
        await Conversation(type="websocket").run(handler)
