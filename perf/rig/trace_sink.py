"""A collector of traces that takes all and keeps nothing: ``python -m perf.rig.trace_sink PORT``. For measuring."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Sink(BaseHTTPRequestHandler):
    """Answers 200, as a collector does that has taken everything (OTLP/HTTP, "Success")."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Say that it is there."""
        self._answer()

    def do_POST(self) -> None:
        """Read a batch and forget it."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
        """Say nothing."""

    def _answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Sink).serve_forever()
