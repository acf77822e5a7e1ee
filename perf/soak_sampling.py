"""What a serving IronAuth holds, looked at from outside every few seconds: memory, files, threads, connections."""

import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

import msgspec
import psycopg

from perf.rig.processes import worker_pids
from perf.rig.sampling import Watcher

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_ENTRIES: Final = "ironauth_cache_entries"
_BACKENDS: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
SQLITE: Final = "sqlite:///"


class Worker(msgspec.Struct, frozen=True):
    """What one worker process holds."""

    rss_bytes: int
    files: int
    threads: int


class Sample(msgspec.Struct, frozen=True):
    """One look. ``at_s``: seconds since the sampler was entered; None where there is no such thing."""

    at_s: float
    workers: dict[int, Worker]  # by process id
    wal_bytes: int | None = None
    backends: int | None = None
    l1_entries: int | None = None


class SoakSampler(Watcher):
    """Looks at the server ``pid`` while it is entered; ``samples`` is complete after leaving.

    ``database``: its DATABASE_URL. ``metrics``: the address of its ``/metrics``, read with ``token``.
    """

    def __init__(self, pid: int, *, database: str, metrics: str, token: str, interval_s: float) -> None:
        super().__init__()
        self.samples: list[Sample] = []
        self.began = 0.0  # unix seconds
        self._pid = pid
        self._database = database
        self._metrics = metrics
        self._token = token
        self._interval_s = interval_s

    def _run(self) -> None:
        self.began = time.time()
        while True:
            self.samples.append(self.look())
            if self._over.wait(self._interval_s):
                return

    def look(self) -> Sample:
        """Look once; what does not answer at this moment is None."""
        workers = {pid: held for pid in worker_pids(self._pid) if (held := held_by(pid)) is not None}
        sqlite = self._database.startswith(SQLITE)
        return Sample(
            time.time() - self.began,
            workers,
            wal_bytes=wal_bytes(self._database.removeprefix(SQLITE)) if sqlite else None,
            backends=None if sqlite else backends(self._database),
            l1_entries=self._entries(),
        )

    def _entries(self) -> int | None:
        request = urllib.request.Request(self._metrics, headers={"Authorization": f"Bearer {self._token}"})  # noqa: S310 - http on loopback, our own server's
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - as above
                return entries_in(answer.read().decode())
        except (urllib.error.URLError, OSError):
            return None


def held_by(pid: int) -> Worker | None:
    """Return what a process holds; None when it has ended."""
    folder = Path(f"/proc/{pid}")
    try:
        rss = int((folder / "statm").read_bytes().split()[1]) * _PAGE
        files = len(list((folder / "fd").iterdir()))
        threads = len(list((folder / "task").iterdir()))
    except OSError:
        return None
    return Worker(rss, files, threads)


def wal_bytes(database: str) -> int:
    """Return the size of a SQLite file's write-ahead log; 0 while there is none."""
    try:
        return Path(f"{database}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def backends(url: str) -> int | None:
    """Return how many connections a Postgres database has, this one not counted; None when it cannot be asked."""
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            row = connection.execute(_BACKENDS).fetchone()
    except psycopg.OperationalError:
        return None
    return int(row[0]) if row else None


def entries_in(metrics: str) -> int:
    """Return the L1 entries of all workers that Prometheus' text tells."""
    return sum(round(float(line.rsplit(" ", 1)[1])) for line in metrics.splitlines() if line.startswith(_ENTRIES))
