"""The servers of a benchmark run: the bare callable, and IronAuth with and without its hot lane on one database."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perf.load.oauth_messages import application_of, make_client
from perf.load.workloads import SEEDED_PEOPLE, Site
from perf.rig.processes import Server, free_port
from perf.rig.site_setup import ROOT, prepare_site, private_servers, serve, site_environment


@dataclass(frozen=True)
class Servers:
    """The servers, running; ``view`` is IronAuth once more, on the same database, with its hot lane off."""

    bare: Server
    ours: Server
    site: Site
    view: Server

    def named(self, name: Literal["bare", "ours", "site", "view"]) -> Server:
        """Return a server by its name in a workload."""
        return {"bare": self.bare, "ours": self.ours, "site": self.site.server, "view": self.view}[name]


def start_servers(
    folder: Path,
    *,
    hash_threads: int,
    stack: ExitStack,
    storage: Literal["sqlite", "postgres"] = "sqlite",
    workers: int = 1,
) -> Servers:
    """Prepare the database in ``folder`` and start the servers; ``stack`` ends them.

    ``workers``: of IronAuth itself; its twin without the hot lane and the bare callables always have one.

    Raises:
        StartError: a preparing command or a server failed; the message has its output.
    """
    port = free_port()
    environment = site_environment(folder, port=port, hash_threads=hash_threads)
    if storage == "postgres":
        environment |= private_servers(folder, stack)
    prepare_site(environment, people=SEEDED_PEOPLE)
    client = make_client(environment)
    server = serve(folder / "ironauth.log", port, environment, stack, workers=workers)
    view = serve(folder / "ironauth-view.log", free_port(), {**environment, "IRONAUTH_HOT_LANE": "0"}, stack)
    bare = _serve_bare(folder / "bare.log", environment, stack, "--stock")
    ours = _serve_bare(folder / "bare-ours.log", environment, stack)
    application = application_of(server.host, environment["IRONAUTH_ISSUER"], client)
    return Servers(bare, ours, Site(server, application), view)


def _serve_bare(log: Path, environment: dict[str, str], stack: ExitStack, *options: str) -> Server:
    port = free_port()
    command = [sys.executable, "-m", "perf.rig.bare_asgi", "--port", str(port), *options]
    return stack.enter_context(Server(command, folder=ROOT, port=port, environment=environment, log=log))
