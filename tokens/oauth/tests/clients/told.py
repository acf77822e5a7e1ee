"""Where an application hears of sign-outs: a server that keeps the logout tokens it gets."""

import asyncio
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final
from urllib.parse import parse_qs

ARRIVES_S: Final = 60.0  # on a machine with everything else to do


class Told:
    """A server of the application. ``uri``: its address."""

    def __init__(self, server: HTTPServer, arrived: "queue.Queue[str]") -> None:
        self.uri = f"http://127.0.0.1:{server.server_port}/logout"
        self._arrived = arrived

    async def token(self) -> str:
        """Return the logout token that arrives next."""
        return await asyncio.to_thread(self._arrived.get, timeout=ARRIVES_S)


@contextmanager
def listening() -> Iterator[Told]:
    """Run it."""
    arrived: queue.Queue[str] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            ((token,),) = parse_qs(body, strict_parsing=True).values()
            arrived.put(token)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Told(server, arrived)
        finally:
            server.shutdown()
            thread.join()
