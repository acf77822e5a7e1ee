"""Servers with people and one client of theirs: on small databases, and on databases of several sizes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ironauth.config.checks import default_hash_threads
from perf.experiments.scale.sites import sized, start_postgres
from perf.load.oauth_client import application_of, make_client
from perf.load.oauth_messages import Application
from perf.rig.processes import Server, free_port
from perf.rig.site_setup import prepare_site, private_servers, serve, site_environment

PEOPLE = 2_000  # who take turns in signing in


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
    postgres = start_postgres(folder, stack)
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
        for key, environment in sized(postgres, empty, base, sizes).items()
    }


def _open(log: Path, environment: dict[str, str], client: Mapping[str, str], stack: ExitStack) -> Site:
    server = serve(log, free_port(), environment, stack)
    return Site(server, application_of(server.host, environment["IRONAUTH_ISSUER"], client))
