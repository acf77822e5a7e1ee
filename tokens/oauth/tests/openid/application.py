"""A client's own server at 127.0.0.1, over TLS: what it has at which path, and what it was asked for."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tokens.oauth.tests.openid.site import Site


class Application:
    """The server. ``asked``: the paths of requests, in order."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[str] = []
        self._pages: dict[str, tuple[str, bytes]] = {}

    def serve(self, path: str, media: str, content: bytes) -> str:
        """Have this at a path from now on; return its address."""
        self._pages[path] = media, content
        return self.at(path)

    def at(self, path: str) -> str:
        """Return the address of a path, whether something is there or not."""
        return f"https://127.0.0.1:{self.port}{path}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a request."""
        self.asked.append(handler.path)
        media, content = self._pages.get(handler.path, ("text/plain", b""))
        handler.send_response(200 if handler.path in self._pages else 404)
        handler.send_header("Content-Type", media)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


@contextmanager
def application(site: Site) -> Iterator[Application]:
    """Run a client's server, with a certificate that the server under test trusts."""
    app = Application()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            app.answer(self)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*site.application_files)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        app.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield app
        finally:
            server.shutdown()
            thread.join()
