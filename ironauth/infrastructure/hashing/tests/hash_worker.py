"""A hash worker in this process, on a thread with an event loop of its own; ends that are none; and who asks."""

import asyncio
import socket
import ssl
import threading
from contextvars import Context, copy_context
from pathlib import Path
from types import TracebackType
from typing import Self

from django.test import RequestFactory

from ironauth.config.hash_workers import WorkerAddress
from ironauth.infrastructure.hashing import claims as hash_claims
from ironauth.infrastructure.hashing.local_pool import HashPool
from ironauth.infrastructure.hashing.remote.server import HashWorkerServer
from ironauth.infrastructure.http import client_context


class LocalWorker:
    """Serves at ``path``, or with ``tls`` at a free port of 127.0.0.1, while it is entered."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        threads: int = 1,
        max_wait_s: float = 4.0,
        uid: int | None = None,
    ) -> None:
        self.pool = HashPool(threads, max_wait_s, nice=0)
        self._server = HashWorkerServer(self.pool, uid=uid)
        self._tls, self._path = tls, path
        self.address = WorkerAddress()

    def __enter__(self) -> Self:
        self._bound = socket.socket(socket.AF_UNIX if self._path else socket.AF_INET)
        self._bound.bind(str(self._path) if self._path else ("127.0.0.1", 0))
        if self._path:
            self.address = WorkerAddress(path=str(self._path))
        else:
            self.address = WorkerAddress(host="127.0.0.1", port=self._bound.getsockname()[1])
        ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(ready),))
        self._thread.start()
        ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Drain, and end; a second time nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
        self._bound.close()
        self.pool.shutdown()
        if self._path:
            self._path.unlink(missing_ok=True)

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await self._server.serve(self._bound, tls=self._tls, stop=self._stop, on_ready=ready.set)


class Occupied:
    """Keeps one thread of a pool busy while it is entered."""

    def __init__(self, pool: HashPool) -> None:
        self._taken, self._release = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=pool.run_blocking, args=(self._occupy,))

    def __enter__(self) -> Self:
        self._thread.start()
        self._taken.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release.set()
        self._thread.join()

    def _occupy(self) -> None:
        self._taken.set()
        self._release.wait()


class Impostor:
    """Accepts at ``path`` and answers every connection's first bytes with ``says``; nothing: it stays silent."""

    def __init__(self, path: Path, says: bytes | None) -> None:
        self.address = WorkerAddress(path=str(path))
        self.heard: list[bytes] = []
        self._path, self._says = path, says
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._bound = socket.socket(socket.AF_UNIX)
        self._bound.bind(str(self._path))
        self._bound.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bound.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for each in (self._bound, *self._open):
            each.close()
        self._path.unlink()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._bound.accept()
            except OSError:
                return
            self._open.append(connection)
            self.heard.append(connection.recv(1024))
            if self._says is not None:
                connection.sendall(self._says)
                connection.shutdown(socket.SHUT_RDWR)


def asking(address: str, owner: str = "") -> Context:
    """Return a context in which a request from ``address`` is answered, for an account that is only named."""

    def enter() -> None:
        client_context.enter(RequestFactory(REMOTE_ADDR=address).get("/"))
        hash_claims._named.set(owner)

    context = copy_context()
    context.run(enter)
    return context
