"""The image's health check: a 200 is well, anything else is not, and the server is asked by a name of its own."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ironauth import health_probe


class Answers(BaseHTTPRequestHandler):
    """Answers 200 at /health and 503 elsewhere, and remembers by which name it was asked."""

    hosts: list[str] = []

    def do_GET(self) -> None:
        self.hosts.append(self.headers["Host"])
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()
        self.wfile.write(b'{"status":"ok"}')

    def log_message(self, *_arguments: object) -> None:
        """Stay quiet."""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server that answers for as long as the test takes."""
    Answers.hosts.clear()
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_only_a_200_is_well(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 503 is not, and neither is silence; a proxy in the environment is not asked."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert health_probe.ask("/health", port) == (True, '200 {"status":"ok"}')
    assert health_probe.ask("/down", port)[0] is False
    well, said = health_probe.ask("/health", port=1)
    assert not well
    assert said.startswith("no answer on port 1: ")


def test_a_server_on_a_unix_socket_is_asked_there(tmp_path: Path) -> None:
    """The second argument is its path; one that nobody listens on is not well."""

    class UnixServer(HTTPServer):
        address_family = socket.AF_UNIX

        def server_bind(self) -> None:
            self.socket.bind(str(self.server_address))
            self.server_name, self.server_port = "localhost", 0

    path = tmp_path / "web.sock"
    with UnixServer(str(path), Answers) as server:  # type: ignore[arg-type]  # typeshed knows of TCP addresses alone
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        assert health_probe.main(["/health", str(path)]) == 0
        assert health_probe.main(["/down", str(path)]) == 1
        server.shutdown()
        thread.join()
    assert health_probe.main(["/health", str(path)]) == 1
    assert health_probe.main(["/health", "web.sock"]) == 1
    assert health_probe.ask("/health", uds=path)[1].startswith(f"no answer on {path}: ")


def test_the_exit_status_is_what_docker_understands(
    port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 is healthy and 1 is not; a usage error is 1 too, for 2 is reserved."""
    monkeypatch.setattr(health_probe.ask, "__defaults__", (port, None))
    assert health_probe.main(["/health"]) == 0
    assert health_probe.main(["/down"]) == 1
    assert health_probe.main([]) == 1
    assert capsys.readouterr().out.splitlines() == ['200 {"status":"ok"}', '503 {"status":"ok"}']


@pytest.mark.parametrize(
    ("hosts", "asked"),
    [("id.example.com, b.example", "id.example.com"), (".example.com", "example.com"), (",a.example", "a.example")],
)
def test_the_server_is_asked_by_a_name_it_answers_to(
    port: int, monkeypatch: pytest.MonkeyPatch, hosts: str, asked: str
) -> None:
    """The Host is the first of ALLOWED_HOSTS: any other would be refused."""
    monkeypatch.setenv("ALLOWED_HOSTS", hosts)
    health_probe.ask("/health", port)
    assert Answers.hosts == [asked]


def test_the_name_is_found_in_the_environment_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variable the file of the settings is read; a file that is missing or not text is no error."""
    monkeypatch.delenv("ALLOWED_HOSTS", raising=False)
    file = tmp_path / "env"
    monkeypatch.setenv("IRONAUTH_ENV_FILE", str(file))
    assert health_probe.host() == "localhost"
    file.write_text("# ALLOWED_HOSTS=no\nexport ALLOWED_HOSTS='.example.com,b.example'\n")
    assert health_probe.host() == "example.com"
    file.write_text("ALLOWED_HOSTS=first.example\nALLOWED_HOSTS=last.example\n")
    assert health_probe.host() == "last.example"
    file.write_bytes(b"\xff\xfe")
    assert health_probe.host() == "localhost"
