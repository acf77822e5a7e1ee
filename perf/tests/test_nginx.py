"""The private nginx: TLS, sockets, and its absence."""

import os
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from perf.experiments.servers.probes import ask
from perf.load.closed_loop import run_load
from perf.load.sources import Constant, get
from perf.rig import nginx
from perf.rig.processes import StartError


class _Echo(BaseHTTPRequestHandler):
    """Answers with the scheme the proxy names."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = f"{self.headers['X-Forwarded-Proto']} {self.headers['X-Forwarded-For']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return

    def address_string(self) -> str:
        return "unix"


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def behind(folder: Path) -> Iterator[nginx.Nginx]:
    """Run nginx in front of a server that echoes."""
    with ExitStack() as stack, _Server(str(folder / "echo.sock"), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        yield nginx.start(folder / "nginx", {"echo": folder / "echo.sock"}, stack)


@pytest.fixture
def _installed() -> None:
    try:
        nginx.find()
    except StartError as missing:
        pytest.skip(str(missing))


@pytest.mark.usefixtures("_installed")
def test_requests_pass_through_tls_to_the_socket(tmp_path: Path) -> None:
    """TLS 1.3 ends at nginx, which tells the application of it, and the load generator counts every answer."""
    with behind(tmp_path) as proxy:
        site = proxy.sites["echo"]
        assert ask((nginx.LOOPBACK, site.plain), "/", {}).body == b"http 127.0.0.1"
        assert ask((nginx.LOOPBACK, site.tls), "/", {}, proxy.context).body == b"https 127.0.0.1"
        sources = [Constant(get("/", nginx.LOOPBACK)) for _ in range(2)]
        result = run_load((nginx.LOOPBACK, site.tls), sources, seconds=0.8, tls=proxy.context)
        assert result.latencies_ns
        assert not result.failures
        stranger = run_load((nginx.LOOPBACK, site.tls), sources, seconds=0.8, tls=ssl.create_default_context())
        assert not stranger.latencies_ns
        assert stranger.failures.total() == 2
        assert proxy.context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_a_missing_nginx_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without nginx the experiment ends with what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nginx, "_SBIN", ())
    with ExitStack() as stack, pytest.raises(StartError, match=r"apt-get install nginx"):
        nginx.start(tmp_path / "nginx", {}, stack)


def test_the_key_is_for_its_owner_only(tmp_path: Path) -> None:
    """Nobody else reads the private key; the certificate names the loopback address alone."""
    nginx.write_certificate(tmp_path)
    assert os.stat(tmp_path / "key.pem").st_mode & 0o077 == 0  # noqa: PTH116 - the mode is the point
    context = nginx.client_context(tmp_path)
    assert [known["subject"] for known in context.get_ca_certs()] == [((("commonName", "benchmark"),),)]


def test_nothing_is_written_outside_of_its_folder(tmp_path: Path) -> None:
    """Every path in the configuration is in the folder given or a socket, and every address is loopback."""
    sites = {"one": nginx.Site(tmp_path / "one.sock", 1, 2)}
    text = nginx.configuration(tmp_path, sites, 3)
    paths = [word.strip(";").removeprefix("unix:") for word in text.split() if word.startswith(("/", "unix:"))]
    assert {path for path in paths if not path.startswith(str(tmp_path))} == {"/"}  # the location
    listens = [line.split()[1] for line in text.splitlines() if line.strip().startswith("listen ")]
    assert [address.rstrip(";") for address in listens] == ["127.0.0.1:3", "127.0.0.1:1", "127.0.0.1:2"]
