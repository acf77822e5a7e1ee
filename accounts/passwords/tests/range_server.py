"""A service of our own on a private port, with the range API of breached passwords: it says what it is told to."""

import contextlib
import socketserver
import ssl
import threading
from collections.abc import Callable
from typing import Any, Self, cast


def answer(body: bytes, *, status: str = "200 OK", **headers: str) -> bytes:
    """Return an answer of HTTP; headers with _ for -."""
    given = {"Content_Length": str(len(body)), **headers}
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in given.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


class _Conversation(socketserver.StreamRequestHandler):
    """One request: kept, and answered byte by byte as the server says."""

    def handle(self) -> None:
        server = cast("_Listener", self.server).range
        lines = list(iter(self.rfile.readline, b"\r\n"))
        if not lines or lines[-1] == b"":  # a client that left
            return
        server.requests.append(b"".join(lines).decode())
        with contextlib.suppress(OSError):
            server.speak(self.wfile.write)
        server.spoken.set()


class _Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    range: "RangeServer"
    tls: ssl.SSLContext | None = None

    def get_request(self) -> Any:
        """Accept a client; the handshake is left to its thread."""
        line, address = super().get_request()
        if self.tls is not None:
            line = self.tls.wrap_socket(line, server_side=True, do_handshake_on_connect=False)
        return line, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave early are part of the tests."""


class RangeServer:
    """A context manager; ``requests`` has each request's head, ``says`` is what it answers."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[str] = []
        self.says = answer(b"")
        self.speak: Callable[[Callable[[bytes], Any]], None] = lambda write: write(self.says)
        self.spoken = threading.Event()
        self._listener = _Listener(("127.0.0.1", 0), _Conversation)
        self._listener.range, self._listener.tls = self, tls
        self.port: int = self._listener.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._listener.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown()
        self._listener.server_close()
