"""nginx in front of two nodes that fail: what may be repeated goes to the other, a POST that arrived never does."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import httpx
import pytest

from ironauth import settings_test
from ironauth.tests.deploy.chain import program
from ironauth.tests.deploy.files import DEPLOY, with_changes
from ironauth.tests.services import BinaryMissing

pytestmark = [pytest.mark.storage, pytest.mark.only_postgres]
CONF = """
daemon off; pid {folder}/nginx.pid; error_log stderr crit; {user}
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/upstream-nodes.conf;
    server {{ listen 127.0.0.1:{port}; location / {{ include {folder}/proxy.conf; proxy_pass http://ironauth; }} }}
}}
"""


class FailingNode(BaseHTTPRequestHandler):
    """Counts what arrives in ``seen``; then answers 503, or closes the connection without a word."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[str]] = []
    answers = True

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append(self.command)
        if self.answers:
            self.send_response(503)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"busy")
        self.close_connection = True

    def do_POST(self) -> None:
        self.do_GET()

    def do_PATCH(self) -> None:
        self.do_GET()

    def log_message(self, *_arguments: object) -> None:
        """Stay quiet."""


@contextmanager
def _node(handler: type[FailingNode]) -> Iterator[int]:
    """Serve on a port of its own."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(params=[True, False], ids=["says 503", "falls silent"])
def edge(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, list[str], int]]:
    """nginx with the files of deploy/ before two failing nodes: its origin, what arrived at both, what it says then."""
    try:
        binary = program("nginx", "nginx-light")
    except BinaryMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    seen: list[str] = []
    handler = type("Handler", (FailingNode,), {"seen": seen, "answers": request.param})
    with ExitStack() as stack:
        ports = [stack.enter_context(_node(handler)) for _ in range(2)]
        nodes = (DEPLOY / "nginx" / "upstream-nodes.conf").read_text()
        here = [(f"10.0.0.1{number}:8000", f"127.0.0.1:{port}") for number, port in enumerate(ports, 1)]
        (tmp_path / "upstream-nodes.conf").write_text(with_changes(nodes, *here))
        (tmp_path / "proxy.conf").write_text((DEPLOY / "nginx" / "proxy.conf").read_text())
        port, user = settings_test._free_port(), "user root;" if os.geteuid() == 0 else ""
        (tmp_path / "nginx.conf").write_text(CONF.format(folder=tmp_path, port=port, user=user))
        process = subprocess.Popen([binary, "-p", str(tmp_path), "-e", "stderr", "-c", str(tmp_path / "nginx.conf")])
        stack.callback(process.wait)
        stack.callback(process.terminate)
        deadline = time.monotonic() + 10
        while not _listens(port):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}", seen, 503 if request.param else 502


def test_a_request_that_arrived_is_repeated_only_where_it_may_be(edge: tuple[str, list[str], int]) -> None:
    """GET is asked of both nodes, POST and PATCH of one; and nodes that have failed a moment ago are asked again."""
    base, seen, status = edge
    with httpx.Client(base_url=base, timeout=10) as client:
        for _ in range(2):
            for method, times in (("POST", 1), ("GET", 2), ("PATCH", 1), ("POST", 1), ("GET", 2)):
                seen.clear()
                answer = client.request(method, "/", content=None if method == "GET" else b"once")
                assert seen == [method] * times
                assert answer.status_code == status
                assert (answer.text == "busy") == (status == 503)  # the node's own words
