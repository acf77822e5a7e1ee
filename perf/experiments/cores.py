"""What a second core and a second worker bring: hot reads, views, refreshes and sign-ins."""

import itertools
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ironauth.config.checks import default_hash_threads
from perf import plots
from perf.bench.measuring import CONNECTIONS_PER_HASH_THREAD, load_round
from perf.findings import Finding, Table
from perf.lab import Lab
from perf.load.closed_loop import run_load
from perf.load.sources import Constant, Exchange, Refresh, SignIn, Source, TokenPair, get
from perf.rig.processes import Server, StartError, free_port, pin
from perf.rig.seed import PASSWORD, email_of, read_sessions
from perf.rig.site_setup import prepare, prepare_site, private_servers, serve, site_environment
from perf.summary import Round, ratios, spread

HYPOTHESIS = (
    "With one worker a second core brings nothing to /me, which runs on one thread, 20 % to refreshes, whose database "
    "threads can use it while the loop runs, and doubles sign-ins. Two workers on one core are slightly slower than "
    "one. Two on two cores bring 1.4 to 1.6 times the reads, because the load generator takes its part of the second "
    "core, hardly more refreshes on SQLite, which has one writer, and 1.3 times on Postgres, which uses the cores too."
)
CONNECTIONS = 16
PEOPLE = 2_000
SECONDS, HASH_SECONDS, RAMP_S = 1.5, 5.0, 0.4
QUICK_SECONDS, QUICK_HASH_SECONDS = 0.8, 2.0
STORAGES = {"sqlite": "SQLite", "postgres": "Postgres and Redis"}
WORKERS = (1, 2)
ME, VIEW, REFRESH, SIGN_IN = "`/me`", "`/me`, hot lane off", "refresh", "sign-in"
#: What is measured on which storage: a sign-in is its hash, whatever the storage.
WORKLOADS = {"sqlite": (ME, VIEW, REFRESH, SIGN_IN), "postgres": (ME, VIEW, REFRESH)}
NOTES = (
    (
        "The load generator is pinned to the last core. A server on one core has the first to itself; one on two "
        "shares the second with the generator, so the gain of two is less than it would be with clients elsewhere."
    ),
    "IRONAUTH_HASH_THREADS is the machine's total: one worker has them all, also on one core, two workers half each.",
    (
        f"{CONNECTIONS} connections, in sign-ins {CONNECTIONS_PER_HASH_THREAD} for each hash thread. Postgres and "
        "Redis run on every core, beside the server."
    ),
)
_EXCHANGE_S = 60.0


@dataclass(frozen=True)
class Placed:
    """One cell of the matrix."""

    storage: str
    workload: str
    cores: int
    workers: int


type Rounds = dict[Placed, list[Round]]


class Deployment:
    """One storage with a server for each number of workers and each lane, and the supplies of their clients."""

    def __init__(self, folder: Path, storage: str, stack: ExitStack, *, rounds: int) -> None:
        """Start everything; ``stack`` ends it. Raises ``StartError`` when something does not start."""
        port = free_port()
        self.hash_threads = default_hash_threads()
        environment = site_environment(folder, port=port, hash_threads=self.hash_threads)
        if storage == "postgres":
            environment |= private_servers(folder, stack)
        prepare_site(environment, people=PEOPLE)
        count = CONNECTIONS * (1 + rounds * len(WORKERS) * 2)  # the readers, and new ones for each round of refreshes
        kept = folder / "sessions.json"
        prepare(["-m", "perf.rig.seed", "--sessions", str(count), "--into", str(kept)], environment)
        view = {**environment, "IRONAUTH_HOT_LANE": "0"}
        self._servers: dict[tuple[str, int], Server] = {}
        for workers in WORKERS:
            for lane, settings in ((ME, environment), (VIEW, view)):
                log = folder / f"{len(self._servers)}.log"
                own_port = free_port() if self._servers else port
                self._servers[lane, workers] = serve(log, own_port, settings, stack, workers=workers)
        self.emails = itertools.cycle([email_of(serial) for serial in range(PEOPLE)])
        self._fresh = iter([session.refresh_token for session in read_sessions(kept)])
        self._readers: list[TokenPair] = []
        any_server = self._servers[ME, 1]
        exchange = Exchange(any_server.host, itertools.islice(self._fresh, CONNECTIONS), self._readers)
        run_load(any_server.address, [exchange], seconds=_EXCHANGE_S)
        if len(self._readers) < CONNECTIONS:
            raise StartError(f"only {len(self._readers)} of {CONNECTIONS} seeded sessions could be used")

    def server(self, workload: str, workers: int) -> Server:
        """Return who answers a workload."""
        return self._servers[VIEW if workload == VIEW else ME, workers]

    def sources(self, workload: str, server: Server) -> list[Source]:
        """Return the connections of one round."""
        if workload == REFRESH:
            return [Refresh(server.host, token) for token in itertools.islice(self._fresh, CONNECTIONS)]
        if workload == SIGN_IN:
            connections = CONNECTIONS_PER_HASH_THREAD * self.hash_threads
            return [SignIn(server.host, self.emails, PASSWORD) for _ in range(connections)]
        path = "/api/v1/access/me"
        return [Constant(get(path, server.host, pair.access_token)) for pair in self._readers]


def measure(lab: Lab) -> Finding:
    """Measure every cell, all cells once in each round, on one storage after the other."""
    every = os.sched_getaffinity(0)
    rounds: Rounds = {}
    for storage, name in STORAGES.items():
        os.sched_setaffinity(0, every)
        lab.say(f"preparing {name} with four servers")
        folder = lab.folder / storage
        folder.mkdir()
        with ExitStack() as stack:
            deployment = Deployment(folder, storage, stack, rounds=lab.rounds)
            os.sched_setaffinity(0, {max(every)})
            cells = [
                Placed(storage, workload, cores, workers)
                for workload in WORKLOADS[storage]
                for cores in sorted({1, min(2, len(every))})
                for workers in WORKERS
            ]
            for number in range(1, lab.rounds + 1):
                lab.say(f"round {number}")
                for cell in cells:
                    rounds.setdefault(cell, []).append(_measure_cell(lab, deployment, cell, sorted(every)))
    path = lab.plot()
    bars = {_label(cell): spread([one.rate for one in each]).median for cell, each in rounds.items()}
    reads = {label: rate for (label, rate), cell in zip(bars.items(), rounds, strict=True) if cell.workload != SIGN_IN}
    plots.bars(path, "Cores and workers", reads, unit="requests/s")
    return finding(rounds, [path.name])


def _measure_cell(lab: Lab, deployment: Deployment, cell: Placed, every: list[int]) -> Round:
    server = deployment.server(cell.workload, cell.workers)
    pin(server.pid, every[: cell.cores])
    window = (QUICK_SECONDS, QUICK_HASH_SECONDS) if lab.quick else (SECONDS, HASH_SECONDS)
    seconds = window[cell.workload == SIGN_IN]
    return load_round(server, deployment.sources(cell.workload, server), seconds=seconds, ramp_s=RAMP_S)


def finding(rounds: Rounds, drawn: list[str]) -> Finding:
    """Say what was found, each cell beside one worker on one core."""
    rows = []
    for cell, each in rounds.items():
        rate = spread([one.rate for one in each])
        base = rounds[Placed(cell.storage, cell.workload, 1, 1)]
        gain = ratios([one.rate for one in each], [one.rate for one in base])
        used = [spread([getattr(one, name) for one in each]).median for name in ("server_cores", "client_cores")]
        rows.append(
            [
                f"{STORAGES[cell.storage]}, {cell.workload}",
                f"{cell.cores}",
                f"{cell.workers}",
                f"{rate.median:,.{0 if rate.median >= 100 else 1}f} ({rate.low:,.0f}-{rate.high:,.0f})",
                "" if gain is None else f"{gain.median:.2f}",
                f"{spread([one.p99_ms for one in each]).median:.2f}",
                f"{used[0]:.2f} + {used[1]:.2f}",
            ]
        )
    columns = [
        "workload",
        "cores",
        "workers",
        "requests/s (low-high)",
        "of 1 core, 1 worker",
        "p99 ms",
        "cores busy: server + client",
    ]
    failed = sum(one.failed + one.shed for each in rounds.values() for one in each)
    data = {f"{_label(cell)}": each for cell, each in rounds.items()}
    return Finding([Table("Cores and workers", columns, rows)], (), drawn, NOTES, data=data, failed=failed)


def _label(cell: Placed) -> str:
    return (
        f"{cell.storage}, {cell.workload.replace('`', '')}, {cell.cores} core{'s'[: cell.cores - 1]}, {cell.workers} w."
    )
