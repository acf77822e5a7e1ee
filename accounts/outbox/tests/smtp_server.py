"""A mail server of our own on a private port: it keeps what it accepts, and can refuse, hang or hang up."""

import socketserver
import threading
import time
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, Literal, Self, cast

Mood = Literal["friendly", "refuses", "hangs", "silent", "hangs up"]


class _Conversation(socketserver.StreamRequestHandler):
    """One client, as far as RFC 5321 §4.1.1 is needed by Python's."""

    def handle(self) -> None:
        server = cast("_Listener", self.server).mail
        server.connections += 1
        if server.mood == "silent":
            server.released.wait(30)
            return
        self._say("220 test ready")
        while line := self.rfile.readline():
            verb = line.split()[0].upper() if line.split() else b""
            if verb == b"QUIT":
                self._say("221 bye")
                return
            if verb == b"DATA":
                self._data(server)
            elif verb == b"RCPT" and server.mood == "refuses":
                self._say(f"{server.refusal} no {line.decode().strip()}")
            else:
                self._say("250 ok")

    def _data(self, server: "SmtpServer") -> None:
        self._say("354 go on")
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        if server.mood == "hangs":
            server.released.wait(30)
            return
        time.sleep(server.delay_s)
        server.keep(b"".join(lines))
        if server.mood == "hangs up":  # accepted, but nobody hears of it
            self.connection.close()
            return
        self._say("250 accepted")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class _Listener(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    mail: "SmtpServer"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave early are part of the tests."""


class SmtpServer:
    """Serves inside a ``with`` block; ``url`` is for EMAIL_URL, ``received`` what was accepted."""

    def __init__(self, mood: Mood = "friendly") -> None:
        self.mood: Mood = mood
        self.refusal = "451"  # the code of a refusal, and its enhanced status if any
        self.connections = 0
        self.delay_s = 0.0  # before a message is accepted
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._received: list[bytes] = []
        self._listener = _Listener(("127.0.0.1", 0), _Conversation)
        self._listener.mail = self
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True)

    def keep(self, raw: bytes) -> None:
        """Accept a message."""
        with self._lock:
            self._received.append(raw)

    @property
    def port(self) -> int:
        """Return the TCP port."""
        return int(self._listener.server_address[1])

    @property
    def url(self) -> str:
        """Return the address for EMAIL_URL."""
        return f"smtp://127.0.0.1:{self.port}"

    @property
    def received(self) -> list[EmailMessage]:
        """Return the accepted messages in their order."""
        with self._lock:
            return [message_from_bytes(raw, policy=policy.default) for raw in self._received]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.released.set()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join(5)
