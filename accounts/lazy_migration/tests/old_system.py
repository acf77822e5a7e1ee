"""A stand-in for an old system, on a private port: it keeps what it was sent, and answers as a test says."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple, Self
from urllib.parse import parse_qsl

PASSWORD: Final = "old green boat on lake 4"
EMAIL: Final = "Ann@Example.com"


class Asked(NamedTuple):
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the JSON of the body."""
        return json.loads(self.body)

    def form(self) -> dict[str, str]:
        """Return the fields of the body."""
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))


class Said(NamedTuple):
    """What is answered."""

    status: int
    body: Any = None
    headers: dict[str, str] = {}


type Answers = Callable[[Asked], Said]


class OldSystem:
    """A context manager; ``requests`` has what came, ``answers`` says what is answered."""

    def __init__(self, answers: Answers) -> None:
        self.requests: list[Asked] = []
        self.answers = answers
        there = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = Asked(self.command, self.path, dict(self.headers), body)
                there.requests.append(asked)
                said = there.answers(asked)
                content = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
                self.send_response(said.status)
                for name, value in said.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Listener(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """Clients that leave early are part of the tests."""

        self._listener = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._listener.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._listener.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown()
        self._listener.server_close()


def person(**fields: Any) -> dict[str, Any]:
    """Return somebody as an endpoint describes them."""
    return {"external_id": "42", "email": EMAIL, "email_verified": True, "name": "Ann Lee", **fields}


def endpoint(**fields: Any) -> Answers:
    """Return the answers of an endpoint with one person.

    Args:
        **fields: Of the person, over those of `person`.
    """

    def answers(asked: Asked) -> Said:
        given = asked.json()
        found = person(**fields)
        if given["email"].lower() != EMAIL.lower() or given["password"] != PASSWORD:
            return Said(401, {"detail": "no"})
        return Said(200, found)

    return answers
