"""Sockets and process preparation of the server, on real sockets and processes."""

import asyncio
import errno
import os
import re
import resource
import socket
import stat
import time
from email.utils import formatdate
from pathlib import Path

import pytest
import uvicorn

from ironauth.server import graceful as polite_server
from ironauth.server import server

ROOT = Path(server.__file__).parents[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_loopback(host: str) -> None:
    """Loopback addresses and their name are only reachable from this machine."""
    assert server.is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])  # noqa: S104 - nothing is bound
def test_not_loopback(host: str) -> None:
    """Everything else may be reachable by others, unknown names included."""
    assert not server.is_loopback(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_free_port_is_bound(host: str) -> None:
    """Port 0 binds a free port, not listening yet, and listen() makes it answer."""
    bound = server.bind_tcp(host, 0)
    try:
        address = bound.getsockname()[:2]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=1)
        server.listen(bound)
        socket.create_connection(address, timeout=1).close()
    finally:
        bound.close()


def test_a_taken_port_names_the_remedy() -> None:
    """A port that another server listens on is refused in one line that offers another one."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(server.ServerError, match=rf"^Port {port} .* is taken: .*make PORT={port + 1} run$"):
            server.bind_tcp("127.0.0.1", port)


def test_the_highest_port_taken_names_one_that_exists() -> None:
    """Beside 65,535 the remedy is the port below."""
    refused = server._bind_failure("127.0.0.1", 65_535, OSError(errno.EADDRINUSE, "taken"))
    assert refused.endswith("make PORT=65534 run")


def test_a_port_taken_meanwhile_names_the_remedy() -> None:
    """Two servers may bind the same port before either listens: the second to listen is refused."""
    first = server.bind_tcp("127.0.0.1", 0)
    second = server.bind_tcp("127.0.0.1", first.getsockname()[1])
    try:
        server.listen(first)
        with pytest.raises(server.ServerError, match="is taken"):
            server.listen(second)
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_port_that_does_not_exist_names_the_remedy(port: int) -> None:
    """A port outside 0 to 65,535 is refused in one line, not taken modulo 65,536."""
    with pytest.raises(server.ServerError, match=rf"^There is no port {port}: choose --port 0 .* to 65535$"):
        server.bind_tcp("127.0.0.1", port)


@pytest.mark.parametrize(("host", "port"), [("203.0.113.77", 0), ("no-such-host.invalid", 0)])
def test_a_foreign_address_names_the_remedy(host: str, port: int) -> None:
    """An address that is not this machine's is refused in one line that ends with the remedy."""
    with pytest.raises(server.ServerError) as refused:
        server.bind_tcp(host, port)
    assert re.fullmatch(rf".*{re.escape(host)}.*--host.*", str(refused.value))


def test_unix_socket_mode(tmp_path: Path) -> None:
    """The socket can be used by its owner and group only, whatever the umask."""
    path = tmp_path / "web.sock"
    before = os.umask(0)
    try:
        bound = server.bind_unix(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    bound.close()


def test_a_dead_servers_socket_is_replaced(tmp_path: Path) -> None:
    """A socket file that nobody listens on any more does not stop the start."""
    path = tmp_path / "web.sock"
    server.bind_unix(path).close()
    second = server.bind_unix(path)
    server.listen(second)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    second.close()


def test_a_living_servers_socket_is_left_alone(tmp_path: Path) -> None:
    """A socket that somebody listens on is refused with the remedy, and stays usable."""
    path = tmp_path / "web.sock"
    first = server.bind_unix(path)
    server.listen(first)
    with pytest.raises(server.ServerError, match=r"Another server listens on .*: stop it"):
        server.bind_unix(path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    first.close()


def test_something_else_is_never_removed(tmp_path: Path) -> None:
    """A file that is not a socket is not deleted to make room."""
    path = tmp_path / "precious.txt"
    path.write_text("kept")
    with pytest.raises(server.ServerError, match="is not a socket: move it away"):
        server.bind_unix(path)
    assert path.read_text() == "kept"


def test_a_socket_in_a_missing_folder_names_the_remedy(tmp_path: Path) -> None:
    """A folder that is not there is one line with the remedy."""
    with pytest.raises(server.ServerError, match="choose another --uds path"):
        server.bind_unix(tmp_path / "missing" / "web.sock")


def test_running_requests_fit_into_the_open_files() -> None:
    """The limit of running requests leaves room for the other files, and the process's own limit is raised for it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, before[1]))
    try:
        limit = server.request_limit()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert limit == min(server.MAX_REQUESTS, soft - server.RESERVED_FILES)
        assert soft == min(server.MAX_REQUESTS + server.RESERVED_FILES, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_configuration_is_ours() -> None:
    """Uvicorn's own logs, access log, server header and proxy headers are off; the numbers are the stated ones."""
    config = server.configuration(workers=1)
    assert (config.log_config, config.access_log, config.server_header, config.proxy_headers) == (None,) + (False,) * 3
    assert (config.backlog, config.timeout_keep_alive) == (2_048, 65)
    assert 7 <= polite_server.DRAIN_S + (config.timeout_graceful_shutdown or 0) <= 8 < polite_server.END_S < 10
    config.load()
    assert config.http_protocol_class.__module__ == "ironauth.server.connection"
    assert config.lifespan_class.__module__ == "uvicorn.lifespan.on"


@pytest.mark.parametrize("refuse", [False, True])
def test_who_comes_early_waits_or_is_refused(monkeypatch: pytest.MonkeyPatch, refuse: bool) -> None:
    """One server alone lets the kernel accept at once; one of several leaves that to its workers."""
    bound, seen = server.bind_tcp("127.0.0.1", 0), []

    def start(_config: object, given: socket.socket, _on_ready: object) -> None:
        with socket.socket() as early:
            seen.append(early.connect_ex(given.getsockname()))

    monkeypatch.setattr(server, "_run", start)
    with bound:
        server.serve(bound=bound, workers=1, on_ready=lambda: None, refuse_until_ready=refuse)
    assert seen == [errno.ECONNREFUSED if refuse else 0]


async def test_a_server_looks_each_second_and_when_told() -> None:
    """The date of the answers is that of the second; told to end, it does not wait for the next."""
    config = uvicorn.Config(f"{__name__}:nothing", log_config=None)
    config.encoded_headers = []
    server = polite_server.GracefulServer(config)
    running = asyncio.create_task(server.main_loop())
    dates: set[bytes] = set()
    deadline = time.monotonic() + 10
    while len(dates) < 2 and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
        dates.update(value for _, value in server.server_state.default_headers)
    assert len(dates) == 2
    assert formatdate(usegmt=True).encode() in dates
    assert time.time() % 1 < 0.6  # at its beginning
    assert not running.done()
    server.should_exit = True
    server.look()
    await asyncio.wait_for(running, 0.95 - time.time() % 1)  # before it would have looked by itself
