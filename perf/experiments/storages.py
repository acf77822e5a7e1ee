"""SQLite in earnest beside Postgres: the swarm and a loop that only writes, at one and two workers."""

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ironauth.config.checks import default_hash_threads
from perf import plots
from perf.bench.measuring import load_round
from perf.findings import Check, Finding, Table
from perf.lab import Lab
from perf.load.sources import Refresh
from perf.load.workloads import Site as SignedIn
from perf.rig.processes import Server, free_port
from perf.rig.seed import email_of
from perf.rig.site_setup import ROOT, SET_UP_S, prepare_site, private_servers, serve, site_environment
from perf.summary import Round, spread
from perf.swarm import options as swarm_options
from perf.swarm.run import run
from perf.swarm.site import OwnSite, Site
from perf.swarm.summary import Summary

HYPOTHESIS = (
    "Under the swarm, which writes a few times a second, nobody can tell the two apart. One connection that only "
    "refreshes is faster on SQLite, which needs no other process; at 32 it has three quarters of Postgres' rate with "
    "one worker. A second worker brings SQLite nothing, since it has one writer, and costs its p99; Postgres gains a "
    "third. No request ever meets 'database is locked', and a backup taken meanwhile delays nobody."
)
STORAGES = {"sqlite": "SQLite", "postgres": "Postgres and Redis"}
WORKERS = (1, 2)
CLIENTS = (1, 8, 32)
SECONDS, QUICK_SECONDS, RAMP_S = 5.0, 1.0, 0.4
SWARM_S, QUICK_SWARM_S = 60.0, 15.0
BACKUP_EVERY_S = 5.0
LOCKED = b"database is locked"
#: What the table tells of the swarm: the requests most people wait for.
SHOWN = ("GET /me", "POST /signin", "POST /refresh", "POST /logout", "GET /sessions")
type Cell = tuple[str, int]  # storage and workers
type Rounds = dict[tuple[str, int, int], list[Round]]  # by storage, workers and clients


@dataclass
class Watched:
    """What was seen beside one swarm. ``backups``: how long each took, in seconds; ``damaged``: those that failed."""

    locked: int = 0
    backups: list[float] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    folder: Path = Path()

    @contextmanager
    def beside(self, site: Site) -> Iterator[None]:
        """Take backups of a SQLite site until the block ends, then look for locks in its server's log."""
        assert isinstance(site, OwnSite)  # no --host here
        over = threading.Event()
        taking = threading.Thread(target=self._back_up, args=(site.environment, over), daemon=True)
        if site.environment["DATABASE_URL"].startswith("sqlite"):
            taking.start()
        try:
            yield
        finally:
            over.set()
            if taking.ident is not None:
                taking.join()
        self.locked = site.server.log.read_bytes().count(LOCKED)

    def _back_up(self, environment: dict[str, str], over: threading.Event) -> None:
        while not over.wait(BACKUP_EVERY_S):
            target = self.folder / f"backup-{len(self.backups)}-{time.monotonic_ns()}.sqlite3"
            began = time.monotonic()
            # It checks the copy (PRAGMA quick_check) and fails where that finds anything.
            done = subprocess.run(
                [sys.executable, "manage.py", "backup", str(target)],
                cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SET_UP_S, check=False,
            )  # fmt: skip
            self.backups.append(time.monotonic() - began)
            if done.returncode:
                self.damaged.append(done.stderr)
            target.unlink(missing_ok=True)


def measure(lab: Lab) -> Finding:
    """Let a swarm loose on each storage at one and two workers, then only refresh, in rounds."""
    swarms: dict[Cell, tuple[Summary, Watched]] = {}
    for storage, workers in itertools.product(STORAGES, WORKERS):
        lab.say(f"swarm: {STORAGES[storage]}, {_workers(workers)}")
        watched = Watched(folder=lab.folder)
        swarms[storage, workers] = _swarm(lab, storage, workers, watched), watched
    rounds, locked = _refreshes(lab)
    bars = {
        f"{STORAGES[storage]}, {_workers(workers)}, {clients} clients": spread([one.rate for one in each]).median
        for (storage, workers, clients), each in rounds.items()
    }
    path = lab.plot()
    plots.bars(path, "Refreshes by storage, workers and clients", bars, unit="refreshes/s")
    return finding(swarms, rounds, locked, [path.name])


def _swarm(lab: Lab, storage: str, workers: int, watched: Watched) -> Summary:
    seconds = QUICK_SWARM_S if lab.quick else SWARM_S
    arguments = ["--storage", storage, "--workers", str(workers), "--seconds", str(seconds)]
    arguments += ["--results", str(lab.folder / "swarm" / f"{storage}-{workers}"), *(["--quick"] if lab.quick else [])]
    summary = run(swarm_options.parse(arguments), beside=watched.beside)
    assert summary is not None  # only Locust's page ends without
    return summary


def _refreshes(lab: Lab) -> tuple[Rounds, int]:
    """Refresh in closed loops; also return how often the servers' logs name a lock."""
    servers: dict[Cell, tuple[Server, list[Refresh]]] = {}
    for storage, named in STORAGES.items():
        folder = lab.folder / storage
        folder.mkdir()
        port = free_port()
        environment = site_environment(folder, port=port, hash_threads=default_hash_threads())
        if storage == "postgres":
            environment |= private_servers(folder, lab.stack)
        lab.say(f"preparing {named} and {len(WORKERS)} servers")
        prepare_site(environment, people=max(CLIENTS))
        for number, workers in enumerate(WORKERS):
            log = folder / f"{workers}.log"
            server = serve(log, free_port() if number else port, environment, lab.stack, workers=workers)
            pairs = SignedIn(server, itertools.cycle(map(email_of, range(max(CLIENTS))))).sign_in(max(CLIENTS))
            servers[storage, workers] = server, [Refresh(server.host, pair.refresh_token) for pair in pairs]
    rounds: Rounds = {}
    for number in range(1, lab.rounds + 1):
        for clients, (cell, (server, sessions)) in itertools.product(CLIENTS, servers.items()):
            seconds = QUICK_SECONDS if lab.quick else SECONDS
            # No answer is lost, so a session's token is known, and goes on, in the next round.
            made = load_round(server, sessions[:clients], seconds=seconds, ramp_s=RAMP_S)
            rounds.setdefault((*cell, clients), []).append(made)
        lab.say(f"round {number}: " + ", ".join(f"{each[-1].rate:,.0f}/s" for each in rounds.values()))
    return rounds, sum(server.log.read_bytes().count(LOCKED) for server, _ in servers.values())


def finding(swarms: dict[Cell, tuple[Summary, Watched]], rounds: Rounds, locked: int, drawn: list[str]) -> Finding:
    """Say what was found; ``locked``: how often the logs of the servers that only refreshed name a lock."""
    met = locked + sum(watched.locked for _, watched in swarms.values())
    backups = [took for _, watched in swarms.values() for took in watched.backups]
    damaged = [error for _, watched in swarms.values() for error in watched.damaged]
    shed = sum(sum(summary.result.tally.shed.values()) for summary, _ in swarms.values())
    failed = sum(summary.result.failed for summary, _ in swarms.values())
    failed += sum(one.failed for each in rounds.values() for one in each) + len(damaged)
    checks = [
        Check("'database is locked' in the servers' logs", 0, met, ceiling=True),
        Check("requests of the swarms that were shed", 0, shed, ceiling=True),
        Check("refreshes that were shed", 0, sum(one.shed for each in rounds.values() for one in each), ceiling=True),
        Check("backups under the swarm that failed", 0, len(damaged), ceiling=True),
    ]
    notes = [
        (
            f"Backups taken by `manage.py backup` while the swarm wrote: {len(backups)}, the longest in "
            f"{max(backups, default=0.0):.1f} s, starting Python included; each was checked by SQLite."
        ),
        (
            "The swarm is that of `make swarm`; servers and load generator share every core. Refreshes: each client "
            "rotates a session of its own, every answer is a committed write, and both storages wait for the disk."
        ),
        *damaged,
    ]
    data = {
        "swarms": {f"{STORAGES[one]}, {_workers(count)}": made.result for (one, count), (made, _) in swarms.items()},
        "refreshes": {
            f"{STORAGES[one]}, {_workers(count)}, {each}": made for (one, count, each), made in rounds.items()
        },
    }
    return Finding([_swarm_table(swarms), _write_table(rounds)], checks, drawn, notes, data=data, failed=failed)


def _swarm_table(swarms: dict[Cell, tuple[Summary, Watched]]) -> Table:
    columns = ["swarm", "requests/s", "failed", "503", "locked", *(f"{name}: p50 / p95 / p99 ms" for name in SHOWN)]
    rows = []
    for (storage, workers), (summary, watched) in swarms.items():
        result = summary.result
        times = {
            f"{entry.method} {entry.name}": f"{entry.p50_ms:g} / {entry.p95_ms:g} / {entry.p99_ms:g}"
            for entry in result.entries
            if entry.p50_ms is not None
        }
        rows.append(
            [
                f"{STORAGES[storage]}, {_workers(workers)}",
                f"{result.requests / result.seconds:.1f}",
                f"{result.failed}",
                f"{sum(result.tally.shed.values())}",
                f"{watched.locked}",
                *(times.get(name, "-") for name in SHOWN),
            ]
        )
    return Table("The swarm", columns, rows)


def _write_table(rounds: Rounds) -> Table:
    rows = []
    for (storage, workers, clients), each in rounds.items():
        rate = spread([one.rate for one in each])
        rows.append(
            [
                f"{STORAGES[storage]}, {_workers(workers)}",
                f"{clients}",
                f"{rate.median:,.0f} ({rate.low:,.0f}-{rate.high:,.0f})",
                f"{spread([one.p50_ms for one in each]).median:.2f}",
                f"{spread([one.p99_ms for one in each]).median:.1f}",
                f"{sum(one.shed for one in each)}",
                f"{spread([one.server_cpu_us for one in each]).median:,.0f}",
            ]
        )
    columns = ["refreshes only", "clients", "refreshes/s (low-high)", "p50 ms", "p99 ms", "503", "server CPU µs"]
    return Table("Writes", columns, rows)


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"
