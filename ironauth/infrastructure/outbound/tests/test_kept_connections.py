"""Connections that are used again: for the same place only, not past their bounds, and made anew once where closed."""

import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, RemoteDisconnected
from typing import Any

import pytest

from ironauth.infrastructure.outbound.kept_connections import KeptConnections, Line, Place
from ironauth.infrastructure.outbound.public_addresses import NotPublicError
from ironauth.infrastructure.outbound.request import Exchange, ExchangeFailedError

LOCAL = ["127.0.0.0/8"]
MOST, IDLE_S, LIFE_S = 3, 15.0, 60.0
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Clock:
    """Monotonic seconds, which a test moves on."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


class Peer:
    """A server that answers each request on a connection with the next of ``answers``, and ends it after the last.

    ``asked``: for each request, the number of its connection.
    """

    def __init__(self) -> None:
        self.answers: list[list[bytes]] = []
        self.asked: list[int] = []
        self.ended = threading.Semaphore(0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        number = 0
        while True:
            line, _ = self._listener.accept()
            if not self.answers:  # `close` has called
                line.close()
                return
            number += 1
            with line:
                for answer in self.answers.pop(0):
                    if not self._is_asked(line, number):
                        break
                    line.sendall(answer)
            self.ended.release()

    def _is_asked(self, line: socket.socket, number: int) -> bool:
        seen = b""
        while b"\r\n\r\n" not in seen:
            more = line.recv(4_096)
            if not more:
                return False
            seen += more
        self.asked.append(number)
        return True

    def close(self) -> None:
        """End the server."""
        self.answers.clear()
        socket.create_connection(("127.0.0.1", self.port)).close()
        self._thread.join()
        self._listener.close()


@pytest.fixture
def clock() -> Clock:
    """A clock of the test's own."""
    return Clock()


@pytest.fixture
def kept(clock: Clock) -> Iterator[KeptConnections]:
    """Room for a few connections."""
    kept = KeptConnections(most=MOST, idle_s=IDLE_S, life_s=LIFE_S, now=clock)
    yield kept
    kept.clear()


@pytest.fixture
def peer(kept: KeptConnections) -> Iterator[Peer]:
    """A server; our side of its connections is closed before it ends."""
    peer = Peer()
    yield peer
    kept.clear()
    peer.close()


def ask(peer: Peer, kept: KeptConnections | None, host: str = "127.0.0.1", networks: Any = LOCAL) -> bytes:
    """Ask the server once."""
    exchange = Exchange(f"http://{host}:{peer.port}/x", limit_s=20, longest=100, networks=networks, kept=kept)
    return exchange.run("POST", headers={}, wanted={200}, body=b"")


def test_a_connection_is_used_again(peer: Peer, kept: KeptConnections) -> None:
    """Two requests to the same place take one connection; without room for any, each takes its own."""
    peer.answers = [[OK, OK], [OK], [OK]]
    assert ask(peer, kept) == ask(peer, kept) == b"ok"
    assert ask(peer, None) == ask(peer, None) == b"ok"
    assert peer.asked == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("steps", "used"),
    [
        ([IDLE_S - 1], [1, 1]),
        ([IDLE_S], [1, 2]),
        ([IDLE_S - 1] * 4, [1, 1, 1, 1, 1]),
        ([IDLE_S - 1, IDLE_S - 1, IDLE_S - 1, IDLE_S - 1, 4.0], [1, 1, 1, 1, 1, 2]),
    ],
)
def test_no_longer_than_its_bounds(
    peer: Peer, kept: KeptConnections, clock: Clock, steps: list[float], used: list[int]
) -> None:
    """It is used again before it was idle for so long, and before it is so old; after either a new one is made."""
    peer.answers = [[OK] * 5 + [OK], [OK, OK]]
    ask(peer, kept)
    for seconds in steps:
        clock.seconds += seconds
        ask(peer, kept)
    assert peer.asked == used


def test_it_is_closed_without_another_request(peer: Peer, kept: KeptConnections, clock: Clock) -> None:
    """Once it has waited for too long, looking closes it, and not before."""
    peer.answers = [[OK, OK]]
    ask(peer, kept)
    clock.seconds += IDLE_S - 1
    kept.prune()
    assert not peer.ended.acquire(blocking=False)
    clock.seconds += 1
    kept.prune()
    assert peer.ended.acquire(timeout=20)


def test_the_other_side_has_closed_it(peer: Peer, kept: KeptConnections) -> None:
    """One that was closed while it waited is seen to be, and another one made."""
    peer.answers = [[OK], [OK]]
    ask(peer, kept)
    assert peer.ended.acquire(timeout=20)
    assert ask(peer, kept) == b"ok"
    assert peer.asked == [1, 2]


def test_it_is_closed_at_the_request(peer: Peer, kept: KeptConnections) -> None:
    """One that is closed when the request comes is made anew once, and the second failure is the answer."""
    peer.answers = [[OK, b""], [OK, b""], [b""], [OK]]
    assert ask(peer, kept) == ask(peer, kept) == b"ok"
    assert peer.asked == [1, 1, 2]
    with pytest.raises(RemoteDisconnected):
        ask(peer, kept)
    assert peer.asked == [1, 1, 2, 2, 3]


def test_a_new_connection_is_not_made_anew(peer: Peer, kept: KeptConnections) -> None:
    """Who closes the first connection is not asked again."""
    peer.answers = [[b""], [OK]]
    with pytest.raises(RemoteDisconnected):
        ask(peer, kept)
    assert peer.asked == [1]


def test_an_answer_that_has_begun_is_not_asked_for_again(peer: Peer, kept: KeptConnections) -> None:
    """A kept connection that breaks off in the answer fails."""
    peer.answers = [[OK, OK[:-1]], [OK]]
    ask(peer, kept)
    with pytest.raises(ExchangeFailedError, match="broke off"):
        ask(peer, kept)
    assert peer.asked == [1, 1]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
    ids=["asks to close", "old protocol"],
)
def test_what_is_not_used_again(peer: Peer, kept: KeptConnections, answer: bytes) -> None:
    """A connection that the answer ends."""
    peer.answers = [[answer, OK], [OK]]
    assert ask(peer, kept) == ask(peer, kept) == b"ok"
    assert peer.asked == [1, 2]


@pytest.mark.parametrize(
    "answer", [OK.replace(b"200", b"500"), OK.replace(b"2\r\n\r\nok", b"101\r\n\r\n" + b"x" * 101)]
)
def test_what_failed_is_not_used_again(peer: Peer, kept: KeptConnections, answer: bytes) -> None:
    """Another status, or too long an answer, ends the connection."""
    peer.answers = [[answer, OK], [OK]]
    with pytest.raises(ExchangeFailedError):
        ask(peer, kept)
    assert ask(peer, kept) == b"ok"
    assert peer.asked == [1, 2]


def test_an_exchange_that_was_cut_leaves_nothing(peer: Peer, kept: KeptConnections) -> None:
    """Who no longer waits has no connection kept, and none made anew."""
    peer.answers = [[OK, OK]]
    ask(peer, kept)
    late = Exchange(f"http://127.0.0.1:{peer.port}/x", limit_s=20, longest=100, networks=LOCAL, kept=kept)
    late.cut()
    with pytest.raises(ExchangeFailedError, match="too late"):
        late.run("POST", headers={}, wanted={200}, body=b"")
    assert peer.ended.acquire(timeout=20)
    assert peer.asked == [1]


def test_never_for_another_host(peer: Peer, kept: KeptConnections, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another name of the same address takes a connection of its own; each name goes on with its own."""
    known = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", peer.port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: known)
    places = [Line(place, HTTPConnection("127.0.0.1"), 1_000.0) for place in _others(peer.port)]
    for line in places:
        kept.give(line)
    assert kept.take(("http", "127.0.0.1", peer.port, tuple(LOCAL))) is None
    kept.clear()
    peer.answers = [[OK], [OK]]
    ask(peer, kept, "one.example.com")
    ask(peer, kept, "two.example.com")
    assert peer.asked == [1, 2]


def _others(port: int) -> list[Place]:
    """Return places that differ from the server's in one part each."""
    return [
        ("https", "127.0.0.1", port, tuple(LOCAL)),
        ("http", "127.0.0.2", port, tuple(LOCAL)),
        ("http", "127.0.0.1", port + 1, tuple(LOCAL)),
    ]


def test_never_past_the_judgement_of_addresses(peer: Peer, kept: KeptConnections) -> None:
    """A connection that some networks allowed is none for who allows others."""
    peer.answers = [[OK, OK]]
    ask(peer, kept)
    with pytest.raises(NotPublicError):
        ask(peer, kept, networks=[])
    assert ask(peer, kept) == b"ok"
    assert peer.asked == [1, 1]


@pytest.mark.parametrize(("said", "is_used"), [(b"", True), (b"HTTP/1.1 200 OK", False)])
def test_nothing_may_have_been_said_meanwhile(kept: KeptConnections, said: bytes, is_used: bool) -> None:
    """What nobody has asked for would be taken for the next answer: the connection is closed."""
    place: Place = ("http", "127.0.0.1", None, None)
    connection = HTTPConnection("127.0.0.1")
    connection.sock, theirs = socket.socketpair()
    with theirs:
        kept.give(Line(place, connection, 1_000.0))
        theirs.sendall(said)
        assert (kept.take(place) is not None) is is_used
        assert (connection.sock is not None) is is_used
        connection.close()


def test_few_are_kept(kept: KeptConnections) -> None:
    """With one more than there is room for, the one that has waited for longest is closed."""
    pairs = [socket.socketpair() for _ in range(MOST + 1)]
    for number, (ours, _) in enumerate(pairs):
        connection = HTTPConnection("127.0.0.1")
        connection.sock = ours
        kept.give(Line(("http", "127.0.0.1", number, None), connection, 1_000.0))
    assert [ours.fileno() == -1 for ours, _ in pairs] == [True] + [False] * MOST
    kept.clear()
    assert all(ours.fileno() == -1 for ours, _ in pairs)
    for _, theirs in pairs:
        theirs.close()
