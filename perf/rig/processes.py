"""Processes the benchmark starts: each in its own session, pinned to cores, metered, and ended by its pid."""

import os
import resource
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple, Self

READY_S = 30.0  # start-up deadline: migrations are done before, so only imports and one hash are in it
STOP_S = 10.0  # a server that has not ended this long after SIGTERM is killed
_POLL_S = 0.05
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_POLICY = 38  # field 41 of /proc/pid/stat, proc(5), counted after the name
_LOG_TAIL = 2_000  # characters of a dead server's output shown to the reader


class StartError(Exception):
    """A server ended or stayed silent instead of getting ready."""


@dataclass(frozen=True)
class Meter:
    """CPU time used so far, in seconds, and the moment it was read (monotonic seconds)."""

    at: float
    server: float
    client: float
    machine: float
    beside: float = 0.0  # what else this process started: databases, Redis, proxies


class ThreadTimes(NamedTuple):
    """CPU time in seconds: of the threads under SCHED_BATCH, which are the hash pool's, and of all others."""

    hashing: float
    rest: float


def free_port() -> int:
    """Return a loopback port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def process_tree(pid: int) -> list[int]:
    """Return ``pid`` and its living descendants."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found.extend(int(child) for child in _read(children).split())
    return found


def worker_pids(server: int) -> list[int]:
    """Return the processes that answer requests: the spawned ones of a supervisor, or the only worker itself."""
    spawned = []
    for pid in process_tree(server)[1:]:
        with suppress(OSError):  # it may have ended since it was listed
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                spawned.append(pid)
    return spawned or [server]


def pin(pid: int, cores: Iterable[int]) -> None:
    """Let every thread of the process and its descendants run on ``cores`` only (later threads inherit it)."""
    wanted = set(cores)
    for member in process_tree(pid):
        for task in Path(f"/proc/{member}/task").glob("*"):
            try:
                os.sched_setaffinity(int(task.name), wanted)
            except ProcessLookupError:
                continue  # the thread ended since the listing


def read_meter(server_pid: int) -> Meter:
    """Read the CPU time of a server's process tree, of this process, of what else it started, and of the machine."""
    serving = process_tree(server_pid)
    server = sum(_process_cpu_s(member) for member in serving)
    beside = sum(_process_cpu_s(member) for member in {*process_tree(os.getpid())} - {os.getpid(), *serving})
    own = resource.getrusage(resource.RUSAGE_SELF)
    fields = [int(ticks) for ticks in _read(Path("/proc/stat")).split("\n", 1)[0].split()[1:9]]
    busy = sum(fields) - fields[3] - fields[4]  # without idle and iowait, proc(5)
    return Meter(time.monotonic(), server, own.ru_utime + own.ru_stime, busy * _TICK_S, beside)


def thread_times(pid: int) -> ThreadTimes:
    """Return the CPU time that the living threads of a process and its descendants have had, by their class."""
    spent = {True: 0, False: 0}
    for member in process_tree(pid):
        for task in Path(f"/proc/{member}/task").glob("*"):
            fields, status = _read(task / "schedstat").split(), _read(task / "stat").rpartition(")")[2].split()
            if fields and status:
                spent[int(status[_POLICY]) == os.SCHED_BATCH] += int(fields[0])
    return ThreadTimes(spent[True] / 1e9, spent[False] / 1e9)


def environment_of(pid: int, name: str) -> str:
    """Return the value of a variable in a process' own environment, "" when it is not set."""
    for entry in _read(Path(f"/proc/{pid}/environ")).split("\0"):
        if entry.startswith(f"{name}="):
            return entry.split("=", 1)[1]
    return ""


class Server:
    """A server process, on a free loopback port unless it is told another address, its output added to a file.

    Use as a context manager: entering starts it and waits until ``ready`` answers 200, leaving ends it.

    Raises:
        StartError: it ended early or did not answer within ``READY_S``.
    """

    def __init__(
        self, arguments: list[str], *, folder: Path, port: int, environment: Mapping[str, str], log: Path,
        address: str = "127.0.0.1", host: str = "", ready: str = "/ping",
    ) -> None:  # fmt: skip
        self.port = port
        self.log = log
        self.address = address, port
        #: The value of the Host header.
        self.host = host or f"{address}:{port}"
        self._ready = ready
        self._arguments = arguments
        self._folder = folder
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id. Raises ``StartError`` before the start."""
        if self._process is None:
            raise StartError("the server has not been started")
        return self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self, **settings: str) -> None:
        """Start it, with ``settings`` in place of its environment's, and return when it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # its own session: Ctrl-C reaches only the benchmark, which ends it
                self._arguments,
                cwd=self._folder,
                env=self._environment | settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._wait_ready(self._process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the process and its descendants by pid: SIGTERM, then SIGKILL after ``STOP_S``."""
        if self._process is None:
            return
        members = process_tree(self._process.pid)
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for member in members[1:]:
            if Path(f"/proc/{member}").exists():
                os.kill(member, signal.SIGKILL)
        self._process = None

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_S
        url = f"http://{self.address[0]}:{self.port}{self._ready}"
        asked = urllib.request.Request(url, headers={"Host": self.host})
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise StartError(f"{' '.join(self._arguments)} ended with {process.returncode}:\n{self._tail()}")
            try:
                with urllib.request.urlopen(asked, timeout=2) as answer:  # noqa: S310 - our own server
                    if answer.status == HTTPStatus.OK:
                        return
            except (urllib.error.URLError, OSError):
                time.sleep(_POLL_S)
        raise StartError(
            f"{' '.join(self._arguments)} did not answer {self._ready} in {READY_S:.0f} s:\n{self._tail()}"
        )

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-_LOG_TAIL:]


def _process_cpu_s(pid: int) -> float:
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S if fields else 0.0  # utime, stime: proc(5)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""  # the process ended since it was listed
