"""Two nodes, the Postgres and Redis they share, and nginx in front of them, as deploy/ describes it."""

import os
import re
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from ironauth.tests.services import PrivatePostgres, PrivateRedis
from perf.http_client import Connection
from perf.nodes import network
from perf.rig import nginx
from perf.rig.processes import Server, StartError, worker_pids
from perf.rig.seed import SeededSession
from perf.rig.site_setup import ROOT, installed, prepare_site, site_environment

HOST = nginx.HOST
PORT = 8000
POSTGRES_PORT, REDIS_PORT = 5432, 6379
CLIENTS = 12  # addresses of clients: nginx counts requests by address
NAMES = {11: "a", 12: "b"}  # by the last byte of the address, as deploy/nginx/upstream-nodes.conf has them
RENEWED_S = 60.0  # longest that all workers may take to be replaced
#: The hash costs the least that start-up allows, and gives way to nothing: these runs are about everything else.
CHEAP_HASH = {
    "IRONAUTH_ARGON2_TIME_COST": "2",
    "IRONAUTH_ARGON2_MEMORY_KIB": "19456",
    "IRONAUTH_HASH_NICE": "0",
    "IRONAUTH_HASH_MAX_WAIT_S": "10",
}


class Node(Server):
    """One machine with a server of IronAuth on it."""

    def __init__(self, machine: network.Machine, environment: dict[str, str], workers: int, log: Path) -> None:
        serve = [sys.executable, "manage.py", "serve", "--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104 - in its own namespace
        super().__init__(
            machine.within(*serve, "--workers", str(workers), "--refuse-until-ready"),
            folder=ROOT, port=PORT, environment=environment, log=log,
            address=machine.address("side"), host=HOST, ready="/health",
        )  # fmt: skip
        self.machine = machine

    @property
    def name(self) -> str:
        """What the report calls it."""
        return self.machine.name.upper()

    def connection(self, patience_s: float = 20.0) -> Connection:
        """Return a connection to it alone, past nginx, on the laboratory's link."""
        return Connection(self.address, host=HOST, patience_s=patience_s)

    def renew(self) -> None:
        """Ask for new workers (SIGHUP), and return when the old ones have gone."""
        before = {*worker_pids(self.pid)}
        os.kill(self.pid, signal.SIGHUP)
        deadline = time.monotonic() + RENEWED_S
        while before.intersection(worker_pids(self.pid)):
            if time.monotonic() > deadline:
                raise StartError(f"node {self.name} did not renew its workers in {RENEWED_S:.0f} s")
            time.sleep(0.05)

    def errors(self) -> list[str]:
        """Return the lines of its log that tell of a defect."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if '"level":"error"' in line or '"level":"critical"' in line]


class Site:
    """Everything, and the people who use it; ``stack`` ends it."""

    def __init__(self, folder: Path, stack: ExitStack, *, people: int, workers: int) -> None:
        self.folder = folder
        network.lay(CLIENTS)
        environment = self._storage(stack)
        self._free = list(enumerate(prepare_site(environment, people=people, superuser=True, sessions=True)))
        self._free.reverse()  # the first, who has every right, is taken last
        self._settings: dict[str, str] | None = None  # with which the nodes run
        machines = [network.Machine(name, host, stack) for host, name in NAMES.items()]
        self.nodes = [Node(one, environment, workers, folder / f"node-{one.name}.log") for one in machines]
        for node in self.nodes:
            stack.callback(node.stop)
        self._nginx(stack)

    @property
    def a(self) -> Node:
        """The node that people act at."""
        return self.nodes[0]

    @property
    def b(self) -> Node:
        """The node that has to hear of it."""
        return self.nodes[1]

    def start(self, **settings: str) -> None:
        """See that both nodes run, with ``settings`` in place of the site's own."""
        if settings == self._settings:
            return
        self._settings = settings
        for node in self.nodes:
            node.stop()
            node.start(**settings)

    def person(self) -> tuple[int, SeededSession]:
        """Return somebody who was not used yet: their number and the session they have.

        Raises:
            StartError: all were.
        """
        if not self._free:
            raise StartError("the site has too few people for the cases asked for")
        return self._free.pop()

    def direct(self, node: Node) -> Connection:
        """Return a connection to one node, past nginx."""
        return node.connection()

    def through_nginx(self, number: int) -> Connection:
        """Return a connection to nginx, from an address of its own."""
        source = network.address("web", 100 + number % CLIENTS)
        tls = nginx.trust(self._authority.file)
        return Connection((network.address("web"), 443), host=HOST, source=source, tls=tls, patience_s=30)

    def generation(self, session_id: str) -> int:
        """Return how often a session was renewed, as the database has it."""
        query = f"SELECT generation FROM tokens_session WHERE id = '{session_id}'"  # noqa: S608 - an id that the site made
        where = ["-h", network.address("postgres"), "-p", str(POSTGRES_PORT), "-U", "postgres", "-d", "ironauth"]
        return int(network.run("psql", *where, "-tAc", query))

    def _storage(self, stack: ExitStack) -> dict[str, str]:
        """Start Postgres and Redis, each on its own bridge; return the environment of a node."""
        hba = self.folder / "pg_hba.conf"
        hba.write_text("local all all trust\nhost all all 127.0.0.1/32 trust\nhost all all samenet trust\n")
        hba.chmod(0o644)
        postgres, redis = network.address("postgres"), network.address("redis")
        options = ("-c", f"listen_addresses=127.0.0.1,{postgres}", "-c", f"hba_file={hba}")
        with installed():
            stack.enter_context(PrivatePostgres(self.folder / "postgres", POSTGRES_PORT, *options))
            bind = ("--bind", f"127.0.0.1 {redis}", "--protected-mode", "no")
            stack.enter_context(PrivateRedis(self.folder / "redis", REDIS_PORT, *bind))
        return site_environment(self.folder, port=PORT, hash_threads=2) | CHEAP_HASH | {
            "ALLOWED_HOSTS": HOST,
            "IRONAUTH_ISSUER": f"https://{HOST}",
            "IRONAUTH_TRUSTED_PROXIES": network.address("web"),
            "IRONAUTH_ACCESS_LOG": "0",
            "DATABASE_URL": f"postgres://postgres@{postgres}:{POSTGRES_PORT}/ironauth",
            "REDIS_URL": f"redis://{redis}:{REDIS_PORT}/0",
        }  # fmt: skip

    def _nginx(self, stack: ExitStack) -> None:
        """Start nginx with the files of deploy/ and the step of its README that makes them serve several nodes."""
        folder = self.folder / "nginx"
        changes = [(f"10.0.0.{host}:", f"{network.address('web', host)}:") for host in NAMES]
        self._authority = nginx.copy_files(folder, changes)
        network.run("sh", "-euc", several_nodes().replace("/etc/nginx/ironauth/", f"{folder}/conf/"))
        nginx.start(folder, stack)


def several_nodes() -> str:
    """Return the command of docs/operate/deploy.md that names the nodes to nginx.

    Raises:
        StartError: the section has none any more.
    """
    text = (ROOT / "docs" / "operate" / "deploy.md").read_text(encoding="utf-8")
    section = text.partition("\n## Several nodes\n")[2].partition("\n## ")[0]
    found = re.search(r"^ *sed -i .*ironauth\.conf$", section, re.MULTILINE)
    if found is None:
        raise StartError('docs/operate/deploy.md, "Several nodes" has no line with sed for ironauth.conf')
    return found[0]
