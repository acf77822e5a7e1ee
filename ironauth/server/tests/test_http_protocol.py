"""The bounds below ASGI, on real sockets and a real Uvicorn; limits of time are short, the others the product's own."""

import asyncio
import json
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
import uvicorn
from django.conf import settings
from django.test import override_settings
from uvicorn.server import ServerState

from conftest import ServeProcess
from ironauth import settings_test
from ironauth.infrastructure.core.asgi_types import Receive, Scope, Send
from ironauth.infrastructure.http.guard import BODY_TIMEOUT_S, Guard
from ironauth.infrastructure.http.lanes import longest_body
from ironauth.infrastructure.telemetry import logs
from ironauth.server import connection as http_protocol
from ironauth.server import response as http_cycle
from ironauth.server import server as server_sockets
from ironauth.server.connection import BoundedHttpProtocol

HEAD = b"GET /ping HTTP/1.1\r\nHost: testserver\r\n"
PING = HEAD + b"\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: testserver\r\n"
HEAD_TIMEOUT_S = WRITE_TIMEOUT_S = 0.4
LARGE = bytes(8 * 2**20)  # more than the sockets of both ends hold
FILLED = {"/large": LARGE, "/megabyte": LARGE[: 2**20], "/kernels": LARGE[: 96 * 1024]}
SLOW_S = 0.3
type StartServer = Callable[..., int]


class Quick(BoundedHttpProtocol):
    """The product's protocol with less patience and little room."""

    head_timeout_s = HEAD_TIMEOUT_S
    spare_connections = 2
    closed_at_once = 1
    write_timeout_s = WRITE_TIMEOUT_S
    most_stalled = 3


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer the body and the names of the header fields, /slow after a while; /large and others get zeros."""
    message = await receive()
    if scope["path"] == "/slow":
        await asyncio.sleep(SLOW_S)
    names = ",".join(name.decode() for name, _ in scope["headers"]).encode()
    body = FILLED.get(scope["path"]) or message.get("body", b"") or names
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serving(*, body_timeout_s: float = BODY_TIMEOUT_S, **options: Any) -> Iterator[int]:
    """Run a Uvicorn of this process with the protocol; gives its port."""
    with server_sockets.bind_tcp("127.0.0.1", 0) as bound:
        server_sockets.listen(bound)
        guarded: Any = Guard(application, longest_body=longest_body, body_timeout_s=body_timeout_s)
        given: dict[str, Any] = {"http": Quick, "ws": "none", "lifespan": "off", "log_config": None, **options}
        server = uvicorn.Server(uvicorn.Config(guarded, loop="uvloop", **given))
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield int(bound.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(timeout=10)


@pytest.fixture
def start() -> Iterator[StartServer]:
    """Start such servers until the test ends; returns the port of each."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(serving(**options))


class Client:
    """One raw connection."""

    opened: ClassVar[list["Client"]] = []

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.opened.append(self)

    def send(self, *parts: bytes, every_s: float = 0.0) -> "Client":
        """Send the parts, a pause before each; a server that hangs up ends it."""
        with suppress(ConnectionError):
            for part in parts:
                time.sleep(every_s)
                self.socket.sendall(part)
        return self

    def rest(self) -> bytes:
        """Return everything until the server closes."""
        received = b""
        with suppress(ConnectionError):
            while part := self.socket.recv(65_536):
                received += part
        return received

    def answer(self) -> "Answer":
        """Return the only answer of a connection that the server then closes."""
        return Answer(self.rest())

    def next(self) -> bytes:
        """Return the next bytes."""
        return self.socket.recv(65_536)


@pytest.fixture(autouse=True)
def clients_closed() -> Iterator[None]:
    """Close what a test opened."""
    yield
    while Client.opened:
        Client.opened.pop().socket.close()


class Answer:
    """One HTTP answer."""

    def __init__(self, received: bytes) -> None:
        head, _, self.body = received.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}

    def is_refusal(self, status: int, code: str) -> bool:
        """Check the whole of a refusal."""
        problem = json.loads(self.body)
        assert (self.status, problem["status"], problem["code"]) == (status, status, code)
        assert self.headers["content-type"] == "application/problem+json"
        assert self.headers["x-request-id"] == problem["request_id"]
        assert (self.headers["cache-control"], self.headers["connection"]) == ("no-store", "close")
        assert self.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert (self.headers["x-content-type-options"], self.headers["x-frame-options"]) == ("nosniff", "DENY")
        assert self.headers["referrer-policy"] == "no-referrer"
        assert len(self.body) == int(self.headers["content-length"])
        return True


def fields(count: int) -> bytes:
    """Return ``count`` - 2 header fields; Host and Connection are two more."""
    return b"Connection: close\r\n" + b"".join(b"x-%d: 1\r\n" % number for number in range(count - 2))


# ---------------------------------------------------------------- size


@pytest.mark.parametrize(("count", "status"), [(100, 200), (101, 431)])
def test_the_101st_field_is_refused(start: StartServer, count: int, status: int) -> None:
    """A hundred fields pass, one more is 431 as soon as it is there."""
    answer = Client(start()).send(HEAD + fields(count) + b"\r\n").answer()
    assert answer.status == status
    assert status == 200 or answer.is_refusal(431, "headers_too_large")


@pytest.mark.parametrize(("extra", "status"), [(0, 200), (1, 431)])
def test_16_kib_of_fields_are_enough(start: StartServer, extra: int, status: int) -> None:
    """Exactly 16 KiB of fields pass, one byte more is 431."""
    others = b"Host: testserver\r\nConnection: close\r\n"
    value = b"v" * (16 * 1024 - len(others) - len(b"x-long: \r\n") + extra)
    answer = Client(start()).send(b"GET / HTTP/1.1\r\n" + others + b"x-long: " + value + b"\r\n\r\n").answer()
    assert answer.status == status
    assert status == 200 or answer.is_refusal(431, "headers_too_large")


@pytest.mark.parametrize(
    ("begun", "endless", "status", "code"),
    [
        (HEAD + b"x-long: ", b"v" * 8_192, 431, "headers_too_large"),
        (HEAD, b"n" * 8_192, 431, "headers_too_large"),
        (HEAD, b"x: y\r\n" * 50, 431, "headers_too_large"),
        (HEAD + b"x:", b" " * 8_192, 431, "headers_too_large"),
        (b"GET /", b"p" * 8_192, 414, "target_too_long"),
        (b"", b"\r\n" * 4_096, 431, "headers_too_large"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n" * 1_000, 431, "headers_too_large"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n1;", b"e" * 8_192, 431, "headers_too_large"),
    ],
    ids=["value", "name", "fields", "blanks", "target", "line breaks", "trailers", "chunk extension"],
)
def test_what_never_ends_is_refused(start: StartServer, begun: bytes, endless: bytes, status: int, code: str) -> None:
    """The answer comes while the client is still sending, and sending on for a while does not lose it."""
    answer = Client(start(http=BoundedHttpProtocol)).send(begun, *[endless] * 12).answer()
    assert answer.is_refusal(status, code)


@pytest.mark.parametrize(("length", "status"), [(8_192, 200), (8_193, 414), (20_000, 414), (70_000, 414)])
def test_targets_have_a_limit(start: StartServer, length: int, status: int) -> None:
    """A URL of 8 KiB passes, one byte more is 414."""
    target = b"/" + b"p" * (length - 1)
    answer = Client(start()).send(b"GET " + target + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").answer()
    assert answer.status == status
    assert status == 200 or answer.is_refusal(414, "target_too_long")


def test_trailers_do_not_become_header_fields(start: StartServer) -> None:
    """Fields after a chunked body are dropped (RFC 9110 §6.5.1), and the next request has only its own."""
    client = Client(start())
    first = client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nx-evil: 1\r\n\r\n").next()
    assert first.endswith(b"\r\n\r\nhost,transfer-encoding")
    assert client.send(HEAD + b"Connection: close\r\n\r\n").answer().body == b"host,connection"


# ---------------------------------------------------------------- time


def test_a_slow_head_that_is_finished_in_time_is_answered(start: StartServer) -> None:
    """A head may come in pieces."""
    client = Client(start()).send(HEAD[:3], HEAD[3:], b"Connection: close\r\n\r\n", every_s=HEAD_TIMEOUT_S / 5)
    assert client.answer().status == 200


def test_a_head_that_is_not_finished_in_time_is_408(start: StartServer) -> None:
    """The limit is for the whole head: a client that keeps sending does not extend it."""
    client = Client(start())
    begun = time.monotonic()
    client.send(b"G", *[b"E", b"T", b" ", b"/", b"a"] + [b"a"] * 10, every_s=HEAD_TIMEOUT_S / 10)
    assert client.answer().is_refusal(408, "request_timeout")
    assert HEAD_TIMEOUT_S * 0.9 < time.monotonic() - begun < HEAD_TIMEOUT_S + 2


@pytest.mark.parametrize("sent", [b"", b"\r\n"])
def test_a_silent_connection_is_closed_without_a_word(start: StartServer, sent: bytes) -> None:
    """Nothing was asked, so nothing is answered; an empty line is nothing (RFC 9112 §2.2)."""
    begun = time.monotonic()
    assert Client(start()).send(sent).rest() == b""
    assert HEAD_TIMEOUT_S * 0.9 < time.monotonic() - begun < HEAD_TIMEOUT_S + 2


def test_between_requests_keep_alive_decides(start: StartServer) -> None:
    """A connection that has been used waits longer than a head may take, and is then closed without a word."""
    client = Client(start(timeout_keep_alive=1))
    assert client.send(PING).next().startswith(b"HTTP/1.1 200")
    time.sleep(HEAD_TIMEOUT_S * 1.5)
    assert client.send(b"\r\n", PING, every_s=0.01).next().startswith(b"HTTP/1.1 200")
    begun = time.monotonic()
    assert client.rest() == b""
    assert 0.9 < time.monotonic() - begun < 3


def test_every_head_has_the_time_limit(start: StartServer) -> None:
    """The second request's head is timed from its own first byte."""
    client = Client(start())
    assert client.send(PING).next().startswith(b"HTTP/1.1 200")
    time.sleep(HEAD_TIMEOUT_S * 0.8)
    client.send(HEAD)
    time.sleep(HEAD_TIMEOUT_S * 0.8)
    assert client.send(b"\r\n").next().startswith(b"HTTP/1.1 200")
    assert client.send(HEAD).answer().is_refusal(408, "request_timeout")


def test_a_running_request_has_no_head_timeout(start: StartServer) -> None:
    """What takes the application long is not the client's slowness."""
    quickest = type("Quickest", (Quick,), {"head_timeout_s": SLOW_S / 3})
    client = Client(start(http=quickest)).send(PING.replace(b"/ping", b"/slow"))
    assert client.next().startswith(b"HTTP/1.1 200")


LARGE_HEAD = HEAD.replace(b"/ping", b"/large")


def is_cut_off(client: Client, *, within_s: float) -> bool:
    """Return whether the server ends a connection that nobody reads; 1 is ESTABLISHED."""
    deadline = time.monotonic() + within_s
    while client.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == b"\1" and time.monotonic() < deadline:
        time.sleep(0.02)
    return time.monotonic() < deadline


@pytest.mark.parametrize("last", [b"\r\n", b"Connection: close\r\n\r\n"])
def test_who_does_not_take_an_answer_is_cut_off(start: StartServer, last: bytes) -> None:
    """In the middle of the answer, whether or not it is the connection's last, and not before the time has passed."""
    client = Client(start()).send(LARGE_HEAD + last)
    assert not is_cut_off(client, within_s=WRITE_TIMEOUT_S * 0.8)
    assert is_cut_off(client, within_s=2)


def test_the_kernel_does_not_take_answers_for_those_who_do_not(start: StartServer) -> None:
    """A megabyte is stalled like eight, though the kernel would take all of it and have nobody know."""
    client = Client(start(timeout_keep_alive=30)).send(HEAD.replace(b"/ping", b"/megabyte") + b"\r\n")
    assert is_cut_off(client, within_s=2)


def test_an_answer_that_was_never_taken_is_forgotten_with_its_connection(start: StartServer) -> None:
    """One that the kernel holds as a whole: when keep-alive ends it is a reset, not an end that waits behind it."""
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.connect(("127.0.0.1", start(timeout_keep_alive=1)))
        silent.sendall(HEAD.replace(b"/ping", b"/kernels") + b"\r\n")
        time.sleep(2)
        assert silent.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != b"\1"


class Patient(Quick):
    """With time enough for a test on a busy machine."""

    write_timeout_s = 3.0


def test_an_answer_that_is_being_taken_outlives_keep_alive(start: StartServer) -> None:
    """A slow client gets all of what the kernel still held for it when its connection had been idle for long enough."""
    with socket.socket() as slow:
        slow.settimeout(5)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", start(http=Patient, timeout_keep_alive=0.3)))
        slow.sendall(HEAD.replace(b"/ping", b"/kernels") + b"\r\n")
        time.sleep(0.8)
        taken = 0
        while taken <= len(FILLED["/kernels"]):
            part = slow.recv(65_536)
            assert part, "closed before its end"
            taken += len(part)


class Unmoved(Quick):
    """As if every answer were too little to be called stalled."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as Uvicorn's
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=2 * len(LARGE))


def test_the_end_of_a_last_answer_has_a_time_limit_too(start: StartServer) -> None:
    """Nothing else would ever end a connection that is to be closed once the rest has been taken."""
    client = Client(start(http=Unmoved)).send(LARGE_HEAD + b"Connection: close\r\n\r\n")
    assert not is_cut_off(client, within_s=WRITE_TIMEOUT_S * 0.8)
    assert is_cut_off(client, within_s=2)


def test_who_takes_an_answer_slowly_gets_all_of_it(start: StartServer) -> None:
    """The time is for taking a part of it, not for the whole."""
    client = Client(start(http=type("Slow", (Quick,), {"head_timeout_s": 30.0}), timeout_keep_alive=30))
    begun, received = time.monotonic(), len(client.send(LARGE_HEAD + b"\r\n").next())
    while received < len(LARGE) and (part := client.next()):
        time.sleep(0.01)
        received += len(part)
    assert received > len(LARGE)
    assert time.monotonic() - begun > WRITE_TIMEOUT_S * 2


def test_few_are_waited_for_at_a_time(start: StartServer) -> None:
    """Of those who do not read, the first is cut off when they are more than there may be; others are answered."""
    port = start(http=type("Waiting", (Quick,), {"write_timeout_s": 30.0, "spare_connections": 10}))
    waiting = []
    for _ in range(4):
        waiting.append(Client(port).send(LARGE_HEAD + b"\r\n"))
        time.sleep(0.1)
    assert is_cut_off(waiting[0], within_s=2)
    assert not any(is_cut_off(one, within_s=0.05) for one in waiting[1:])
    assert Client(port).send(PING).next().startswith(b"HTTP/1.1 200")
    for one in waiting:
        one.socket.close()  # or the server would wait for them when it ends


class Silent(asyncio.Transport):
    """A transport whose client takes nothing, and which counts how often it was aborted."""

    def __init__(self, end: socket.socket) -> None:
        super().__init__({"socket": end})
        self.aborted = 0

    def get_write_buffer_size(self) -> int:
        return len(LARGE)

    def is_closing(self) -> bool:
        return bool(self.aborted)

    def abort(self) -> None:
        self.aborted += 1

    def close(self) -> None:
        """Uvicorn closes what it is told is lost."""


async def test_many_who_stall_at_once_are_as_few_as_one_after_the_other() -> None:
    """Within one turn of the loop, before any of those cut off is lost, each newcomer makes room by another one."""
    config = uvicorn.Config(application, lifespan="off", log_config=None)
    config.load()
    end, other = socket.socketpair()
    with end, other:
        transports = [Silent(end) for _ in range(8)]
        stalled = [Quick(config, ServerState(), {}) for _ in transports]
        for protocol, transport in zip(stalled, transports, strict=True):
            protocol.connection_made(transport)
            protocol.pause_writing()
        cut_off = [transport.aborted for transport in transports]
        for protocol in stalled:
            protocol.connection_lost(None)
    assert cut_off == [1] * 5 + [0] * Quick.most_stalled


# ---------------------------------------------------------------- malformed


@pytest.mark.parametrize(
    "request_",
    [
        b"GARBAGE\r\n\r\n",
        b"FOO / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /a\x00b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\n\n",
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        POST + b"Transfer-Encoding: gzip\r\n\r\nzz\r\n",
        b"GET / HTTP/11\r\nHost: a\r\n\r\n",
        b"GET / FTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
    ],
)
def test_what_is_not_http_is_400(start: StartServer, request_: bytes) -> None:
    """Every malformed request gets the problem document, and the connection ends."""
    assert Client(start()).send(request_).answer().is_refusal(400, "bad_request")


@pytest.mark.parametrize("version", [b"0.9", b"1.2", b"2.0", b"3.0", b"9.1"])
def test_other_versions_are_505(start: StartServer, version: bytes) -> None:
    """A request line's version is 1.0 or 1.1; with any other one the connection ends, also behind a good request."""
    port = start()
    bad = b"GET /ping HTTP/%s\r\nHost: 127.0.0.1\r\n\r\n" % version
    assert Client(port).send(bad).answer().is_refusal(505, "http_version_not_supported")
    received = Client(port).send(PING + bad + PING).rest()
    assert received.count(b"HTTP/1.1 200") == 1
    assert received.count(b"HTTP/1.1 ") <= 2


@pytest.mark.parametrize("request_", [b"GET /ping\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_no_version_and_http_2_are_505(start: StartServer, request_: bytes) -> None:
    """HTTP/0.9 has no version, and HTTP/2 begins with one of its own."""
    assert Client(start()).send(request_).answer().is_refusal(505, "http_version_not_supported")


@pytest.mark.parametrize(
    ("target", "host", "good"),
    [
        (b"http://example.com/ping", b"example.com", True),
        (b"HTTP://Example.com/ping?a=b://c", b"example.COM", True),
        (b"https://example.com:8443/ping", b"example.com:8443", True),
        (b"http://[::1]:80/ping", b"[::1]:80", True),
        (b"http://evil.example/ping", b"example.com", False),
        (b"http://example.com:81/ping", b"example.com", False),
        (b"http://example.com:80/ping", b"example.com", False),
        (b"http://user@example.com/ping", b"example.com", False),
        (b"http://example.com@evil.example/ping", b"example.com", False),
        (b"ftp://example.com/ping", b"example.com", False),
        (b"http://example.com/ping", b"example.com\r\nHost: example.com", False),
    ],
)
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_target_in_absolute_form_names_the_host(
    start: StartServer, target: bytes, host: bytes, good: bool, version: bytes
) -> None:
    """It is answered when its authority is the one of Host, and 400 when it is another one."""
    request = b"GET %s HTTP/%s\r\nHost: %s\r\nConnection: close\r\n\r\n" % (target, version, host)
    answer = Client(start()).send(request).answer()
    assert answer.status == 200 if good else answer.is_refusal(400, "bad_host")


def test_refusals_are_in_the_access_log(start: StartServer, capsys: pytest.CaptureFixture[str]) -> None:
    """With what is known of the request, without query string, and without a warning of Uvicorn's."""
    with override_settings(IRONAUTH_ACCESS_LOG=True):
        port = start()
        sent = b"GET /a?token=secret HTTP/1.1\r\nX-Request-ID: given-1\r\nHost: a\r\nBad : a\r\n\r\n"
        assert Client(port).send(sent).answer().headers["x-request-id"] == "given-1"
        Client(port).send(b"\x00").rest()
    logs.flush()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    lines = [line for line in lines if line["level"] != "info" or line["event"] == "request"]
    assert [(line["event"], line["method"], line["path"], line["status"], line["client"]) for line in lines] == [
        ("request", "GET", "/a", 400, "127.0.0.1"),
        ("request", "-", "-", 400, "127.0.0.1"),
    ]
    assert lines[0]["request_id"] == "given-1"


def test_a_refused_head_request_gets_no_body(start: StartServer) -> None:
    """HEAD never gets content (RFC 9110 §9.3.2)."""
    answer = Client(start()).send(b"HEAD / HTTP/1.1\r\nHost : a\r\n\r\n").answer()
    assert (answer.status, answer.body) == (400, b"")


def test_a_pipelined_request_is_answered_before_the_connection_ends(start: StartServer) -> None:
    """Garbage behind a running request does not answer in its place: that one is answered, and nothing after it."""
    received = Client(start()).send(PING.replace(b"/ping", b"/slow") + b"GARBAGE\r\n\r\n" + PING).rest()
    assert received.count(b"HTTP/1.1") == 1
    assert Answer(received).status == 200
    assert Answer(received).headers["connection"] == "close"


def test_pipelined_requests_are_answered_in_order(start: StartServer) -> None:
    """Two good requests in one packet get two answers, and the connection stays open for a third."""
    client = Client(start()).send(PING.replace(b"/ping", b"/slow") + POST + b"Content-Length: 1\r\n\r\nb")
    received = client.next()
    while received.count(b"HTTP/1.1 200") < 2:
        received += client.next()
    assert received.endswith(b"b")
    assert client.send(PING).next().startswith(b"HTTP/1.1 200")


def test_an_upgrade_is_declined_and_ends_the_connection(start: StartServer) -> None:
    """What follows a declined upgrade is never taken for a request."""
    upgrade = HEAD + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    client = Client(start())
    client.send(upgrade + PING, PING)
    received = client.rest()
    assert received.count(b"HTTP/1.1") == 1
    assert Answer(received).headers["connection"] == "close"


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n"


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"Content-Length: 5\r\n\r\n", b"hello"),
        (b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("divided", [False, True])
def test_a_body_that_offers_an_upgrade_is_read(start: StartServer, framing: bytes, body: bytes, divided: bool) -> None:
    """Java's client offers HTTP/2 with every request in the clear: the body counts, what follows it does not."""
    sent = POST + UPGRADE + framing + body + PING
    parts = [sent[at : at + 7] for at in range(0, len(sent), 7)] if divided else [sent]
    received = Client(start()).send(*parts).rest()
    assert received.count(b"HTTP/1.1") == 1
    assert (Answer(received).status, Answer(received).body) == (200, b"hello")
    assert Answer(received).headers["connection"] == "close"


def test_a_broken_body_that_offers_an_upgrade_is_refused(start: StartServer) -> None:
    """Chunks that are none end with 400, as without the offer."""
    sent = POST + UPGRADE + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"
    assert Client(start()).send(sent).answer().is_refusal(400, "bad_request")


def test_many_pipelined_requests_are_parsed_as_they_are_answered(
    start: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand requests in one packet a few wait parsed, the rest as bytes; all are answered, in order."""
    longest: list[int] = []
    original = Quick.on_headers_complete

    def watched(self: Quick) -> None:
        original(self)
        longest.append(len(self.pipeline))

    monkeypatch.setattr(Quick, "on_headers_complete", watched)
    bodies = [str(number).encode() for number in range(1_000)]
    sent = [POST + b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies]
    client = Client(start()).send(b"".join(sent), PING)
    received = b""
    while received.count(b"HTTP/1.1 200") < 1_001:
        received += client.next()
    heads = received.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert [head.partition(b"\r\n\r\n")[2] for head in heads[:-1]] == bodies
    assert max(longest) == http_cycle.MOST_WAITING
    assert client.send(PING).next().startswith(b"HTTP/1.1 200")


@pytest.mark.live
def test_a_pipelining_client_that_leaves_is_no_error(serve_process: ServeProcess, tmp_path: Path) -> None:
    """Answers nobody reads any more are not written, and the log has nothing to complain about."""
    port = int(serve_process().rsplit(":", 1)[1])
    with socket.socket() as leaving:
        leaving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        leaving.settimeout(1)
        leaving.connect(("127.0.0.1", port))
        with suppress(TimeoutError):
            leaving.sendall(PING.replace(b"testserver", b"localhost") * 100_000)
    time.sleep(0.5)
    assert Client(port).send(PING.replace(b"testserver", b"localhost")).next().startswith(b"HTTP/1.1 200")
    log = (tmp_path / f"serve-{port}.log").read_text()
    assert "unhandled_error" not in log
    assert "ASGI" not in log


# ---------------------------------------------------------------- too many


def test_too_many_running_requests_are_503(start: StartServer) -> None:
    """The request beyond the limit is told to come back, under its own id; it may as soon as one has ended."""
    port = start(limit_concurrency=1)
    running = Client(port).send(PING.replace(b"/ping", b"/slow"))
    time.sleep(SLOW_S / 3)
    refused = Client(port).send(HEAD + b"X-Request-ID: mine-1\r\n\r\n").answer()
    assert refused.is_refusal(503, "overloaded")
    assert (refused.headers["retry-after"], refused.headers["x-request-id"]) == ("1", "mine-1")
    assert running.next().startswith(b"HTTP/1.1 200")
    assert Client(port).send(PING).next().startswith(b"HTTP/1.1 200")


def test_silent_sockets_keep_nobody_out(start: StartServer) -> None:
    """Beyond the limit, the connection that has waited longest is closed, and the newcomer is answered."""
    port = start(limit_concurrency=1, http=type("Patient", (Quick,), {"head_timeout_s": 30.0}))
    silent = []
    for _ in range(6):
        silent.append(Client(port))
        time.sleep(0.1)  # accepted one by one: of two that arrive in one turn of the loop either may be the longest
    assert Client(port).send(PING).next().startswith(b"HTTP/1.1 200")
    assert [one.rest() for one in silent[:4]] == [b""] * 4
    for one in silent[4:]:
        time.sleep(0.2)  # one request may run at a time, and the last one ends a moment after its answer
        assert one.send(PING).next().startswith(b"HTTP/1.1 200")


def test_a_running_request_is_never_closed_for_a_newcomer(start: StartServer) -> None:
    """Room is made among those who wait; when all are busy, the newcomer goes."""
    port = start(limit_concurrency=1, http=type("Crowded", (Quick,), {"spare_connections": 0}))
    running = Client(port).send(PING.replace(b"/ping", b"/slow"))
    time.sleep(SLOW_S / 3)
    assert Client(port).rest() == b""
    assert running.next().startswith(b"HTTP/1.1 200")


# ---------------------------------------------------------------- bodies that nobody reads

TEN_MB = bytes(10_000_000)
API = b"POST /api/x HTTP/1.1\r\nHost: testserver\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n" % len(TEN_MB)
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"10000\r\n" + bytes(0x10000) + b"\r\n"
CHUNKS = CHUNK * 152 + b"0\r\n\r\n"


def sent_whole(port: int, *parts: bytes, between_s: float = 0.0) -> "Answer":
    """Return the answer to a client that sends everything before it reads; an error of the connection is raised."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        for part in parts:
            client.sendall(part)
            time.sleep(between_s)
        while part := client.recv(65_536):
            received += part
    return Answer(received)


@pytest.mark.parametrize("sent", [API + LENGTH + TEN_MB, API + CHUNKED + CHUNKS], ids=["declared", "chunked"])
def test_who_sends_all_of_a_large_body_reads_why_it_is_refused(start: StartServer, sent: bytes) -> None:
    """Ten megabytes sent before anything is read: 413 each of twenty times, and never a reset."""
    port = start(http=BoundedHttpProtocol)
    for _ in range(20):
        assert sent_whole(port, sent).is_refusal(413, "body_too_large")


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        (API + b"Content-Encoding: gzip\r\n" + LENGTH, 415, "unsupported_media_type"),
        (API.replace(b"POST", b"TRACE") + LENGTH, 405, "method_not_allowed"),
        (API + b"Host: b\r\n" + LENGTH, 400, "bad_host"),
        (API + b"Bad : a\r\n" + LENGTH, 400, "bad_request"),
        (API + fields(101) + LENGTH, 431, "headers_too_large"),
        (API.replace(b"/api", b"/" + b"p" * 10_000) + LENGTH, 414, "target_too_long"),
        (API + CHUNKED + b"zz\r\n", 400, "bad_request"),
        (API + UPGRADE + LENGTH, 413, "body_too_large"),
    ],
    ids=["coding", "method", "hosts", "field", "fields", "target", "chunk", "upgrade"],
)
def test_every_answer_before_the_bodys_end_arrives(start: StartServer, head: bytes, status: int, code: str) -> None:
    """Whatever the refusal, its client may send the whole body first."""
    port = start(http=BoundedHttpProtocol)
    for _ in range(3):
        assert sent_whole(port, head, TEN_MB, between_s=0.02).is_refusal(status, code)


def test_a_refused_head_request_may_have_a_large_body(start: StartServer) -> None:
    """Its answer, which has no content, arrives too."""
    answer = sent_whole(start(), API.replace(b"POST", b"HEAD") + LENGTH, TEN_MB)
    assert (answer.status, answer.body) == (413, b"")


def test_a_late_body_may_be_large(start: StartServer) -> None:
    """Who sends most of it after the 408 reads that."""
    client = Client(start(body_timeout_s=0.1)).send(API + CHUNKED)
    select.select([client.socket], [], [], 5)  # the answer is there
    client.socket.sendall(CHUNKS)
    assert client.answer().is_refusal(408, "request_timeout")


def test_a_body_without_room_may_be_large(start: StartServer) -> None:
    """The 503 to a request beyond the limit arrives."""
    port = start(limit_concurrency=1)
    Client(port).send(PING.replace(b"/ping", b"/slow"))
    time.sleep(SLOW_S / 3)
    assert sent_whole(port, API + LENGTH, TEN_MB).is_refusal(503, "overloaded")


def test_who_waits_for_the_end_does_not_wait_for_the_body(start: StartServer) -> None:
    """The server says at once that nothing follows its answer, to a client that sends nothing more."""
    patient = type("Forgetful", (Quick,), {"linger_s": 30.0})
    client = Client(start(http=patient))
    begun = time.monotonic()
    assert client.send(API + LENGTH).answer().is_refusal(413, "body_too_large")
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("framing", [b"Content-Length: 1099511627776\r\n\r\n", CHUNKED], ids=["declared", "chunked"])
@pytest.mark.parametrize(
    ("linger_s", "linger_bytes", "every_s"), [(0.3, 2**40, 0.01), (30.0, 2**20, 0.0)], ids=["time", "bytes"]
)
def test_who_sends_for_ever_is_cut_off(
    start: StartServer, framing: bytes, linger_s: float, linger_bytes: int, every_s: float
) -> None:
    """When the time is up or the bytes are, whichever is first, and not before."""
    bounds = {"linger_s": linger_s, "linger_bytes": linger_bytes}
    client = Client(start(http=type("Brief", (Quick,), bounds)))
    begun, sent = time.monotonic(), 0
    with suppress(ConnectionError):
        client.socket.sendall(API + framing)
        while time.monotonic() - begun < 5:
            client.socket.sendall(CHUNK)
            sent += len(CHUNK)
            time.sleep(every_s)
    seconds = time.monotonic() - begun
    assert min(linger_s, 0.3) <= seconds < 2 if every_s else sent > linger_bytes
    assert seconds < 5


@pytest.mark.parametrize(
    ("refused", "rest"),
    [(API + b"Content-Length: 70000\r\n\r\n", bytes(70_000)), (API + CHUNKED + CHUNK * 2, b"0\r\n\r\n")],
    ids=["declared", "chunked"],
)
def test_what_follows_a_refused_body_is_no_request(
    start: StartServer, monkeypatch: pytest.MonkeyPatch, refused: bytes, rest: bytes
) -> None:
    """It might be another client's words, put there by a proxy or an attacker: nothing reaches the application."""
    seen: list[str] = []
    answering = application

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["path"])
        await answering(scope, receive, send)

    monkeypatch.setitem(globals(), "application", noting)
    port = start()
    assert sent_whole(port, refused, rest, PING, PING, between_s=0.05).is_refusal(413, "body_too_large")
    assert Client(port).send(PING.replace(b"/ping", b"/end")).next().startswith(b"HTTP/1.1 200")
    assert seen == ["/end"]


def test_what_was_read_of_a_refused_body_is_forgotten(start: StartServer) -> None:
    """A quarter of a megabyte that came with the head is not kept for as long as the client may take."""
    kept: list[int] = []

    class Measured(Quick):
        linger_s = 0.2

        def connection_lost(self, exc: Exception | None) -> None:
            kept.append(len(self.cycle.body))
            super().connection_lost(exc)

    Client(start(http=Measured)).send(API + LENGTH + bytes(250_000)).rest()
    deadline = time.monotonic() + 5
    while not kept and time.monotonic() < deadline:
        time.sleep(0.01)
    assert kept == [0]


def test_a_broken_body_that_asked_to_go_on_is_answered_once(
    start: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody writes 100 Continue behind its refusal, which would be an error in the log."""
    sent = API + b"Expect: 100-continue\r\n" + CHUNKED + b"zz\r\n"
    port = start()
    assert Client(port).send(sent).answer().is_refusal(400, "bad_request")
    assert Client(port).send(PING).next().startswith(b"HTTP/1.1 200")  # the request before has ended
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_who_is_not_read_any_more_makes_room(start: StartServer) -> None:
    """Such a connection counts like any other, and goes first when they are too many."""
    bounds = {"linger_s": 30.0, "head_timeout_s": 30.0}
    port = start(limit_concurrency=1, http=type("Crowded", (Quick,), bounds), timeout_keep_alive=60)
    silent = [Client(port) for _ in range(2)]
    refused = Client(port).send(API + LENGTH)
    assert refused.answer().is_refusal(413, "body_too_large")
    time.sleep(0.1)
    assert Client(port).send(PING).next().startswith(b"HTTP/1.1 200")
    with pytest.raises(ConnectionError):
        refused.socket.sendall(TEN_MB)
    time.sleep(0.1)
    assert silent[0].send(PING).next().startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [(API + LENGTH, 413, "body_too_large"), (API + CHUNKED + b"zz\r\n", 400, "bad_request"),
     (API + b"Bad : a\r\n", 400, "bad_request")],
    ids=["large", "broken", "field"],
)  # fmt: skip
def test_a_server_that_ends_does_not_wait_for_them(sent: bytes, status: int, code: str) -> None:
    """The rest of a body that nobody reads keeps no server from ending."""
    with serving(http=type("Forgetful", (Quick,), {"linger_s": 30.0})) as port:
        assert Client(port).send(sent).answer().is_refusal(status, code)
        begun = time.monotonic()
    assert time.monotonic() - begun < 2


# ---------------------------------------------------------------- the product


def test_the_products_limits_are_the_stated_ones() -> None:
    """Ten seconds for a head, and what the guard lets pass always fits."""
    assert http_protocol.HEAD_TIMEOUT_S == 10
    assert http_protocol.HEAD_BYTES >= 8 * 1024 + 16 * 1024


def listener(port: int) -> int:
    """Return the pid of the process that listens on ``port``; this user's and on Linux."""
    inodes = {
        fields[9]
        for fields in (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port
    }
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if link.readlink().name.removeprefix("socket:[").rstrip("]") in inodes:
                return int(link.parts[2])
    raise AssertionError(f"nobody listens on {port}")


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.live
def test_an_endless_head_costs_no_memory(serve_process: ServeProcess) -> None:
    """100 MB of one value and a million fields are refused, and the server is no larger than 10 MB more."""
    base = httpx.URL(serve_process())
    server = listener(int(base.port or 0))
    httpx.get(base.join("/ping"))
    before = resident_mb(server)
    for endless in (b"v" * 1_000_000, b"x: y\r\n" * 10_000):
        client = Client(int(base.port or 0)).send(HEAD + b"x-long: ", *[endless] * 100)
        assert resident_mb(server) - before < 10
        assert b" 200 " not in client.rest()
    assert httpx.get(base.join("/ping")).text == "OK"


@pytest.mark.live
def test_a_refused_body_costs_no_memory(serve_process: ServeProcess) -> None:
    """Twenty clients that send 30 MB each make the server no larger than 10 MB more, and all read their 413."""
    port = int(serve_process().rsplit(":", 1)[1])
    server = listener(port)
    head = API.replace(b"testserver", b"localhost")
    sent_whole(port, head + LENGTH, TEN_MB)
    before = resident_mb(server)
    with ThreadPoolExecutor(4) as pool:
        many = list(pool.map(lambda _: sent_whole(port, head + CHUNKED, *[CHUNK] * 450), range(20)))
    assert resident_mb(server) - before < 10
    assert all(one.is_refusal(413, "body_too_large") for one in many)


@pytest.mark.live
def test_few_open_files_are_enough(migrated_file: Path, tmp_path: Path) -> None:
    """A server that may open 300 files has room for 44 requests, and 400 silent connections do not keep anybody out."""
    limit = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))"
    script = f"{limit}; os.execv(sys.argv[1], sys.argv[1:])"
    environment = {**os.environ, **settings_test.ENVIRONMENT, "DJANGO_SETTINGS_MODULE": "ironauth.settings"}
    environment["DATABASE_URL"] = f"sqlite:///{migrated_file}"
    command = [sys.executable, "-c", script, sys.executable, "manage.py", "serve", "--migrate", "--port", "0"]
    log = tmp_path / "few.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=settings.BASE_DIR, env=environment, stdout=file, stderr=file)
    try:
        while not (found := re.search(r"API +http://127\.0\.0\.1:(\d+)/", log.read_text())):
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        for _ in range(400):
            Client(int(found[1]))
        assert Client(int(found[1])).send(PING.replace(b"testserver", b"localhost")).next().startswith(b"HTTP/1.1 200")
    finally:
        process.terminate()
        assert process.wait(timeout=20) == 0
    assert "Too many open files" not in log.read_text()


@pytest.mark.live
def test_pipelining_without_reading_is_bounded(serve_process: ServeProcess) -> None:
    """A client that sends 400,000 requests in one stream and reads nothing makes the server stop reading, not grow.

    Nor do twenty that each send less than the sockets hold.
    """
    port = int(serve_process().rsplit(":", 1)[1])
    server = listener(port)
    before = resident_mb(server)
    with ExitStack() as stack:
        for _ in range(20):
            short = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=1))
            with suppress(TimeoutError):
                short.sendall(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20_000)
        time.sleep(1)
        assert resident_mb(server) - before < 60
    many = b"GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400_000  # 20 MB: more than the sockets hold
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setblocking(False)
        sent, until = 0, time.monotonic() + 3
        while sent < len(many) and time.monotonic() < until:
            try:
                sent += connection.send(many[sent : sent + 65_536])
            except BlockingIOError:
                time.sleep(0.02)
        assert sent < len(many)
        assert Client(port).send(PING).next().startswith(b"HTTP/1.1 200")
