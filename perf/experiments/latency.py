"""Latency of every endpoint that needs no password hash, at one connection, on SQLite and on Postgres with Redis."""

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ironauth.config.checks import default_hash_threads
from perf import plots
from perf.findings import Check, Finding, Table
from perf.lab import Lab
from perf.load.closed_loop import LoadResult, run_load
from perf.load.endpoints import ENDPOINTS, ROLE, STAFF, Endpoint, Member, Supply
from perf.load.sources import CREATED, Exchange, Listed, TokenPair, send
from perf.rig.processes import Server, StartError, free_port, pin, run_time_s
from perf.rig.seed import read_sessions
from perf.rig.site_setup import prepare, prepare_site, private_servers, serve, site_environment
from perf.summary import percentile_ms

HYPOTHESIS = (
    "Every endpoint that needs no password hash answers within 3 ms in the median at one connection, on both storages: "
    "a hot read takes about 0.1 ms, a view without the database 0.3 ms, a read 1 ms, and a write 2 ms, the larger part "
    "of it the disk's fsync."
)
LIMIT_MS = 3.0  # promised for the median
REQUESTS, QUICK_REQUESTS = 150, 40  # of each endpoint in a round; three rounds make 450
WARM_UP = 10  # requests before those that count, in each round
STORAGES = {"sqlite": "SQLite", "postgres": "Postgres and Redis"}
_PATIENCE_S = 60.0  # longest round of one endpoint; it ends with its last request
_PEOPLE_KINDS = 10  # endpoints that use up people, and one to spare


@dataclass
class Measured:
    """What one endpoint showed on one storage; latencies in ns, the server's CPU time in seconds for all requests."""

    latencies: list[int] = field(default_factory=list)
    cpu_s: float = 0.0
    requests: int = 0
    failures: dict[str, int] = field(default_factory=dict)

    def add(self, result: LoadResult, cpu_s: float) -> None:
        """Take a round in, its latencies without those of the warm-up."""
        self.latencies += result.latencies_ns[WARM_UP:]
        self.cpu_s += cpu_s
        self.requests += len(result.latencies_ns)
        for reason, count in result.failures.items():
            self.failures[reason] = self.failures.get(reason, 0) + count
        if result.shed:
            self.failures["503"] = self.failures.get("503", 0) + result.shed

    def ms(self, percent: float) -> float:
        """Return a percentile in ms; infinite without a single answer, so that no promise is met by silence."""
        return percentile_ms(sorted(self.latencies), percent) if self.latencies else float("inf")

    @property
    def cpu_ms(self) -> float:
        """The server's CPU time for one request; what Postgres and Redis use is not in it."""
        return 1_000 * self.cpu_s / self.requests if self.requests else 0.0


def measure(lab: Lab) -> Finding:
    """Ask every endpoint over one connection, on one storage after the other."""
    cores = os.sched_getaffinity(0)
    measured: dict[str, list[Measured]] = {}
    for storage, name in STORAGES.items():
        os.sched_setaffinity(0, cores)
        lab.say(f"preparing {name}")
        folder = lab.folder / storage
        folder.mkdir()
        with ExitStack() as stack:
            measured[name] = _measure_storage(lab, folder, storage, stack, cores)
    drawn = []
    for storage, name in STORAGES.items():
        medians = {
            endpoint.title.replace("`", ""): each.ms(50)
            for endpoint, each in zip(ENDPOINTS, measured[name], strict=True)
        }
        path = lab.plot(storage)
        plots.bars(path, f"Median latency at one connection, {name}", medians, unit="ms")
        drawn.append(path.name)
    return finding(measured, drawn)


def finding(measured: dict[str, list[Measured]], drawn: list[str]) -> Finding:
    """Say what was found; ``measured`` has the endpoints' results in their order, by storage."""
    every = [
        (name, endpoint, each)
        for name, endpoints in measured.items()
        for endpoint, each in zip(ENDPOINTS, endpoints, strict=True)
    ]
    checks = [
        Check(f"slowest median, {name} ({endpoint.title})", LIMIT_MS, each.ms(50), ceiling=True, unit=" ms")
        for name, endpoints in measured.items()
        for endpoint, each in [_slowest(endpoints)]
    ]
    data: dict[str, Any] = {name: {} for name in measured}
    for name, endpoint, each in every:
        figures = {"p50_ms": each.ms(50), "p99_ms": each.ms(99), "cpu_ms": each.cpu_ms, "answers": len(each.latencies)}
        data[name][endpoint.title] = figures
    failed = sum(sum(each.failures.values()) for _, _, each in every)
    return Finding([_table(measured)], checks, drawn, _notes(every), data=data, failed=failed)


def _table(measured: dict[str, list[Measured]]) -> Table:
    columns = ["endpoint"]
    for name in measured:
        columns += [f"{name}: p50 ms", "p99 ms", "server CPU ms"]
    rows = []
    for at, endpoint in enumerate(ENDPOINTS):
        figures = [(each[at].ms(50), each[at].ms(99), each[at].cpu_ms) for each in measured.values()]
        rows.append([endpoint.title, *(f"{figure:.2f}" for three in figures for figure in three)])
    return Table("One connection", columns, rows)


def _notes(every: list[tuple[str, Endpoint, Measured]]) -> list[str]:
    """Say how it was measured, what took too long, and what went wrong."""
    counted = min(len(each.latencies) for _, _, each in every)
    return [
        (
            f"One keep-alive connection, at least {counted} answers of each endpoint, in rounds, after {WARM_UP} each "
            "to warm up. One worker pinned to the first core, the client on the last; Postgres and Redis on every core."
        ),
        "The CPU time is the server's alone. Tokens that end something are new to the server: it verifies each first.",
        "Commits wait for the disk: synchronous=FULL on SQLite, fsync on Postgres.",
        *(
            f"Over {LIMIT_MS:g} ms: {endpoint.title} on {name}: {each.ms(50):.2f} ms"
            for name, endpoint, each in every
            if endpoint.promised and each.ms(50) > LIMIT_MS
        ),
        *(
            f"{endpoint.title} on {name}: {reason}: {count}"
            for name, endpoint, each in every
            for reason, count in each.failures.items()
        ),
    ]


def _slowest(endpoints: list[Measured]) -> tuple[Endpoint, Measured]:
    promised = [pair for pair in zip(ENDPOINTS, endpoints, strict=True) if pair[0].promised]
    return max(promised, key=lambda pair: pair[1].ms(50))


def _measure_storage(lab: Lab, folder: Path, storage: str, stack: ExitStack, cores: set[int]) -> list[Measured]:
    count = (QUICK_REQUESTS if lab.quick else REQUESTS) + WARM_UP
    port = free_port()
    environment = site_environment(folder, port=port, hash_threads=default_hash_threads())
    if storage == "postgres":
        environment |= private_servers(folder, stack)
    people = _PEOPLE_KINDS * lab.rounds * count
    prepare_site(environment, people=people)
    kept = folder / "sessions.json"
    prepare(["-m", "perf.rig.seed", "--superuser", "--sessions", str(people), "--into", str(kept)], environment)
    site = serve(folder / "site.log", port, environment, stack)
    supply = _supply(site, kept)
    measured = [Measured() for _ in ENDPOINTS]
    _ask(lab, site, "site", supply, count, measured)
    site.stop()  # one worker is promised: a second one would hear every invalidation on the same core
    os.sched_setaffinity(0, cores)
    view = serve(folder / "view.log", free_port(), {**environment, "IRONAUTH_HOT_LANE": "0"}, stack)
    _ask(lab, view, "view", supply, count, measured)
    return measured


def _ask(lab: Lab, server: Server, name: str, supply: Supply, count: int, measured: list[Measured]) -> None:
    """Ask the endpoints that ``server`` is for, in rounds."""
    cores = os.sched_getaffinity(0)
    pin(server.pid, {min(cores)})
    os.sched_setaffinity(0, {max(cores)})
    for number in range(1, lab.rounds + 1):
        lab.say(f"{name}, round {number}")
        for endpoint, each in zip(ENDPOINTS, measured, strict=True):
            if endpoint.server != name:
                continue
            source = endpoint.source(supply, count)
            before = run_time_s(server.pid)
            result = run_load(server.address, [source], seconds=_PATIENCE_S)
            each.add(result, run_time_s(server.pid) - before)


def _supply(site: Server, kept: Path) -> Supply:
    """Exchange the seeded sessions' refresh tokens for pairs, and make the role.

    Raises:
        StartError: the site refused.
    """
    sessions = read_sessions(kept)
    pairs: list[TokenPair] = []
    tokens = [session.refresh_token for session in sessions]
    result = run_load(site.address, [Exchange(site.host, tokens, pairs)], seconds=2 * _PATIENCE_S)
    if len(pairs) < len(sessions):
        raise StartError(f"{len(pairs)} of {len(sessions)} sessions could be used: {dict(result.failures)}")
    staff, reader, *others = (Member(session, pair) for session, pair in zip(sessions, pairs, strict=True))
    role = send("POST", f"{STAFF}/roles", site.host, {"name": ROLE}, staff.pair.access_token)
    made = run_load(site.address, [Listed([role], statuses=(CREATED,))], seconds=_PATIENCE_S)
    if made.failures:
        raise StartError(f"the role {ROLE} could not be made: {dict(made.failures)}")
    return Supply(site.host, staff, reader, iter(others))
