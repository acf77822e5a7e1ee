"""Private Postgres and Redis servers for a test or benchmark run: own ports, own folder, ended by pid."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

#: Seconds a server may take to accept its first connection; a cold initdb needs about 3 s on one core.
START_LIMIT_S = 30.0


class BinaryMissing(RuntimeError):
    """A server's program is not installed; the message names it and the Debian package that brings it."""


def find_binary(name: str, package: str) -> str:
    """Return the path of ``name``, looking also where Debian keeps Postgres.

    Raises:
        BinaryMissing: nothing of that name is installed.

    """
    found = shutil.which(name)
    if found:
        return found
    candidates = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if candidates:
        return str(candidates[-1])
    raise BinaryMissing(f"{name} is not installed: apt-get install {package}")


def storage_binaries_missing() -> str:
    """Return why Postgres and Redis cannot be started here, or an empty string when they can."""
    for name, package in (("initdb", "postgresql"), ("postgres", "postgresql"), ("redis-server", "redis-server")):
        try:
            find_binary(name, package)
        except BinaryMissing as missing:
            return str(missing)
    return ""


def _await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Return once ``port`` accepts connections; raise RuntimeError with the server's log when it does not."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"no server on port {port}: {log.read_text(errors='replace')[-2000:]}")


class _Server:
    """A child process that is started on a port and ended by its own pid."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server and return when it accepts connections."""
        raise NotImplementedError  # each server has its own command line

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server; SIGINT is a fast, clean shutdown for both programs."""
        if self.process is None:
            return
        # A stopped (frozen) process takes the signal only once it runs again.
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(how)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


class PrivatePostgres(_Server):
    """A Postgres with one superuser ``postgres``, no password; durability off, it is for tests.

    It listens on loopback only, unless ``options`` of its command line say otherwise.
    """

    def __init__(self, folder: Path, port: int, *options: str) -> None:
        super().__init__(folder, port)
        self.options = options

    @property
    def url(self) -> str:
        """The DATABASE_URL of its database ``ironauth``."""
        return f"postgres://postgres@127.0.0.1:{self.port}/ironauth"

    def start(self) -> None:
        """Make the cluster on first use, start it, and create the database."""
        self.folder.mkdir(parents=True, exist_ok=True)
        data = self.folder / "data"
        as_user: str | None = None
        if os.geteuid() == 0:  # Postgres refuses to run as root
            as_user = "postgres" if _user_exists("postgres") else "nobody"
            shutil.chown(self.folder, as_user)
            for parent in self.folder.parents:
                if parent.owner() == "root" and parent != Path("/") and not parent.stat().st_mode & 0o001:
                    parent.chmod(parent.stat().st_mode | 0o011)
        fresh = not data.exists()
        if fresh:
            command = [find_binary("initdb", "postgresql"), "-D", str(data), "-U", "postgres", "-A", "trust"]
            command += ["--no-sync", "-E", "UTF8", "--locale=C"]
            subprocess.run(command, check=True, user=as_user, stdout=subprocess.DEVNULL, cwd=self.folder)
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "max_connections": "60",
        }
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [find_binary("postgres", "postgresql"), "-D", str(data), *arguments, *self.options],
                stdout=log,
                stderr=log,
                user=as_user,
                cwd=self.folder,
                start_new_session=True,
            )
        _await_port(self.port, self.process, self.log)
        if fresh:
            createdb = [find_binary("createdb", "postgresql-client"), "-h", "127.0.0.1", "-p", str(self.port)]
            _retry([*createdb, "-U", "postgres", "ironauth"])


class PrivateRedis(_Server):
    """A Redis without persistence, loopback only unless ``options`` of its command line say otherwise."""

    def __init__(self, folder: Path, port: int, *options: str) -> None:
        super().__init__(folder, port)
        self.options = options

    @property
    def url(self) -> str:
        """The REDIS_URL of its first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it and return when it accepts connections."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [find_binary("redis-server", "redis-server"), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self.folder), *self.options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        _await_port(self.port, self.process, self.log)


class PrivateSentinel(_Server):
    """A Sentinel that watches a master named ``main``, which it takes for lost after half a second of silence."""

    def __init__(self, folder: Path, port: int, master: int, *, quorum: int = 1) -> None:
        super().__init__(folder, port)
        self._settings = (
            f"port {port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor main 127.0.0.1 {master} {quorum}\n"
            "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n"
        )

    def start(self) -> None:
        """Start it and return when it accepts connections; it keeps what it learns in its file of settings."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "sentinel.conf"
        if not settings.exists():
            settings.write_text(self._settings)
        command = [find_binary("redis-server", "redis-server"), str(settings), "--sentinel"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        _await_port(self.port, self.process, self.log)


def _user_exists(name: str) -> bool:
    """Return whether the system has a user of that name."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _retry(command: list[str]) -> None:
    """Run ``command`` until it succeeds: Postgres accepts connections a moment before it answers them."""
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        result = subprocess.run(command, check=False, capture_output=True)
        if result.returncode == 0:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(result.stderr.decode(errors="replace"))
        time.sleep(0.1)
