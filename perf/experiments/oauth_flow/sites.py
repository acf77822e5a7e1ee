"""Servers with people and one client of theirs: on small databases, and on databases of several sizes."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ironauth.config.checks import default_hash_threads
from ironauth.tests.services import BinaryMissing, PrivatePostgres, find_binary
from perf.load.oauth_client import application_of, make_client
from perf.load.oauth_messages import Application
from perf.rig.processes import Server, StartError, free_port
from perf.rig.site_setup import ROOT, prepare_site, private_servers, serve, site_environment

PEOPLE = 2_000  # who take turns in signing in
SEED_S = 400.0  # longest that a million people may take
#: What a dedicated server would be given; checkpoints far apart, so that none falls into a round. A row's first change
#: after a checkpoint writes its whole page to the log, which only a large table does again and again: compressed.
POSTGRES_OPTIONS = (
    "fsync=on", "shared_buffers=2GB", "effective_cache_size=8GB", "max_wal_size=8GB", "checkpoint_timeout=30min",
    "wal_compression=lz4",
)  # fmt: skip

type Key = tuple[str, int]  # storage, number of people


@dataclass(frozen=True)
class Site:
    """A server, and what the client of its database knows."""

    server: Server
    application: Application


def start(folder: Path, storage: str, builds: Mapping[str, Path], stack: ExitStack) -> dict[str, Site]:
    """Start a server with each build of Argon2, all on one database of ``storage``; ``stack`` ends them.

    Raises:
        StartError: something is not installed, a preparing command failed, or a server did not start.
    """
    folder.mkdir()
    environment = site_environment(folder, port=free_port(), hash_threads=default_hash_threads())
    if storage == "postgres":
        environment |= private_servers(folder, stack)
    prepare_site(environment, people=PEOPLE)
    client = make_client(environment)
    return {
        name: _open(folder / f"server-{number}.log", {**environment, "PYTHONPATH": str(build)}, client, stack)
        for number, (name, build) in enumerate(builds.items())
    }


def start_sized(
    folder: Path, sizes: Sequence[int], stack: ExitStack, say: Callable[[str], None]
) -> dict[tuple[str, int], Site]:
    """Start a server on a database of each size, on SQLite and on Postgres; ``sizes``: people, and sessions.

    Raises:
        StartError: as ``start``.
    """
    folder.mkdir()
    postgres = _start_postgres(folder, stack)
    base = site_environment(folder, port=free_port(), hash_threads=default_hash_threads())
    empty = folder / "empty.sqlite3"
    urls = {"sqlite": f"sqlite:///{empty}", "postgres": postgres.url}
    clients = {}
    for storage, url in urls.items():
        environment = {**base, "DATABASE_URL": url}
        prepare_site(environment, people=PEOPLE)
        clients[storage] = make_client(environment)
    say(f"seeding {', '.join(f'{size:,}' for size in sizes)} sessions on both databases")
    return {
        key: _open(folder / f"server-{key[0]}-{key[1]}.log", environment, clients[key[0]], stack)
        for key, environment in _sized(postgres, empty, base, sizes).items()
    }


def _open(log: Path, environment: dict[str, str], client: Mapping[str, str], stack: ExitStack) -> Site:
    server = serve(log, free_port(), environment, stack)
    return Site(server, application_of(server.host, environment["IRONAUTH_ISSUER"], client))


def _start_postgres(folder: Path, stack: ExitStack) -> PrivatePostgres:
    """Start a Postgres that keeps what it commits.

    Raises:
        StartError: it is not installed.
    """
    options = [part for option in POSTGRES_OPTIONS for part in ("-c", option)]
    try:
        return stack.enter_context(PrivatePostgres(folder / "postgres", free_port(), *options))
    except BinaryMissing as missing:
        raise StartError(str(missing)) from missing


def _sized(
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
        _create_database(postgres, f"people_{size}")
        environments["sqlite", size] = {**base, "DATABASE_URL": f"sqlite:///{path}"}
        environments["postgres", size] = {**base, "DATABASE_URL": f"{postgres.url.rpartition('/')[0]}/people_{size}"}

    def seed_all(database: str) -> None:
        for size in sizes:
            _seed(environments[database, size], size)

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(seed_all, database) for database in ("sqlite", "postgres")]:
            done.result()
    return environments


def _seed(environment: dict[str, str], people: int) -> None:
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


def _create_database(postgres: PrivatePostgres, name: str) -> None:
    """Copy the migrated, empty database."""
    createdb = [find_binary("createdb", "postgresql-client"), "-h", "127.0.0.1", "-p", str(postgres.port)]
    subprocess.run([*createdb, "-U", "postgres", "-T", "ironauth", name], check=True, capture_output=True)
