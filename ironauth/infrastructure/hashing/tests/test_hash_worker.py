"""A hash worker and one node's end of it: who may ask, what is answered, and what happens when either fails."""

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog
from argon2 import Parameters
from argon2.low_level import Type
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ironauth.config.hash_workers import WorkerAddress
from ironauth.infrastructure.hashing import argon2 as argon2_raw
from ironauth.infrastructure.hashing.remote import protocol
from ironauth.infrastructure.hashing.remote import server as hash_worker_server
from ironauth.infrastructure.hashing.remote import trust as hash_worker_trust
from ironauth.infrastructure.hashing.remote.client import HashWorkerClient, WorkerBusy, WorkerRefused
from ironauth.infrastructure.hashing.remote.protocol import Hash, Ping, Pong, ProtocolError, Refused, frame
from ironauth.infrastructure.hashing.tests.hash_worker import Impostor, LocalWorker, Occupied
from ironauth.infrastructure.threads import circuit_breaker as breaker
from ironauth.tests.private_ca import PrivateCa

CHEAP = Hash(b"m" * 32, b"s" * 16, 1, 64, 1, 32, 2, 19)


def by_hand(request: Hash) -> bytes:
    """Return what Argon2 makes of a request in this very thread."""
    params = Parameters(
        type=Type(request.variety), version=request.version, salt_len=len(request.salt), hash_len=request.hash_len,
        time_cost=request.time_cost, memory_cost=request.memory_kib, parallelism=request.parallelism,
    )  # fmt: skip
    return argon2_raw.by_parameters(request.mac, request.salt, params)


@pytest.fixture
def client() -> Iterator[Callable[..., HashWorkerClient]]:
    """A maker of clients whose connections are closed after the test."""
    made: list[HashWorkerClient] = []

    def make(worker: LocalWorker | Impostor, *, timeout_s: float = 2.0, **options: object) -> HashWorkerClient:
        given_options = {"tls": None, "limit": 8, **options}
        made.append(HashWorkerClient("hash_worker_1", worker.address, timeout_s=timeout_s, **given_options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[LocalWorker]:
    """A worker with one thread at a Unix socket."""
    with LocalWorker(tmp_path / "w.sock") as made:
        yield made


Make = Callable[..., HashWorkerClient]


# ---------------------------------------------------------------- hashes
@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HashWorkerClient]:
    """One client of one worker, for many examples."""
    with LocalWorker(tmp_path_factory.mktemp("worker") / "w.sock") as made:
        asking = HashWorkerClient("hash_worker_1", made.address, tls=None, limit=8, timeout_s=10)
        yield asking
        asking.close()


@hypothesis_settings(
    max_examples=50,
    deadline=None,
)
@given(
    asked=st.builds(
        Hash,
        st.binary(min_size=32, max_size=32),
        st.binary(min_size=8, max_size=64),
        st.integers(1, 3),
        st.integers(32, 128),
        st.integers(1, 4),
        st.integers(16, 64),
        st.sampled_from([0, 1, 2]),
        st.sampled_from([16, 19]),
    )
)
def test_a_worker_returns_what_we_would_have_computed(shared: HashWorkerClient, asked: Hash) -> None:
    """Whatever the salt, costs, variety and version, the raw hash is the one made here."""
    assert shared.hash(asked) == by_hand(asked)


def test_connections_are_kept(worker: LocalWorker, client: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another use one connection; two at once have one each."""
    asking = client(worker)
    connected: list[socket.socket] = []
    connect = asking._connect

    def noted(limit_s: float) -> socket.socket:
        connected.append(connect(limit_s))
        return connected[-1]

    monkeypatch.setattr(asking, "_connect", noted)
    for _ in range(3):
        assert asking.hash(CHEAP) == by_hand(CHEAP)
    assert len(connected) == 1
    threads = [threading.Thread(target=asking.hash, args=(CHEAP,)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert 1 <= len(connected) <= 4
    assert asking.stats().answered == 7


def test_the_load_is_told_with_each_answer(tmp_path: Path, client: Make) -> None:
    """Before the first answer a worker counts as one thread; then its threads, and the hashes of other nodes, count."""
    with LocalWorker(tmp_path / "w.sock", threads=2) as worker:
        asking, release = client(worker), threading.Event()
        assert asking.expected_wait_s() == 0
        with LocalWorker(tmp_path / "idle.sock") as idle:
            met = client(idle)
            met.ping()
            assert met.expected_wait_s() == 0, "a sign of life is no hash"
        with asking.counted():
            assert asking.expected_wait_s() > 0, "one thread, and one hash under way"
            asking.hash(CHEAP)
            assert asking.expected_wait_s() == 0, "two threads, and one hash under way"
        others = [threading.Thread(target=worker.pool.run_blocking, args=(release.wait,)) for _ in range(2)]
        for each in others:
            each.start()
        while worker.pool.stats().running < 2:
            time.sleep(0.005)
        asking._ask(Ping(), 1)
        assert asking.expected_wait_s() > 0, "both threads work for others"
        release.set()
        for each in others:
            each.join()
        asking._others_until = time.monotonic()
        assert asking.expected_wait_s() == 0, "what was told a while ago counts no more"


# ---------------------------------------------------------------- refusals
def test_what_argon2_refuses_is_no_outage(worker: LocalWorker, client: Make) -> None:
    """Less than 8 KiB a lane (RFC 9106 §3.1): the request is refused, the connection and the worker stay."""
    asking = client(worker)
    with pytest.raises(WorkerRefused):
        asking.hash(Hash(b"m" * 32, b"s" * 16, 1, 127, 16, 32, 2, 19))
    assert not asking.breaker.is_open
    assert asking.hash(Hash(b"m" * 32, b"s" * 16, 1, 128, 16, 32, 2, 19))
    assert asking.stats().failures == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        (513).to_bytes(4) + b"x" * 513,
        (0).to_bytes(4),
        (4).to_bytes(4) + b"\xc1\xc1\xc1\xc1",
        frame(Hash(b"m" * 32, b"s" * 16, 21, 64, 1, 32, 2, 19)),
        frame(Hash(b"a long password that somebody typed", b"s" * 16, 1, 64, 1, 32, 2, 19)),
        frame(Refused()),
    ],
    ids=["other protocol", "oversized", "empty", "garbage", "costs", "no mac", "an answer"],
)
def test_what_is_no_request_ends_the_connection(worker: LocalWorker, client: Make, sent: bytes) -> None:
    """The worker answers with the reason, hangs up, and computes nothing; the next connection is served."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(worker.address.path)
        connection.sendall(sent)
        assert connection.recv(1024) == frame(Refused())
        with suppress(ConnectionResetError):  # what was sent may not have been read to its end
            assert connection.recv(1) == b""
    assert worker.pool.stats().completed == 0
    assert client(worker).hash(CHEAP) == by_hand(CHEAP)


def test_a_message_must_end(worker: LocalWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has begun has seconds; a connection where nothing has begun may rest."""
    monkeypatch.setattr(hash_worker_server, "BODY_S", 0.05)
    with socket.socket(socket.AF_UNIX) as begun, socket.socket(socket.AF_UNIX) as resting:
        for each in (begun, resting):
            each.settimeout(5)
            each.connect(worker.address.path)
        begun.sendall(frame(CHEAP)[:-1])
        assert begun.recv(1024) == frame(Refused())
        time.sleep(0.05)
        resting.sendall(frame(CHEAP))
        assert isinstance(protocol.answer(resting.recv(1024)[4:]), protocol.Hashed)


def test_a_full_worker_says_so_at_once(tmp_path: Path, client: Make) -> None:
    """What would wait too long is refused, which is no outage, and taken again when there is room."""
    with LocalWorker(tmp_path / "w.sock", max_wait_s=1.5) as worker:
        asking = client(worker)
        with Occupied(worker.pool):
            worker.pool._mean_s = 10
            began = time.monotonic()
            with pytest.raises(WorkerBusy):
                asking.hash(CHEAP)
            assert time.monotonic() - began < 1
            assert not asking.breaker.is_open
        worker.pool._mean_s = 0.001
        assert asking.hash(CHEAP) == by_hand(CHEAP)
        assert (asking.stats().busy, asking.stats().answered, asking.stats().failures) == (1, 1, 0)


def test_a_hash_nobody_waits_for_is_not_run(worker: LocalWorker, client: Make) -> None:
    """A node that gave up while its hash was queued costs the worker nothing."""
    asking = client(worker, timeout_s=0.1)
    with Occupied(worker.pool):
        with pytest.raises(TimeoutError):
            asking.hash(CHEAP)
        deadline = time.monotonic() + 5
        while worker.pool.stats().queued and time.monotonic() < deadline:
            time.sleep(0.005)
    assert worker.pool.stats().queued == 0
    assert worker.pool.stats().completed == 1, "only what kept the thread busy"


def test_connections_are_bounded(worker: LocalWorker, client: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one allowed is served, the next is closed; when one has ended there is room again."""
    monkeypatch.setattr(hash_worker_server, "MAX_CONNECTIONS", 1)
    first, second = client(worker), client(worker)
    first.hash(CHEAP)
    with pytest.raises(OSError, match=r"hung up|reset|Broken pipe"):
        second.hash(CHEAP)
    first.close()
    deadline = time.monotonic() + 5
    while worker._server._conversations and time.monotonic() < deadline:
        time.sleep(0.005)
    assert second.hash(CHEAP) == by_hand(CHEAP)


# ---------------------------------------------------------------- outages
@pytest.mark.parametrize(
    "says",
    [b"", b"SSH-2.0-OpenSSH\r\n", frame(Ping()), frame(Pong(protocol.Load(1, 0, 0.1))),
     frame(protocol.Hashed(b"r" * 31, protocol.Load(1, 0, 0.1)))],
    ids=["hangs up", "other protocol", "a request", "another answer", "another length"],
)  # fmt: skip
def test_what_is_no_answer_is_an_outage(tmp_path: Path, client: Make, says: bytes) -> None:
    """Anybody who does not answer as a worker does is left alone from then on."""
    with Impostor(tmp_path / "w.sock", says) as other:
        asking = client(other)
        with pytest.raises((OSError, ProtocolError)):
            asking.hash(CHEAP)
        assert asking.breaker.is_open
        assert not asking.breaker.allows()


def test_the_breaker_opens_and_closes(tmp_path: Path, client: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens: one failure. After the pause somebody does: hashes are answered again, and the log tells both."""
    monkeypatch.setattr(breaker, "PAUSE_S", 0.0)
    worker = LocalWorker(tmp_path / "w.sock")
    worker.address = WorkerAddress(path=str(tmp_path / "w.sock"))
    asking = client(worker)
    with structlog.testing.capture_logs() as lines:
        with pytest.raises(FileNotFoundError):
            asking.hash(CHEAP)
        assert not asking.stats().available
        with worker:
            assert asking.hash(CHEAP) == by_hand(CHEAP)
            assert asking.stats().available
    assert [line["event"] for line in lines] == ["hash_worker_1_lost", "hash_worker_1_recovered"]


def test_a_frozen_worker_costs_the_second_caller_little(tmp_path: Path, client: Make) -> None:
    """The first waits for the time limit; during the outage a sign of life is asked for first, which takes less."""
    with Impostor(tmp_path / "w.sock", None) as frozen:
        asking = client(frozen, timeout_s=1.5)
        took = []
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(TimeoutError):
                asking.hash(CHEAP)
            took.append(time.monotonic() - began)
        assert 1.5 <= took[0] < 4
        assert 0.5 <= took[1] < 1.5
        assert frozen.heard == [frame(CHEAP), frame(Ping())]


def test_a_worker_that_was_started_again_is_used_at_once(tmp_path: Path, client: Make) -> None:
    """A kept connection that has ended is replaced, without a failure."""
    with LocalWorker(tmp_path / "w.sock") as first:
        asking = client(first)
        asking.hash(CHEAP)
    with LocalWorker(tmp_path / "w.sock"):
        assert asking.hash(CHEAP) == by_hand(CHEAP)
    assert asking.stats().failures == 0


def test_it_drains(worker: LocalWorker, client: Make) -> None:
    """Told to stop, a worker answers what runs, lets nobody in, and ends although connections are kept."""
    asking, idle = client(worker), client(worker)
    for each in (asking, idle):
        each._ask(Ping(), 1)
    answers: list[bytes] = []
    waiting = threading.Thread(target=lambda: answers.append(asking.hash(CHEAP)))
    stopping = threading.Thread(target=worker.stop)
    with Occupied(worker.pool):
        waiting.start()
        while not worker.pool.stats().queued:
            time.sleep(0.005)
        stopping.start()
        time.sleep(0.05)
        with pytest.raises(OSError, match=r"refused|reset|hung up"):
            client(worker)._ask(Ping(), 0.5)
        assert stopping.is_alive()
    for thread in (waiting, stopping):
        thread.join(5)
        assert not thread.is_alive()
    assert answers == [by_hand(CHEAP)]


# ---------------------------------------------------------------- who may ask, and who may answer
def test_another_user_may_not_ask(tmp_path: Path, client: Make) -> None:
    """The kernel says who is at the other end of a Unix socket: our own user is served, another is not."""
    with LocalWorker(tmp_path / "w.sock", uid=os.geteuid() + 1) as worker, structlog.testing.capture_logs() as lines:
        with pytest.raises(OSError, match=r"hung up|reset|Broken pipe"):
            client(worker).hash(CHEAP)
        assert worker.pool.stats().completed == 0
    assert {"event": "hash_worker_peer_refused", "reason": "user", "log_level": "warning"} in lines


def test_another_user_may_not_answer(worker: LocalWorker, client: Make) -> None:
    """Nothing is sent to a socket that somebody else serves."""
    with pytest.raises(PermissionError):
        client(worker, uid=os.geteuid() + 1).hash(CHEAP)
    assert worker.pool.stats().completed == 0
    assert client(worker).hash(CHEAP) == by_hand(CHEAP)


@pytest.fixture(scope="module")
def cas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PrivateCa]:
    """Our authority, and somebody else's."""
    folder = tmp_path_factory.mktemp("tls")
    return {name: PrivateCa(folder, name) for name in ("ours", "theirs")}


@pytest.mark.parametrize(
    ("node", "server", "host", "served"),
    [
        ("ours", "ours", "127.0.0.1", True),
        ("theirs", "ours", "127.0.0.1", False),
        (None, "ours", "127.0.0.1", False),
        ("ours", "theirs", "127.0.0.1", False),
        ("ours", "ours", "127.0.0.2", False),
    ],
    ids=["both ours", "a stranger asks", "nobody asks", "a stranger answers", "another host answers"],
)
def test_both_ends_show_a_certificate_of_our_ca(
    cas: dict[str, PrivateCa], client: Make, node: str | None, server: str, host: str, served: bool
) -> None:
    """TLS is refused by anybody who is shown none, another authority's, or one for another host."""
    ours, signed = cas["ours"].file, cas[server].sign(f"server-{host}", host)
    listening = hash_worker_trust.context(server=True, cert=signed.cert, key=signed.key, ca=ours)
    if node is None:
        asking = ssl.create_default_context(cafile=str(ours))
    else:
        shown = cas[node].sign("node")
        asking = hash_worker_trust.context(server=False, cert=shown.cert, key=shown.key, ca=ours)
    with LocalWorker(tls=listening) as worker:
        made = client(worker, tls=asking)
        if served:
            assert [made.hash(CHEAP) for _ in range(2)] == [by_hand(CHEAP)] * 2
        else:
            with pytest.raises(OSError, match=r"CERTIFICATE|certificate|hung up|reset|UNKNOWN_CA"):
                made.hash(CHEAP)
            assert worker.pool.stats().completed == 0
            assert made.breaker.is_open


def test_plain_tcp_and_old_tls_are_refused(cas: dict[str, PrivateCa]) -> None:
    """Only TLS 1.3 is spoken."""
    signed = cas["ours"].sign("server")
    listening = hash_worker_trust.context(server=True, cert=signed.cert, key=signed.key, ca=cas["ours"].file)
    old = ssl.create_default_context(cafile=str(cas["ours"].file))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    old.load_cert_chain(*cas["ours"].sign("node"))
    with LocalWorker(tls=listening) as worker:
        with socket.create_connection(worker.address[1:], 2) as plain:
            plain.sendall(frame(CHEAP))
            assert not plain.recv(1024).startswith(bytes(protocol.HEADER_BYTES - 1)), "no frame, but an alert of TLS"
        with socket.create_connection(worker.address[1:], 2) as plain, pytest.raises(ssl.SSLError):
            old.wrap_socket(plain, server_hostname="127.0.0.1")
        assert worker.pool.stats().completed == 0


def test_a_port_without_tls_serves_nobody(tmp_path: Path) -> None:
    """Anybody who starts the server by hand on plain TCP gets no answers from it."""
    with LocalWorker() as worker, socket.create_connection(worker.address[1:], 2) as plain:
        plain.sendall(frame(CHEAP))
        with suppress(ConnectionResetError):
            assert plain.recv(1024) == b""
        assert worker.pool.stats().completed == 0


def test_unusable_files_are_named_with_a_remedy(cas: dict[str, PrivateCa], tmp_path: Path) -> None:
    """A key of another certificate, or no certificate at all, stops the start."""
    one, other, ca = cas["ours"].sign("one"), cas["ours"].sign("other"), cas["ours"].file
    nothing = tmp_path / "nothing"
    nothing.write_text("nothing")
    for cert, key, authority in ((one.cert, other.key, ca), (nothing, one.key, ca), (one.cert, one.key, nothing)):
        with pytest.raises(ImproperlyConfigured, match="name a PEM certificate"):
            hash_worker_trust.context(server=True, cert=cert, key=key, ca=authority)
    assert hash_worker_trust.context(server=True, cert=one.cert, key=one.key, ca=ca)
