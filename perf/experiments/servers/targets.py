"""What the experiment on servers loads: each server on a port and behind nginx, and the people who use them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ssl import SSLContext

from perf.lab import Lab
from perf.load.closed_loop import run_load
from perf.load.sources import Constant, Exchange, Refresh, SignIn, Source, TokenPair, get
from perf.rig import nginx
from perf.rig.app_servers import TITLES, command
from perf.rig.nginx import LOOPBACK, Nginx
from perf.rig.processes import Server, StartError, free_port
from perf.rig.seed import PASSWORD, email_of, read_sessions
from perf.rig.site_setup import ROOT, prepare, prepare_site, site_environment

CONNECTIONS = 16  # of every workload but sign-in, which has one: its latency is the question
DIRECT, BEHIND = "direct", "nginx, TLS 1.3, Unix socket"
_EXCHANGE_S = 20.0  # longest time to refresh CONNECTIONS sessions


@dataclass(frozen=True)
class Target:
    """A server and the way to it."""

    name: str
    way: str
    server: Server
    address: tuple[str, int]
    tls: SSLContext | None = None

    @property
    def title(self) -> str:
        """How tables name it."""
        return f"{TITLES[self.name]}, {self.way}"


class Supplies:
    """Tokens and people of one run; every server knows them, since all have one database."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.refresh_tokens = iter(tokens)
        self.emails: Iterator[str] = itertools.cycle([email_of(serial) for serial in range(len(tokens))])

    def sources(self, workload: str, target: Target, pairs: Sequence[TokenPair]) -> Sequence[Source]:
        """Return the connections of one window; ``pairs``: people whose access tokens are read with."""
        host = f"{LOOPBACK}:{target.address[1]}"
        if workload == "ping":
            return [Constant(get("/ping", host)) for _ in range(CONNECTIONS)]
        if workload == "me":
            return [Constant(get("/api/v1/access/me", host, pair.access_token)) for pair in pairs]
        if workload == "refresh":
            return [Refresh(host, token) for token in itertools.islice(self.refresh_tokens, CONNECTIONS)]
        return [SignIn(host, self.emails, PASSWORD)]

    def exchange(self, target: Target) -> list[TokenPair]:
        """Return a fresh token pair for each connection.

        Raises:
            StartError: the server refused.
        """
        pairs: list[TokenPair] = []
        tokens = itertools.islice(self.refresh_tokens, CONNECTIONS)
        result = run_load(target.address, [Exchange(target.server.host, tokens, pairs)], seconds=_EXCHANGE_S)
        if len(pairs) < CONNECTIONS:
            raise StartError(f"{len(pairs)} of {CONNECTIONS} sessions could be used: {dict(result.failures)}")
        return pairs


def start(lab: Lab) -> tuple[list[Target], Nginx, Supplies]:
    """Start nginx, and every server twice: on a port, and on a socket behind nginx.

    Raises:
        StartError: nginx is not installed, or something did not start.
    """
    sockets = {name: lab.folder / f"{name}.sock" for name in TITLES}
    proxy = nginx.start(lab.folder / "nginx", sockets, lab.stack)
    windows = (lab.rounds + 1) * (2 * len(TITLES) + 1) * CONNECTIONS
    environment = site_environment(lab.folder, port=free_port(), hash_threads=1)
    # As `manage.py serve` sets it for itself, so that a hash costs the same under each server.
    environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    prepare_site(environment, people=windows)
    kept = lab.folder / "sessions.json"
    prepare(["-m", "perf.rig.seed", "--sessions", str(windows), "--into", str(kept)], environment)
    targets = []
    for name in TITLES:
        port = free_port()
        server = _serve(lab, command(name, port), f"{name}-direct", port, environment)
        targets.append(Target(name, DIRECT, server, server.address))
    for name, socket in sockets.items():
        site = proxy.sites[name]
        believing = {**environment, "IRONAUTH_TRUSTED_PROXIES": "unix"}
        server = _serve(lab, command(name, socket), f"{name}-socket", site.plain, believing)
        targets.append(Target(name, BEHIND, server, (LOOPBACK, site.tls), proxy.context))
    return targets, proxy, Supplies([each.refresh_token for each in read_sessions(kept)])


def _serve(lab: Lab, arguments: list[str], name: str, port: int, environment: Mapping[str, str]) -> Server:
    log = lab.folder / f"{name}.log"
    return lab.stack.enter_context(Server(arguments, folder=ROOT, port=port, environment=environment, log=log))
