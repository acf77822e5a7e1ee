"""One hash worker as a node sees it: kept connections, the load it last reported, and a breaker."""

import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ironauth.config.hash_workers import WorkerAddress
from ironauth.infrastructure.hashing.local_pool import FIRST_GUESS_S, SAFETY_FACTOR, HashWorkerStats
from ironauth.infrastructure.hashing.remote import protocol as hash_worker_protocol
from ironauth.infrastructure.hashing.remote import trust as hash_worker_trust
from ironauth.infrastructure.hashing.remote.protocol import (
    HEADER_BYTES,
    Answer,
    Busy,
    Hash,
    Hashed,
    Load,
    Ping,
    Pong,
    ProtocolError,
    Refused,
    Request,
    body_length,
    frame,
)
from ironauth.infrastructure.telemetry import metrics
from ironauth.infrastructure.telemetry.logs import get_logger
from ironauth.infrastructure.threads.circuit_breaker import Breaker

#: Longest that connecting may take, TLS included, and that a worker which failed may take for a ping; seconds.
PING_TIMEOUT_S: Final = 0.5
#: How long what a worker told of other nodes' hashes counts; seconds. A queue of a few hashes lasts about as long.
LOAD_KEPT_S: Final = 1.0


class WorkerBusy(Exception):
    """The worker refused for its load."""


class WorkerRefused(Exception):
    """The worker takes the request for none."""


class HashWorkerClient:
    """Thread-safe. ``limit`` hashes are under way at once; an answer is waited for ``timeout_s`` seconds."""

    def __init__(
        self,
        name: str,
        address: WorkerAddress,
        *,
        tls: ssl.SSLContext | None,
        limit: int,
        timeout_s: float,
        uid: int | None = None,
    ) -> None:
        """Prepare a client; the first request connects.

        Args:
            name: what logs and metrics call the worker.
            address: a Unix socket, or host and port.
            tls: for host and port.
            limit: hashes under way at once.
            timeout_s: seconds until an answer.
            uid: the user that must serve a Unix socket; our own when it is left out.
        """
        self.name = name
        self.breaker = Breaker(name)
        self.under_way = 0
        self._address = address
        self._tls = tls
        self._limit = limit
        self._timeout_s = timeout_s
        self._uid = os.geteuid() if uid is None else uid
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._load = Load(threads=1, ahead=0, mean_s=FIRST_GUESS_S)
        self._others, self._others_until = 0, 0.0
        self._answered = self._busy = 0

    @property
    def has_room(self) -> bool:
        """Return whether one more hash may be under way."""
        return self.under_way < self._limit

    def expected_wait_s(self) -> float:
        """Return how long a hash sent now may wait there for a thread, as ``HashPool.expected_wait_s``; seconds."""
        others = self._others if time.monotonic() < self._others_until else 0
        ahead = self.under_way + others - self._load.threads + 1
        return max(ahead, 0) * self._load.mean_s * SAFETY_FACTOR / self._load.threads

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count one hash as under way."""
        with self._lock:
            self.under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self.under_way -= 1

    def hash(self, request: Hash) -> bytes:
        """Return the raw hash; blocks. Called within ``counted``.

        Raises:
            WorkerBusy: the worker has too much to do.
            WorkerRefused: the worker does not take the request.
            TimeoutError: no answer within ``timeout_s``.
            OSError: the worker cannot be reached.
            ProtocolError: what answers is no hash worker.
        """
        try:
            if self.breaker.is_open:
                self._ask(Ping(), PING_TIMEOUT_S)  # one that is frozen costs a person this and not the whole time-out
            answer = self._ask(request, self._timeout_s)
            if not isinstance(answer, Hashed | Busy | Refused):
                raise ProtocolError("the answer to something else")
            if isinstance(answer, Hashed) and len(answer.raw) != request.hash_len:
                raise ProtocolError("a hash of another length")
        except (OSError, ProtocolError) as error:
            self.breaker.failed(error)
            self.close()
            self._count("failed")
            raise
        self.breaker.succeeded()
        self._count(type(answer).__name__.lower())
        if isinstance(answer, Refused):
            refusal = WorkerRefused()
            self.breaker.unusable(refusal)
            raise refusal
        if isinstance(answer, Busy):
            raise WorkerBusy
        return answer.raw

    def ping(self) -> None:
        """Ask the worker for its load, and log whether it answered."""
        try:
            self._ask(Ping(), PING_TIMEOUT_S)
        except (OSError, ProtocolError) as error:
            self.breaker.failed(error)
        else:
            get_logger().info(f"{self.name}_ready", threads=self._load.threads)

    def stats(self) -> HashWorkerStats:
        """Return the worker's figures."""
        return HashWorkerStats(
            name=self.name,
            available=not self.breaker.is_open,
            under_way=self.under_way,
            expected_wait_s=self.expected_wait_s(),
            answered=self._answered,
            busy=self._busy,
            failures=self.breaker.failures + self.breaker.unusable_answers,
        )

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _count(self, result: str) -> None:
        with self._lock:
            self._answered += result == "hashed"
            self._busy += result == "busy"
        if metrics.recorder is not None:
            metrics.recorder.count("ironauth_hash_worker_answers", self.name, result)

    def _ask(self, request: Request, limit_s: float) -> Answer:
        deadline = time.monotonic() + limit_s
        connection = self._kept() or self._connect(min(limit_s, PING_TIMEOUT_S))
        try:
            connection.settimeout(_left_s(deadline))
            connection.sendall(frame(request))
            length = body_length(_receive(connection, HEADER_BYTES, deadline))
            answer = hash_worker_protocol.answer(_receive(connection, length, deadline))
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
            if isinstance(answer, Hashed | Busy | Pong):
                self._load = answer.load
                ours = max(0, self.under_way - 1)  # who asked is counted still, and not at the worker any more
                self._others = max(0, answer.load.ahead - ours)
                self._others_until = time.monotonic() + LOAD_KEPT_S
        return answer

    def _kept(self) -> socket.socket | None:
        """Return the connection used last, unless none is left that still stands."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if not _is_readable(connection):
                return connection
            connection.close()  # the worker has ended it, or says what nobody asked

    def _connect(self, limit_s: float) -> socket.socket:
        if self._address.path:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.settimeout(limit_s)
                connection.connect(self._address.path)
                if hash_worker_trust.peer_uid(connection) != self._uid:
                    raise PermissionError("the socket is served by another user")
            except BaseException:
                connection.close()
                raise
            return connection
        assert self._tls is not None  # the settings see to it
        plain = socket.create_connection((self._address.host, self._address.port), limit_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return self._tls.wrap_socket(plain, server_hostname=self._address.host)
        except BaseException:
            plain.close()
            raise


def _left_s(deadline: float) -> float:
    """Return the seconds until ``deadline`` (monotonic).

    Raises:
        TimeoutError: there are none.
    """
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("no answer in time")
    return left_s


def _receive(connection: socket.socket, count: int, deadline: float) -> bytes:
    """Return exactly ``count`` bytes.

    Raises:
        OSError: they do not come.
    """
    found = b""
    while len(found) < count:
        connection.settimeout(_left_s(deadline))
        part = connection.recv(count - len(found))
        if not part:
            raise ConnectionResetError("the worker hung up")
        found += part
    return found


def _is_readable(connection: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(0))
