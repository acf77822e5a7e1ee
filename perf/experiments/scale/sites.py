"""Databases of several sizes side by side, each with a process that runs units of work on it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from ironauth.tests.services import BinaryMissing, PrivatePostgres, find_binary
from perf.experiments.scale.worker import Answer, Order
from perf.rig.processes import StartError, free_port, pin
from perf.rig.site_setup import ROOT, prepare, site_environment

SEED_S = 400.0  # longest that a million people may take
ANSWER_S = 200.0  # longest that one order may take
#: What a dedicated server would be given; checkpoints far apart, so that none falls into a round. A row's first change
#: after a checkpoint writes its whole page to the log, which only a large table does again and again: compressed.
POSTGRES_OPTIONS = (
    "fsync=on", "shared_buffers=2GB", "effective_cache_size=8GB", "max_wal_size=8GB", "checkpoint_timeout=30min",
    "wal_compression=lz4",
)  # fmt: skip
DATABASES = ("sqlite", "postgres")

type Key = tuple[str, int]  # database, number of people


class WorkerProcess:
    """``perf.experiments.scale.worker`` on one database; use as a context manager.

    Raises:
        StartError: it ended although it was given work; the message has its output.
    """

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "perf.experiments.scale.worker"],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the experiment, which ends it
            )
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process is not None:
            self._process.kill()  # it may be in the middle of an order nobody waits for any more
            self._process.communicate()

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self._process.pid if self._process else 0

    def carry_out(self, order: Order) -> Answer:
        """Send an order and wait for the answer."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            raise StartError("the worker has not been started")
        try:
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its last words follow
        line = self._process.stdout.readline()
        if not line:
            raise StartError(f"the worker ended at {order}:\n{self._log.read_text(errors='replace')[-2_000:]}")
        return msgspec.json.decode(line, type=Answer)


@dataclass(frozen=True)
class Sites:
    """The databases, seeded, and their workers."""

    environments: dict[Key, dict[str, str]]
    workers: dict[Key, WorkerProcess]
    postgres: PrivatePostgres

    @property
    def keys(self) -> list[Key]:
        """Every database, in the order they take turns."""
        return list(self.workers)

    def do(self, key: Key, order: str, *operations: str, count: int = 0) -> Answer:
        """Have the worker of a database carry out an order of ``worker``."""
        return self.workers[key].carry_out(Order(order, list(operations), count))


def start_postgres(folder: Path, stack: ExitStack) -> PrivatePostgres:
    """Start a Postgres that keeps what it commits.

    Raises:
        StartError: it is not installed.
    """
    options = [part for option in POSTGRES_OPTIONS for part in ("-c", option)]
    try:
        return stack.enter_context(PrivatePostgres(folder / "postgres", free_port(), *options))
    except BinaryMissing as missing:
        raise StartError(str(missing)) from missing


def unit_environment(folder: Path) -> dict[str, str]:
    """Return a production environment for processes that run units: time enough, and nothing but warnings logged."""
    return site_environment(folder, port=free_port(), hash_threads=1) | {
        "IRONAUTH_DATABASE_TIMEOUT_S": "30",
        "IRONAUTH_LOG_LEVEL": "WARNING",
    }


def start(folder: Path, stack: ExitStack, sizes: Sequence[int], say: Callable[[str], None]) -> Sites:
    """Migrate once on each kind of database, copy for each size, seed both kinds at once, start the workers.

    Raises:
        StartError: a preparing command failed or Postgres is missing.
    """
    postgres = start_postgres(folder, stack)
    base = unit_environment(folder)
    urls = {"sqlite": f"sqlite:///{folder / 'empty.sqlite3'}", "postgres": postgres.url}
    for url in urls.values():
        for command in ("migrate", "create_signing_key"):
            prepare(["manage.py", command, *(["--verbosity", "0"] if command == "migrate" else [])],
                    {**base, "DATABASE_URL": url})  # fmt: skip
    say(f"seeding {' and '.join(f'{size:,}' for size in sizes)} people on both databases")
    environments = sized(postgres, folder / "empty.sqlite3", base, sizes)
    workers = {
        key: stack.enter_context(WorkerProcess(environment, folder / f"worker-{key[0]}-{key[1]}.log"))
        for key, environment in environments.items()
    }
    _share_cores(workers, postgres)
    return Sites(environments, workers, postgres)


def sized(
    postgres: PrivatePostgres, empty: Path, base: Mapping[str, str], sizes: Sequence[int]
) -> dict[Key, dict[str, str]]:
    """Copy both migrated, empty databases for each size and seed the copies; return the environments that name them.

    Raises:
        StartError: seeding failed.
    """
    environments: dict[Key, dict[str, str]] = {}
    for size in sizes:
        path = empty.with_name(f"people-{size}.sqlite3")
        shutil.copyfile(empty, path)
        create_database(postgres, f"people_{size}")
        environments["sqlite", size] = {**base, "DATABASE_URL": f"sqlite:///{path}"}
        environments["postgres", size] = {**base, "DATABASE_URL": url_of(postgres, f"people_{size}")}

    def seed_all(database: str) -> None:
        for size in sizes:
            seed(environments[database, size], size)

    with ThreadPoolExecutor(len(DATABASES)) as threads:
        for done in [threads.submit(seed_all, database) for database in DATABASES]:
            done.result()
    return environments


def seed(environment: dict[str, str], people: int) -> None:
    """Run ``perf.rig.bulk_seed`` on the database of the environment.

    Raises:
        StartError: it failed; the message has its output.
    """
    done = subprocess.run(
        [sys.executable, "-m", "perf.rig.bulk_seed", "--users", str(people)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SEED_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise StartError(f"seeding ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def url_of(postgres: PrivatePostgres, name: str) -> str:
    """Return the address of one of its databases."""
    return f"{postgres.url.rpartition('/')[0]}/{name}"


def create_database(postgres: PrivatePostgres, name: str) -> None:
    """Copy the migrated, empty database."""
    createdb = [find_binary("createdb", "postgresql-client"), "-h", "127.0.0.1", "-p", str(postgres.port)]
    subprocess.run([*createdb, "-U", "postgres", "-T", "ironauth", name], check=True, capture_output=True)


def _share_cores(workers: dict[Key, WorkerProcess], postgres: PrivatePostgres) -> None:
    """Give the workers the first core and Postgres the last, as a server and its database have their own."""
    cores = sorted(os.sched_getaffinity(0))
    for worker in workers.values():
        pin(worker.pid, {cores[0]})
    if postgres.process is not None:
        pin(postgres.process.pid, {cores[-1]})
