"""``manage.py hashworker`` as a process: without a secret, beside a server, and killed in the middle of a hash."""

import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from django.conf import settings as live_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError

from conftest import ServeProcess
from ironauth.config.hash_workers import WorkerAddress
from ironauth.infrastructure.hashing import argon2_log
from ironauth.infrastructure.hashing.argon2 import Argon2Wrong
from ironauth.infrastructure.hashing.local_pool import FIRST_GUESS_S
from ironauth.infrastructure.hashing.remote import trust as hash_worker_trust
from ironauth.infrastructure.hashing.remote.client import HashWorkerClient
from ironauth.infrastructure.hashing.remote.protocol import Ping
from ironauth.tests.private_ca import PrivateCa

PEPPER = "p1:" + "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
PASSWORD = "violet otter rides 9 trams"
type Start = Callable[..., subprocess.Popen[str]]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end in an empty environment."""
    command = [sys.executable, "manage.py", "hashworker", *arguments]
    return subprocess.run(command, cwd=live_settings.BASE_DIR, env={}, capture_output=True, text=True, check=False)


@pytest.fixture
def start() -> Iterator[Start]:
    """A starter of workers in an empty environment: none has a key, a pepper or a database."""
    running: list[subprocess.Popen[str]] = []

    def starter(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "manage.py", "hashworker", *arguments]
        made = subprocess.Popen(command, cwd=live_settings.BASE_DIR, env={}, stdout=subprocess.PIPE, text=True)
        running.append(made)
        assert made.stdout is not None
        assert made.stdout.readline().startswith("The hash worker is ready: ")
        return made

    yield starter
    for each in running:
        each.kill()
        each.wait()
        if each.stdout:
            each.stdout.close()


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["--port", "0"], "name all three, or --uds for this machine"),
        (["--uds", "/tmp/w.sock", "--cert", "x"], "leave --cert, --key and --ca out, or --uds"),  # noqa: S108 - not made
        (["--port", "0", "--cert", "x", "--key", "x", "--ca", "x"], "name a PEM certificate"),
        (["--uds", "/nonexistent/w.sock"], "choose another --uds path"),
        (["--uds", "w.sock", "--threads", "0"], "--threads must be a whole number from 1 to 64"),
    ],
)
def test_it_refuses_with_a_remedy(arguments: list[str], remedy: str) -> None:
    """A missing or wrong option is one line and status 1; nothing listens."""
    done = run(*arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert remedy in done.stderr


def test_its_settings_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's other variables beside it do no harm; a misspelt one of its own stops it; it has no secret."""
    for line in (Path(live_settings.BASE_DIR) / "deploy" / "env.example").read_text().splitlines():
        name, sign, _ = line.removeprefix("#").partition("=")
        if sign and name.startswith("IRONAUTH_") and not name.startswith(("IRONAUTH_LOG", "IRONAUTH_HASH_")):
            monkeypatch.setenv(name, "anything")
    monkeypatch.setenv("IRONAUTH_HASH_WORKERS", "unix:/w.sock")
    monkeypatch.setenv("IRONAUTH_HASH_THREADS", "3")
    found = runpy.run_module("ironauth.settings_hashworker")
    assert found["IRONAUTH_HASH_THREADS"] == 3
    assert not {"SECRET_KEY", "DATABASES", "IRONAUTH_PASSWORD_PEPPERS", "IRONAUTH_MASTER_KEYS"} & set(found)
    monkeypatch.setenv("IRONAUTH_HASH_THREDS", "3")
    with pytest.raises(ImproperlyConfigured, match="rename it to IRONAUTH_HASH_THREADS"):
        runpy.run_module("ironauth.settings_hashworker")


def test_it_refuses_to_hash_wrongly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a right Argon2 it ends with the remedy, and leaves no socket behind."""

    def refuse() -> None:
        raise Argon2Wrong("argon2-cffi computes Argon2 wrongly: remove .venv and run make install")

    monkeypatch.setattr(argon2_log, "choice", refuse)
    path = tmp_path / "w.sock"
    umask = os.umask(0)
    try:
        with pytest.raises(CommandError, match="run make install"):
            call_command("hashworker", uds=path)
    finally:
        os.umask(umask)
    assert not path.exists()


@pytest.mark.live
def test_it_serves_over_tls_and_ends_at_sigterm(tmp_path: Path, start: Start) -> None:
    """The port, one of its own choice, is announced; SIGTERM ends it with 0 although a connection is kept."""
    ca = PrivateCa(tmp_path, "ca")
    ours, theirs = ca.sign("worker"), ca.sign("node")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    files = ["--cert", str(ours.cert), "--key", str(ours.key), "--ca", str(ca.file)]
    process = start("--port", str(port), *files)
    tls = hash_worker_trust.context(server=False, cert=theirs.cert, key=theirs.key, ca=ca.file)
    client = HashWorkerClient("w", WorkerAddress(host="127.0.0.1", port=port), tls=tls, limit=1, timeout_s=5)
    client._ask(Ping(), 5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == 0
    client.close()


@pytest.mark.live
@pytest.mark.storage
def test_a_sign_in_is_answered_when_its_worker_is_killed(
    tmp_path: Path, start: Start, serve_process: ServeProcess, signing_key: str, new_email: Callable[[], str]
) -> None:
    """A server signs in by a worker; when that is killed while it hashes the answer is right all the same."""
    path = tmp_path / "w.sock"
    process = start("--uds", str(path), "--threads", "1")
    assert path.stat().st_mode & 0o777 == 0o660
    base = serve_process(
        IRONAUTH_PASSWORD_PEPPERS=PEPPER,
        IRONAUTH_HASH_WORKERS=f"unix:{path}",
        IRONAUTH_HASH_WORKER_TIMEOUT_S="20",
    )
    credentials = {"email": new_email(), "password": PASSWORD}
    with httpx.Client(base_url=f"{base}/api/v1/access", timeout=30) as api:
        assert api.post("/signup", json=credentials).status_code == 201
        assert api.post("/signin", json=credentials).status_code == 200
        worker = HashWorkerClient("w", WorkerAddress(path=str(path)), tls=None, limit=1, timeout_s=5)
        worker._ask(Ping(), 5)
        assert worker._load.mean_s != FIRST_GUESS_S, "it has measured hashes"
        worker.close()
        process.send_signal(signal.SIGSTOP)  # it is given the request, and does not answer
        answers: list[int] = []
        asking = threading.Thread(target=lambda: answers.append(api.post("/signin", json=credentials).status_code))
        asking.start()
        asking.join(0.5)
        assert asking.is_alive()
        process.kill()
        asking.join(10)
        assert answers == [200]
        assert api.post("/signin", json=credentials | {"password": "not the password"}).status_code == 401
        assert api.post("/signin", json=credentials).status_code == 200
