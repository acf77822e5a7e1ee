"""Where addresses that strangers choose may lead, whatever a name server says and when."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from ironauth.infrastructure.outbound import public_addresses
from ironauth.infrastructure.outbound.public_addresses import (
    MOST_ADDRESSES,
    NotPublicError,
    connected,
    is_permitted,
    may_be_called,
)
from ironauth.infrastructure.outbound.request import Exchange, ExchangeFailedError

PUBLIC = ["8.8.8.8", "1.1.1.1", "168.63.129.17", "192.88.98.1", "2606:4700::1111", "64:ff9b::808:808"]
NOT_PUBLIC = [
    "127.0.0.1", "127.255.255.254", "0.0.0.1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1",
    "::ffff:8.8.8.8", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd12:3456::1", "ff02::1", "2001:db8::1",
    "2001::1", "2002:7f00:1::1", "2002:808:808::1", "2002:a00:1::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1", "100::1", "localhost", "", "127.1", "0x7f000001", "2130706433", "8.8.8.8%eth0",
    "2606:4700::1111%eth0", "192.88.99.1", "168.63.129.16", "2001:20::1", "3fff::1",
]  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses(text: str) -> None:
    """What is routed on the Internet may be called without any setting."""
    assert is_permitted(text, [])


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_addresses_that_are_not(text: str) -> None:
    """Loopback, private, link-local, shared, reserved, multicast, in every spelling and translation, may not."""
    assert not is_permitted(text, [])


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [
        ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
        ("10.1.0.0/16", "64:ff9b::a01:1", "64:ff9b::a02:1"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
        ("127.0.0.0/8", "::ffff:127.0.0.1", "::1"),
        ("fd00:1::/32", "fd00:1::9", "fd00:2::9"),
    ],
)
def test_networks_the_operator_names(network: str, inside: str, outside: str) -> None:
    """A setting opens its own network and nothing beside it."""
    assert is_permitted(inside, [network])
    assert not is_permitted(outside, [network])


def test_what_the_text_of_a_host_tells() -> None:
    """At registration a literal or this machine's own name is judged, and a name is let pass until it is called."""
    for host in ("10.0.0.1", "169.254.169.254", "::1", "localhost", "wiki.localhost"):
        assert not may_be_called(host, [])
    for host in ("8.8.8.8", "app.example.com"):
        assert may_be_called(host, [])
    for host in ("127.0.0.1", "localhost", "wiki.localhost"):
        assert may_be_called(host, ["127.0.0.0/8"])


class Names:
    """A name server that gives another answer each time."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, host: str, port: int, **_options: Any) -> list[Any]:
        self.asked += 1
        found = self.answers.pop(0) if self.answers else ["127.0.0.1"]
        family = {False: socket.AF_INET, True: socket.AF_INET6}
        return [(family[":" in one], socket.SOCK_STREAM, 6, "", (one, port)) for one in found]


@pytest.fixture
def inner() -> Iterator[tuple[int, list[str]]]:
    """A server on this machine: its port, and the paths it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port, asked
    server.shutdown()
    thread.join()
    server.server_close()


def call(port: int, networks: list[str]) -> bytes:
    """Call the host name at this port."""
    exchange = Exchange(f"http://app.example.com:{port}/x", limit_s=2, longest=100, networks=networks)
    return exchange.run("GET", headers={}, wanted={200})


@pytest.mark.parametrize("found", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:127.0.0.1"]])
def test_a_name_that_leads_inside(
    inner: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch, found: list[str]
) -> None:
    """A host of which one address is not public is not called at all."""
    port, asked = inner
    monkeypatch.setattr(socket, "getaddrinfo", Names(found))
    with pytest.raises(NotPublicError):
        call(port, [])
    assert asked == []


def test_a_name_that_changes(inner: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is asked once, and the address that was judged is the one that is called."""
    port, asked = inner
    names = Names(["127.0.0.1"], ["192.0.2.1"])
    monkeypatch.setattr(socket, "getaddrinfo", names)
    assert call(port, ["127.0.0.0/8"]) == b""
    assert (names.asked, asked) == (1, ["/x"])


def test_the_next_address_is_tried(inner: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that refuses is no reason to give up; without any that answers the last refusal is told."""
    port, asked = inner
    monkeypatch.setattr(socket, "getaddrinfo", Names(["127.0.0.2", "127.0.0.1"], ["127.0.0.2"], []))
    call(port, ["127.0.0.0/8"])
    assert asked == ["/x"]
    with pytest.raises(ConnectionRefusedError):
        call(port, ["127.0.0.0/8"])
    with pytest.raises(OSError, match="no address"):
        call(port, ["127.0.0.0/8"])


def test_a_server_without_tls_is_told_nothing(inner: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind an https address a server that speaks no TLS hears no request, and the connection to it is closed."""
    port, asked = inner
    lines: list[socket.socket] = []
    connect = public_addresses.connected

    def connected(*arguments: Any, **options: Any) -> socket.socket:
        lines.append(connect(*arguments, **options))
        return lines[-1]

    monkeypatch.setattr(socket, "getaddrinfo", Names(["127.0.0.1"]))
    monkeypatch.setattr(public_addresses, "connected", connected)
    address = f"https://app.example.com:{port}/x"
    with pytest.raises(ssl.SSLError):
        Exchange(address, limit_s=5, longest=100, networks=["127.0.0.0/8"]).run("GET", headers={}, wanted={200})
    assert [line.fileno() for line in lines] == [-1]
    assert asked == []


class Dead:
    """Addresses that all let ``seconds`` go by on a clock of the test's own, and never answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, number: int, seconds: float, name_s: float = 0.0) -> None:
        self.now = 100.0
        self.limits: list[float] = []
        self.then: Callable[[], None] = lambda: None
        found = Names([f"127.0.1.{at}" for at in range(1, number + 1)])
        dead = self

        def names(*given: Any, **options: Any) -> list[Any]:
            self.now += name_s
            return found(*given, **options)

        class Line(socket.socket):
            def connect(self, _: Any) -> None:
                dead.limits.append(self.gettimeout() or 0.0)
                dead.now += seconds
                dead.then()
                raise TimeoutError

        monkeypatch.setattr(socket, "getaddrinfo", names)
        monkeypatch.setattr(socket, "socket", Line)

    def clock(self) -> float:
        """Return what time it is."""
        return self.now


@pytest.mark.parametrize(
    ("number", "seconds", "name_s", "limits"),
    [
        (MOST_ADDRESSES, 0.5, 0.0, [5.0, 4.5, 4.0, 3.5]),
        (255, 0.5, 0.0, [5.0, 4.5, 4.0, 3.5]),
        (255, 3.0, 0.0, [5.0, 2.0]),
        (255, 5.0, 0.0, [5.0]),
        (255, 1.0, 4.0, [1.0]),
        (1, 1.0, 4.5, [0.5]),
        (1, 1.0, 5.0, []),
    ],
)
def test_one_limit_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch, number: int, seconds: float, name_s: float, limits: list[float]
) -> None:
    """The name and each address take of the same seconds, and after four addresses it is over."""
    dead = Dead(monkeypatch, number=number, seconds=seconds, name_s=name_s)
    with pytest.raises(TimeoutError):
        connected("app.example.com", 443, networks=["127.0.0.0/8"], limit_s=5.0, opened=lambda _: None, now=dead.clock)
    assert dead.limits == limits


def test_cut_while_it_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits any more: no other address is tried, and nothing stays open."""
    dead = Dead(monkeypatch, number=3, seconds=0)
    exchange = Exchange("http://app.example.com/x", limit_s=60, longest=100, networks=["127.0.0.0/8"])
    dead.then = exchange.cut
    with pytest.raises(ExchangeFailedError, match="too late"):
        exchange.run("GET", headers={}, wanted={200})
    assert len(dead.limits) == 1
    uncut = Exchange("http://app.example.com/x", limit_s=60, longest=100, networks=["127.0.0.0/8"])
    monkeypatch.setattr(socket, "getaddrinfo", Names(["127.0.1.1", "127.0.1.2", "127.0.1.3"]))
    dead.then = lambda: None
    with pytest.raises(TimeoutError):
        uncut.run("GET", headers={}, wanted={200})
    assert len(dead.limits) == 1 + 3


def test_cut_before_tls_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes the connection and says nothing is let go of when nobody waits any more."""
    monkeypatch.setattr(socket, "getaddrinfo", Names(["127.0.0.1"]))
    failures: list[BaseException] = []

    def run() -> None:
        try:
            exchange.run("GET", headers={}, wanted={200})
        except OSError as error:
            failures.append(error)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        exchange = Exchange(f"https://app.example.com:{port}/x", limit_s=600, longest=100, networks=["127.0.0.0/8"])
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        line, _ = silent.accept()
        with line:
            assert line.recv(1)  # the first byte of TLS
            exchange.cut()
            thread.join(60)
    assert not thread.is_alive()
    assert len(failures) == 1
