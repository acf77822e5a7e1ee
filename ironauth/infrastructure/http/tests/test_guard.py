"""The guard: both sides of every limit, before Django sees anything."""

import asyncio
import time
from typing import Any

import pytest
from django.test import override_settings

from ironauth.infrastructure.core.asgi_types import Receive, Scope, Send
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.http import guard
from ironauth.infrastructure.http.guard import API_BODY_BYTES, Guard
from ironauth.infrastructure.http.lanes import longest_body
from ironauth.infrastructure.telemetry import logs
from ironauth.tests.asgi_conversation import Conversation


class Recorder:
    """An application that reads the whole body and says how long it was."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls += 1
        size, more = 0, True
        while more:
            message = await receive()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(size).encode()})


@pytest.fixture
def application() -> Recorder:
    return Recorder()


@pytest.fixture
def guarded(application: Recorder) -> Guard:
    return Guard(application, longest_body=longest_body, body_timeout_s=0.1)


def assert_refused(talk: Conversation, status: int, code: str) -> None:
    """Check the whole of a refusal."""
    assert (talk.status, talk.json["status"], talk.json["code"]) == (status, status, code)
    assert talk.headers["content-type"] == "application/problem+json"
    assert talk.headers["cache-control"] == "no-store"
    assert talk.headers["connection"] == "close"
    assert talk.headers["content-length"] == str(len(talk.content))
    assert talk.headers["x-request-id"] == talk.json["request_id"]
    assert (talk.headers["x-content-type-options"], talk.headers["x-frame-options"]) == ("nosniff", "DENY")
    assert talk.headers["referrer-policy"] == "no-referrer"
    assert talk.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


def fields(count: int) -> dict[str, str]:
    """Return ``count`` - 1 fields; the conversation's Host is one more."""
    return {f"x-{number}": "1" for number in range(count - 1)}


async def test_a_request_without_body_passes_untouched(application: Recorder, guarded: Guard) -> None:
    """The very ``receive`` of the server reaches the application."""
    given: list[Any] = []

    async def application_(scope: Scope, receive: Receive, send: Send) -> None:
        given.append(receive)

    talk = Conversation()
    await Guard(application_, longest_body=longest_body)(talk.scope, receive := talk.receive, talk.send)
    assert given == [receive]


@pytest.mark.parametrize(("count", "refused"), [(100, False), (101, True)])
async def test_100_header_fields_are_enough(guarded: Guard, count: int, refused: bool) -> None:
    """The 101st field is 431."""
    talk = await Conversation(headers=fields(count)).body().run(guarded)
    assert_refused(talk, 431, "headers_too_large") if refused else None
    assert talk.status == (431 if refused else 200)


@pytest.mark.parametrize(("extra", "refused"), [(0, False), (1, True)])
async def test_16_kib_of_headers_are_enough(guarded: Guard, extra: int, refused: bool) -> None:
    """One byte more than 16 KiB, separators counted, is 431."""
    host = len("host") + len("testserver") + 4
    value = "v" * (16 * 1024 - host - len("x-long") - 4 + extra)
    talk = await Conversation(headers={"x-long": value}).body().run(guarded)
    assert talk.status == (431 if refused else 200)


@pytest.mark.parametrize(("length", "status"), [(8_191, 200), (8_192, 414)])
async def test_urls_have_a_limit(guarded: Guard, length: int, status: int) -> None:
    """Path and query string together: 8 KiB."""
    talk = await Conversation("/", query_string=b"q" * length).body().run(guarded)
    assert talk.status == (status if length + 1 > guard.MAX_TARGET_BYTES else 200)


async def staff(_scope: Scope) -> bool:
    """Say that somebody is signed in to the admin."""
    return True


@pytest.mark.parametrize(
    ("target", "signed_in", "limit"),
    [
        ("/api/x", True, 65_536), ("/admin/", True, 1_048_576), ("/admin/", False, 65_536), ("/nowhere", True, 65_536),
        ("/static/x.css", True, 0), ("/static/x.css", False, 0), ("/admin", False, 65_536),
    ],
)  # fmt: skip
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("parts", [1, 2, 20])
async def test_bodies_have_a_limit_by_path_and_sender(
    application: Recorder, target: str, signed_in: bool, limit: int, declared: bool, parts: int
) -> None:
    """The limit itself passes; one byte more is 413, declared or counted, and never reaches the application."""
    guarded = Guard(application, longest_body=longest_body, is_staff=staff if signed_in else None)
    for size, status in ((limit, 200), (limit + 1, 413)):
        headers = {"content-length": str(size)} if declared else {"transfer-encoding": "chunked"}
        sizes = [size // parts] * (parts - 1)
        pieces = [b"a" * each for each in (*sizes, size - sum(sizes))]
        talk = await Conversation(target, "POST", headers).body(*pieces).run(guarded)
        assert talk.status == status
        if status == 413:
            assert_refused(talk, 413, "body_too_large")
    assert application.calls == 1
    assert guarded.budget.held == 0


async def test_a_large_body_is_not_read_before_its_sender_is_known(application: Recorder) -> None:
    """Where somebody has to be signed in for it, nothing of a larger body is read; 503 without storage."""

    async def unknown(_scope: Scope) -> bool:
        raise Unavailable

    for is_staff, status in ((None, 413), (unknown, 503)):
        talk = Conversation("/admin/", "POST", {"content-length": str(API_BODY_BYTES + 1)})
        await talk.run(Guard(application, longest_body=longest_body, is_staff=is_staff))
        assert (talk.status, talk.received) == (status, 0)
    assert talk.headers["retry-after"] == "1"


async def test_an_oversized_upload_is_not_read_to_its_end(guarded: Guard) -> None:
    """The answer comes with the first part beyond the limit; the rest is the server's to forget."""
    headers = {"transfer-encoding": "chunked"}
    talk = Conversation("/api/x", "POST", headers).body(*[b"x" * 65_536] * 1_000, finished=False)
    await talk.run(guarded)
    assert talk.status == 413
    assert talk.received == 2


@pytest.mark.parametrize("value", ["-1", "+5", "1.0", "0x10", "", "1 2", "५", "9" * 5_000])
async def test_bad_content_lengths_are_400(guarded: Guard, value: str) -> None:
    """Anything but ASCII digits is refused; so are two lengths that disagree."""
    talk = Conversation("/api/x", "POST")
    talk.scope["headers"].append((b"content-length", value.encode()))
    await talk.run(guarded)
    assert_refused(talk, 400, "bad_content_length")


async def test_contradicting_content_lengths_are_400(guarded: Guard) -> None:
    """Equal repetitions pass, others do not (RFC 9110 §8.6)."""
    for second, status in ((b"1", 200), (b"2", 400)):
        talk = Conversation("/api/x", "POST").body(b"a")
        talk.scope["headers"] += [(b"content-length", b"1"), (b"content-length", second)]
        assert (await talk.run(guarded)).status == status


async def test_a_body_that_is_not_finished_in_time_is_408(application: Recorder, guarded: Guard) -> None:
    """The limit is for the whole body: a client that keeps sending a byte does not extend it."""
    talk = Conversation("/api/x", "POST", {"content-length": "1000"})

    async def trickle() -> None:
        while True:
            talk.body(b"a", finished=False)
            await asyncio.sleep(0.02)

    trickling = asyncio.create_task(trickle())
    started = time.monotonic()
    await talk.run(guarded)
    trickling.cancel()
    assert_refused(talk, 408, "request_timeout")
    assert time.monotonic() - started < 1
    assert application.calls == 0


async def test_a_body_in_parts_arrives_whole(application: Recorder, guarded: Guard) -> None:
    """The application gets it in one piece, then whatever the server says next."""
    seen: list[Any] = []

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend([await receive(), await receive()])

    talk = Conversation("/api/x", "POST", {"content-length": "6"}).body(b"ab", b"cd", b"ef").leave()
    await talk.run(Guard(reading, longest_body=longest_body))
    assert seen == [
        {"type": "http.request", "body": b"abcdef", "more_body": False},
        {"type": "http.disconnect"},
    ]


async def test_a_client_that_leaves_is_forgotten(application: Recorder, guarded: Guard) -> None:
    """Nothing is sent and nothing is called."""
    headers = {"content-length": "6"}
    talk = await Conversation("/api/x", "POST", headers).body(b"a", finished=False).leave().run(guarded)
    assert (talk.sent, application.calls) == ([], 0)


@pytest.mark.parametrize("method", ["TRACE", "CONNECT"])
@pytest.mark.parametrize("target", ["/api/x", "/admin/"])
async def test_trace_is_405_everywhere(guarded: Guard, method: str, target: str) -> None:
    """Nothing is ever reflected; Allow names the others."""
    talk = await Conversation(target, method).body().run(guarded)
    assert_refused(talk, 405, "method_not_allowed")
    assert "GET" in talk.headers["allow"]
    assert "TRACE" not in talk.headers["allow"]


@pytest.mark.parametrize(("count", "version", "status"), [(0, "1.1", 400), (2, "1.1", 400), (2, "1.0", 400)])
async def test_http_11_names_exactly_one_host(guarded: Guard, count: int, version: str, status: int) -> None:
    """No Host, or two, is 400 (RFC 9112 §3.2)."""
    talk = Conversation(http_version=version).body()
    talk.scope["headers"] = [(b"host", b"testserver")] * count
    assert_refused(await talk.run(guarded), status, "bad_host")


@pytest.mark.parametrize(("version", "fields_"), [("1.0", []), ("2", []), ("1.0", [(b"host", b"a")])])
async def test_other_versions_need_no_host(guarded: Guard, version: str, fields_: list[tuple[bytes, bytes]]) -> None:
    """HTTP/1.0 has none, and HTTP/2 has :authority instead."""
    talk = Conversation(http_version=version).body()
    talk.scope["headers"] = fields_
    assert (await talk.run(guarded)).status == 200


@pytest.mark.parametrize("target", ["/api/x", "/admin/"])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "x-gzip", "identity, gzip", "nonsense"])
async def test_encoded_bodies_are_415(application: Recorder, guarded: Guard, target: str, coding: str) -> None:
    """A body that would have to be unpacked is refused, whatever its size; the answer says what is accepted."""
    headers = {"content-encoding": coding, "content-length": "2"}
    talk = await Conversation(target, "POST", headers).body(b"{}").run(guarded)
    assert_refused(talk, 415, "unsupported_media_type")
    assert talk.headers["accept-encoding"] == "identity"
    assert application.calls == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"content-encoding": "identity", "content-length": "2"},
        {"content-encoding": "Identity", "transfer-encoding": "chunked"},
        {"content-encoding": "", "content-length": "2"},
        {"content-encoding": "gzip", "content-length": "0"},
        {"content-encoding": "gzip"},
    ],
)
async def test_bodies_as_they_are_pass(guarded: Guard, headers: dict[str, str]) -> None:
    """Identity is no coding, and a coding of no body is nothing to unpack."""
    body = b"" if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers else b"{}"
    assert (await Conversation("/api/x", "POST", headers).body(body).run(guarded)).status == 200


@pytest.mark.parametrize(("scheme", "sent"), [("https", True), ("http", False)])
async def test_refusals_carry_hsts_over_https(guarded: Guard, scheme: str, sent: bool) -> None:
    """As every other answer does (RFC 6797 §7.2: never over plain http)."""
    with override_settings(SECURE_HSTS_SECONDS=3_600):
        talk = await Conversation(headers=fields(101), scheme=scheme).body().run(guarded)
    assert ("strict-transport-security" in talk.headers) is sent


async def test_what_escapes_a_lane_is_a_generic_500(capsys: pytest.CaptureFixture[str]) -> None:
    """The traceback is in the log under the event "unhandled_error", never in the answer."""

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("secret cause")

    talk = await Conversation("/admin/").body().run(Guard(broken, longest_body=longest_body))
    assert_refused(talk, 500, "internal_error")
    assert b"secret cause" not in talk.content
    logs.flush()
    logged = capsys.readouterr().err
    assert "unhandled_error" in logged
    assert "secret cause" in logged


async def test_refusals_are_in_the_access_log(guarded: Guard, capsys: pytest.CaptureFixture[str]) -> None:
    """With status and request id, without the query string; not when the log is off."""
    headers = {**fields(101), "x-request-id": "given-1"}
    with override_settings(IRONAUTH_ACCESS_LOG=True):
        await Conversation("/api/logged", headers=headers, query_string=b"token=secret").body().run(guarded)
    with override_settings(IRONAUTH_ACCESS_LOG=False):
        await Conversation("/api/silent", headers=headers).body().run(guarded)
    logs.flush()
    logged = capsys.readouterr().err
    assert '"path":"/api/logged","status":431' in logged
    assert "given-1" in logged
    assert "secret" not in logged
    assert "/api/silent" not in logged
