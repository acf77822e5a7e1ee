"""``manage.py serve`` as a real process: what it refuses, what it prints, how it ends."""

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from django.core.management.base import CommandError
from pytest_django import Settings

from ironauth import settings_test
from ironauth.management.commands import serve as commands_serve
from ironauth.management.commands.serve import _require_writable_folder

pytestmark = pytest.mark.live

START_S = 30.0
type Serve = Callable[..., "Running"]


class Running:
    """A server process and what it has printed."""

    def __init__(self, arguments: tuple[str, ...], environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "serve", *arguments],
                cwd=settings.BASE_DIR,
                env={
                    **os.environ,
                    **settings_test.ENVIRONMENT,
                    "DJANGO_SETTINGS_MODULE": "ironauth.settings",
                    **environment,
                },
                stdout=file,
                stderr=file,
            )

    def printed(self) -> str:
        """Return everything printed so far."""
        return self.log.read_text()

    def ready(self) -> str:
        """Wait until it says that it serves; return the address of its API."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            if match := re.search(r"API +(\S+)/api/v1/", self.printed()):
                return match[1]
            time.sleep(0.05)
        pytest.fail(f"not serving: {self.printed()}")

    def worked(self, cpu_s: float) -> None:
        """Wait until it has used ``cpu_s`` seconds of CPU time, or for 3 s.

        Not for a time of the clock: on a busy machine the interpreter itself may not have started by then.
        """
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and self.process.poll() is None:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            if (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") >= cpu_s:
                return
            time.sleep(0.01)

    def children(self) -> list[int]:
        """Return the process ids of its workers (Python's spawned resource tracker is not one)."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid and b"spawn_main" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        return found


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start servers with a database of their own (`migrated_file`, if a test asks for it); they end with the test."""
    running: list[Running] = []

    def start(*arguments: str, **environment: str) -> Running:
        variables = {"DATABASE_URL": f"sqlite:///{tmp_path / 'data' / 'serve.sqlite3'}", "REDIS_URL": ""}
        log = tmp_path / f"log-{len(running)}"
        running.append(Running(arguments, {**variables, **environment}, log))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.process.terminate()
            one.process.wait(timeout=20)


def _refused(running: Running) -> str:
    """Wait for its end with status 1 and return the only line."""
    assert running.process.wait(timeout=START_S) == 1, running.printed()
    lines = running.printed().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_a_first_run_prepares_and_serves(serve: Serve) -> None:
    """--migrate makes the database and a key, reports it, serves, and ends with status 0 on SIGTERM."""
    issuer = f"http://localhost:{settings_test._free_port()}"
    running = serve("--migrate", "--port", issuer.rpartition(":")[2], IRONAUTH_ISSUER=issuer)
    base = running.ready()
    assert base == issuer  # the name that people open it by
    assert httpx.get(f"{base}/ping").text == "OK"
    assert httpx.get(f"{base}/.well-known/jwks.json").json()["keys"]
    assert re.search(r"Database: applying \d+ migrations", running.printed())
    assert "Signing key: " in running.printed()
    for path in ("/api/docs", "/admin/", "/health"):
        assert f"{base}{path}" in running.printed()
    running.process.terminate()
    assert running.process.wait(timeout=20) == 0
    assert "Traceback" not in running.printed()


def test_database_files_are_private(serve: Serve, tmp_path: Path) -> None:
    """The SQLite files are readable by their owner only, in a folder of the same kind."""
    running = serve("--migrate", "--port", "0")
    base = running.ready()
    assert httpx.get(f"{base}/health").status_code == 200
    folder = tmp_path / "data"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_ends_it_cleanly(serve: Serve, migrated_file: Path, workers: int) -> None:
    """SIGINT is a clean end: status 0, no traceback, and the log says of each worker that it ends and that it has."""
    running = serve("--migrate", "--port", "0", "--workers", str(workers))
    assert httpx.get(f"{running.ready()}/ping").status_code == 200
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(timeout=20) == 0
    assert "Traceback" not in running.printed()
    said = re.findall(r"server_(ending|ended)", running.printed())
    assert (said.count("ending"), said.count("ended"), said[-1]) == (workers, workers, "ended")
    answered = re.findall(r'"requests": ?(\d+)', running.printed())
    assert sum(map(int, answered)) == 1


@pytest.mark.parametrize("after_s", [0.12, 0.3, 0.5, 0.7, 0.9])
def test_ctrl_c_is_quiet_during_the_start(serve: Serve, after_s: float) -> None:
    """While modules are imported or the database is prepared it ends without a traceback."""
    running = serve("--migrate", "--port", "0")
    running.worked(after_s)
    running.process.send_signal(signal.SIGINT)
    running.process.wait(timeout=20)
    assert "Traceback" not in running.printed()


@pytest.mark.parametrize("after_s", [0.4, 0.6, 0.8])
def test_ctrl_c_is_quiet_while_workers_start(serve: Serve, after_s: float) -> None:
    """A terminal sends SIGINT to the workers as well; they leave it to their supervisor."""
    running = serve("--migrate", "--port", "0", "--workers", "2")
    running.worked(after_s)
    for pid in [*running.children(), running.process.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    running.process.wait(timeout=20)
    assert "Traceback" not in running.printed()


def test_a_second_ctrl_c_is_quiet_too(serve: Serve, migrated_file: Path) -> None:
    """Impatience ends it at once, and without a traceback."""
    running = serve("--migrate", "--port", "0")
    running.ready()
    for _ in range(2):
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    running.process.wait(timeout=20)
    assert "Traceback" not in running.printed()
    assert "error" not in running.printed()


@pytest.mark.only_sqlite
def test_an_unwritable_database_file_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that can only be read would serve, and fail at the first sign-up; root may write any, hence the patch."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(CommandError, match=r"^Cannot write .* \(Permission denied\): make it and .* writable"):
        _require_writable_folder()


def test_a_taken_port_is_one_line(serve: Serve, tmp_path: Path) -> None:
    """A taken port is one line with the remedy and status 1, before the database is touched."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = _refused(serve("--migrate", "--port", str(port)))
    assert re.fullmatch(rf".*Port {port} on 127\.0\.0\.1 is taken: .*make PORT={port + 1} run", line)
    assert not (tmp_path / "data").exists()


def test_debug_on_a_public_address_is_refused(serve: Serve) -> None:
    """DEBUG never faces other machines (security bar 10)."""
    line = _refused(serve("--host", "0.0.0.0", "--port", "0", DEBUG="1"))  # noqa: S104 - the case
    assert "DEBUG=1 must not be reachable" in line
    assert line.endswith("--host 127.0.0.1")


def test_debug_on_a_socket_is_refused(serve: Serve, tmp_path: Path) -> None:
    """A Unix socket is there for a proxy, so DEBUG does not serve on one; no socket is left behind."""
    path = tmp_path / "web.sock"
    line = _refused(serve("--uds", str(path), DEBUG="1"))
    assert "DEBUG=1 must not be served on a Unix socket" in line
    assert not path.exists()


@pytest.fixture
def _without_issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default issuer, for the servers of a test."""
    monkeypatch.delitem(settings_test.ENVIRONMENT, "IRONAUTH_ISSUER")
    monkeypatch.delenv("IRONAUTH_ISSUER", raising=False)


@pytest.mark.usefixtures("_without_issuer")
@pytest.mark.parametrize("option", ["--port {}", "--port={}"])
def test_the_issuer_of_ones_own_machine_has_the_port(serve: Serve, option: str) -> None:
    """With DEBUG, and without an issuer, tokens and links are for the server that runs, whatever port is chosen."""
    port = settings_test._free_port()
    running = serve("--migrate", *option.format(port).split(), DEBUG="1", ALLOWED_HOSTS="localhost")
    base = running.ready()
    assert base == f"http://localhost:{port}"
    assert httpx.get(f"{base}/.well-known/openid-configuration").json()["issuer"] == base
    assert "Issuer" not in running.printed()


@pytest.mark.usefixtures("_without_issuer")
def test_an_issuer_that_leads_elsewhere_is_told(serve: Serve) -> None:
    """Any free port is known too late for the issuer, and one that is set stays: a line says which it is."""
    running = serve("--migrate", "--port", "0", DEBUG="1", ALLOWED_HOSTS="localhost")
    running.ready()
    assert "Issuer  http://localhost:8000 (IRONAUTH_ISSUER)" in running.printed()


@pytest.mark.parametrize("port", ["-1", "65536", "99999"])
def test_a_port_that_does_not_exist_is_one_line(serve: Serve, tmp_path: Path, port: str) -> None:
    """A port that does not exist is one line with the remedy, before the database is touched."""
    assert f"There is no port {port}: choose --port" in _refused(serve("--migrate", f"--port={port}"))
    assert not (tmp_path / "data").exists()


def test_an_unwritable_folder_is_one_line(serve: Serve, tmp_path: Path) -> None:
    """A database folder that cannot be made is one line with the remedy."""
    blocker = tmp_path / "file"
    blocker.write_text("")
    line = _refused(serve("--migrate", "--port", "0", DATABASE_URL=f"sqlite:///{blocker / 'db.sqlite3'}"))
    assert re.search(r"Cannot write .*: make .* writable for this user", line)


@pytest.mark.parametrize("text", ["0", "-1", "9", "24", "5000", "x", "", "1.5", "1e1", "٣", "9" * 5_000])
def test_workers_that_the_machine_cannot_bear_are_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """What is no number, less than one or too many gets one line with what is valid, why, and the remedy."""
    monkeypatch.setattr(commands_serve, "usable_cpus", lambda: 2)
    with pytest.raises(
        CommandError,
        match=r"^--workers must be a whole number from 1 to 8 \(.*110 MiB.*\): .* leave it out for the default$",
    ):
        commands_serve._workers(text)


def test_workers_that_the_machine_bears_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight anywhere, for trying out; else four for each usable CPU."""
    monkeypatch.setattr(commands_serve, "usable_cpus", lambda: 1)
    assert [commands_serve._workers("1"), commands_serve._workers(8)] == [1, 8]
    monkeypatch.setattr(commands_serve, "usable_cpus", lambda: 16)
    assert commands_serve._workers("64") == 64
    with pytest.raises(CommandError, match="from 1 to 64 "):
        commands_serve._workers("65")


def test_too_many_workers_are_one_line(serve: Serve, tmp_path: Path) -> None:
    """The command refuses them before anything is made, as one line, not as usage."""
    assert "--workers must be a whole number" in _refused(serve("--migrate", "--workers", "5000"))
    assert not (tmp_path / "data").exists()


def test_a_database_behind_the_code_is_one_line(serve: Serve, migrated_file: Path) -> None:
    """On tables of an older release every answer would be a 500; on newer ones, those of the next, it serves."""
    with closing(sqlite3.connect(migrated_file, autocommit=True)) as database:
        database.execute("DELETE FROM django_migrations WHERE app = 'accounts' AND name > '0005'")
    line = _refused(serve("--port", "0"))
    assert re.search(
        r"lacks \d+ migrations of this release: run manage.py migrate first, or start with --migrate", line
    )
    with closing(sqlite3.connect(migrated_file, autocommit=True)) as database:
        names = [path.stem for path in (Path(settings.BASE_DIR) / "accounts/migrations").glob("0*.py")]
        rows = [("accounts", name, "2030-01-01") for name in [*names, "9999"]]
        database.execute("DELETE FROM django_migrations WHERE app = 'accounts'")
        database.executemany("INSERT INTO django_migrations (app, name, applied) VALUES (?, ?, ?)", rows)
    serve("--port", "0").ready()


def test_an_unreachable_database_is_one_line(serve: Serve) -> None:
    """A database that does not answer is one line with the remedy, without its password."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"postgres://someone:hush-hush@127.0.0.1:{unused.getsockname()[1]}/ironauth"
        line = _refused(serve("--migrate", "--port", "0", DATABASE_URL=url))
    assert "check DATABASE_URL" in line
    assert "hush-hush" not in line


def test_unix_socket(serve: Serve, migrated_file: Path, tmp_path: Path) -> None:
    """--uds serves on a socket of mode 0660 and removes it at the end, which SIGHUP is for a single worker."""
    path = tmp_path / "web.sock"
    running = serve("--migrate", "--uds", str(path))
    assert running.ready() == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
        assert client.get("/ping").text == "OK"
        assert client.get("/health").status_code == 200
    running.process.send_signal(signal.SIGHUP)
    assert running.process.wait(timeout=20) == 0
    assert not path.exists()


def test_readiness_turns_before_the_end(serve: Serve, migrated_file: Path) -> None:
    """Told to end, it says ``draining`` on a connection it has, is still alive, and finishes a request it has begun."""
    running = serve("--migrate", "--port", "0", "--workers", "1")
    port = int(running.ready().rpartition(":")[2])
    begun, asking, looking = (http.client.HTTPConnection("127.0.0.1", port, timeout=10) for _ in range(3))
    with closing(begun), closing(asking), closing(looking):
        for connection, path in ((asking, "/health"), (looking, "/health/live")):
            assert _answer(connection, path) == (200, "ok", None)
        body = json.dumps({"refresh_token": "none"}).encode()
        begun.putrequest("POST", "/api/v1/access/refresh")
        begun.putheader("Content-Type", "application/json")
        begun.putheader("Content-Length", str(len(body)))
        begun.endheaders(body[:5])
        time.sleep(0.1)  # the head is read, and the body waited for
        running.process.terminate()
        deadline = time.monotonic() + 5
        while (heard := _answer(asking, "/health")) == (200, "ok", None):
            assert time.monotonic() < deadline
        assert heard[:2] == (503, "draining")
        while (heard := _answer(looking, "/health/live")) == (200, "ok", None):
            assert time.monotonic() < deadline
        assert heard == (200, "ok", "close")
        begun.send(body[5:])
        answer = begun.getresponse()
        assert (answer.status, answer.headers["Connection"]) == (401, "close")
    assert running.process.wait(timeout=20) == 0


def _answer(connection: http.client.HTTPConnection, path: str) -> tuple[int, str, str | None]:
    """Return the status, what the report says, and whether the connection ends with it."""
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())["status"], answer.headers["Connection"]


def test_dead_workers_are_replaced(serve: Serve, migrated_file: Path) -> None:
    """With two workers, one that is killed is replaced while the other serves, and SIGTERM ends all with status 0."""
    running = serve("--migrate", "--workers", "2", "--port", "0", IRONAUTH_HASH_THREADS="2")
    base = running.ready()
    first = running.children()
    assert len(first) == 2
    os.kill(first[0], signal.SIGKILL)
    deadline = time.monotonic() + START_S
    while len(set(running.children()) - {first[0]}) < 2:
        assert time.monotonic() < deadline, running.printed()
        assert httpx.get(f"{base}/ping", timeout=START_S).text == "OK"
        time.sleep(0.1)
    assert httpx.get(f"{base}/ping", timeout=START_S).text == "OK"
    running.process.terminate()
    assert running.process.wait(timeout=30) == 0
    assert running.children() == []
    assert "worker_restarted" in running.printed()
    assert '"exit":-9' in running.printed()


def test_hash_threads_are_divided(serve: Serve, migrated_file: Path) -> None:
    """Two workers share the machine's hash threads: each has its part, and at least one."""
    running = serve("--migrate", "--workers", "2", "--port", "0", IRONAUTH_HASH_THREADS="5")
    running.ready()
    lines = [json.loads(line) for line in running.printed().splitlines() if "hash_pool_ready" in line]
    assert [line["threads"] for line in lines] == [2, 2]


def test_loop_debug_watches_every_worker(serve: Serve, migrated_file: Path) -> None:
    """With --loop-debug each of two workers reports it, and at its end how late its loop was."""
    running = serve("--migrate", "--port", "0", "--workers", "2", "--loop-debug", "--slow-callback-ms", "5000")
    base = running.ready()
    assert httpx.get(f"{base}/health", timeout=START_S).status_code == 200
    running.process.terminate()
    assert running.process.wait(timeout=20) == 0
    events = [json.loads(line) for line in running.printed().splitlines() if line.startswith("{")]
    watched = [event for event in events if event["event"] == "loop_debug_on"]
    assert [event["slow_callback_ms"] for event in watched] == [5_000.0, 5_000.0]
    last = {event["pid"]: event for event in events if event["event"] == "loop_lag"}
    assert set(last) == {event["pid"] for event in watched}
    assert all(event["count"] > 0 for event in last.values())


@pytest.mark.parametrize(
    ("arguments", "environment", "remedy"),
    [
        (("--slow-callback-ms", "50"), {}, "add --loop-debug"),
        (("--loop-debug", "--slow-callback-ms", "0"), {}, "leave it out for 100"),
        (("--loop-debug", "--slow-callback-ms", "nan"), {}, "leave it out for 100"),
        (("--loop-debug",), {"IRONAUTH_LOG_LEVEL": "WARNING"}, "set IRONAUTH_LOG_LEVEL=INFO, or leave it out"),
    ],
)
def test_a_watch_that_would_say_nothing_is_refused(
    serve: Serve, arguments: tuple[str, ...], environment: dict[str, str], remedy: str
) -> None:
    """A threshold without the option, an impossible one, and a level that hides the reports: one line each."""
    assert _refused(serve("--port", "0", *arguments, **environment)).endswith(remedy)


@pytest.mark.parametrize(
    ("host", "issuer", "opened"),
    [
        ("127.0.0.1", "http://localhost:8000", "http://localhost:8000"),
        ("localhost", "http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("::1", "http://[::1]:8000", "http://[::1]:8000"),
        ("0.0.0.0", "http://localhost:8000", "http://localhost:8000"),  # noqa: S104 - the case
        ("127.0.0.1", "http://localhost:8001", "http://127.0.0.1:8000"),  # another server
        ("127.0.0.1", "http://localhost", "http://127.0.0.1:8000"),
        ("127.0.0.2", "http://localhost:8000", "http://127.0.0.2:8000"),
        ("127.0.0.1", "https://localhost:8000", "http://127.0.0.1:8000"),  # a proxy's: this one speaks no TLS
        ("127.0.0.1", "https://id.example.com", "http://127.0.0.1:8000"),
        ("::1", "http://127.0.0.1:8000", "http://[::1]:8000"),
    ],
)
def test_the_address_to_open_is_the_issuers_where_that_is_this_server(
    settings: Settings, host: str, issuer: str, opened: str
) -> None:
    """Cookies and passkeys are kept for the issuer's name; whatever another server answers is not announced."""
    settings.IRONAUTH_ISSUER = issuer
    assert commands_serve._to_open(host, 8000) == opened


def test_the_laboratorys_endpoints_are_announced(serve: Serve, migrated_file: Path) -> None:
    """With IRONAUTH_PERF_ENDPOINTS they answer everybody, and outside DEBUG the log warns of them, and of lost mail."""
    running = serve("--migrate", "--port", "0", IRONAUTH_PERF_ENDPOINTS="1")
    base = running.ready()
    for way in ("msgspec", "drf", "drf-msgspec", "msgspec-converted"):  # as announced
        assert len(httpx.get(f"{base}/perf/serialization/{way}", timeout=START_S).json()) == 50
    running.process.terminate()
    assert running.process.wait(timeout=20) == 0
    assert f"{base}/perf/serialization/msgspec " in running.printed()
    for warning in ("perf_endpoints_on", "mail_reaches_nobody"):
        assert running.printed().count(f'"event":"{warning}"') == 1
