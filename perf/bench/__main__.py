"""The endpoint benchmark: IronAuth beside a bare ASGI callable and the raw hash rate, in one run.

``python -m perf.bench --quick`` takes about two minutes. Exit status: 0 measured; 1 an answer was wrong, missing
or shed; 2 a server did not start or the command line is wrong; 130 interrupted. How to read the result:
docs/performance/laboratory.md.
"""

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from ironauth.config.checks import default_hash_threads
from perf.bench.measuring import Bench, Cores
from perf.bench.options import Options, parse, section
from perf.bench.report import HYPOTHESIS, Conditions, Report, finding, variant
from perf.bench.servers import start_servers
from perf.findings import Finding
from perf.load.workloads import HASH
from perf.rig.console import leave_by_interrupt, say, status_of
from perf.rig.machine import describe, file_system
from perf.rig.processes import environment_of
from perf.rig.site_setup import ARGON2, ROOT
from perf.runner import RESULTS, keep
from perf.summary import Round


def main() -> int:
    """Measure, report, and end everything that was started."""
    leave_by_interrupt()
    options = parse(description=__doc__)
    return status_of(lambda: _status(options))


def _status(options: Options) -> int:
    kind = variant(options.storage, options.workers)
    found = keep(
        f"bench{kind}", HYPOTHESIS, lambda: _measure(options),
        quick=options.quick, update_readme=options.update_readme, section=section(kind),
    )  # fmt: skip
    return 1 if found.failed else 0


def _measure(options: Options) -> Finding:
    """Start the servers, measure every round, end the servers."""
    every = os.sched_getaffinity(0)
    cores = Cores({min(every)}, {max(every)}, every)
    hash_threads = default_hash_threads()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ironauth-bench-")))
        say(f"preparing a database and two servers in {folder}")
        with ExitStack() as running:
            servers = start_servers(
                folder, hash_threads=hash_threads, stack=running, storage=options.storage, workers=options.workers
            )
            bench = Bench(servers, cores, hash_threads, options.seconds, options.connections, options.workers)
            conditions = _conditions(bench, options, folder)
            os.sched_setaffinity(0, cores.client)  # after the servers, which would inherit it
            rounds = _measure_all(bench, options)
        access_lines = sum(_count_access_lines(folder / name) for name in ("ironauth.log", "ironauth-view.log"))
    plots = (RESULTS / "raw" if options.quick else RESULTS) / "plots"
    return finding(Report(conditions, rounds, access_lines), describe(ROOT), plots)


def _measure_all(bench: Bench, options: Options) -> dict[str, list[Round]]:
    """Warm up, then measure the rounds, every workload once in each, so that a slow minute hits them all alike."""
    rounds: dict[str, list[Round]] = {name: [] for name in options.names}
    for name in options.names:
        if name != HASH:
            say(f"warm-up  {name:9} {_brief(bench.warm_up(name))}")
    for number in range(1, options.rounds + 1):
        for name in options.names:
            rounds[name].append(measured := bench.measure(name))
            say(f"round {number}  {name:9} {_brief(measured)}")
    return rounds


def _conditions(bench: Bench, options: Options, folder: Path) -> Conditions:
    storage = file_system(folder)
    database = {
        "sqlite": f"SQLite file on {storage}, no Redis",
        "postgres": f"Postgres on {storage} with fsync, and Redis, both on this machine and on every core",
    }
    return Conditions(
        rounds=options.rounds,
        seconds=bench.seconds,
        hash_seconds=bench.hash_seconds,
        connections=bench.connections,
        hash_connections=bench.hash_connections,
        hash_threads=bench.hash_threads,
        argon2=f"Argon2id t={ARGON2['time_cost']}, m={ARGON2['memory_kib'] // 1024} MiB, p={ARGON2['parallelism']}",
        malloc=environment_of(bench.servers.site.server.pid, "GLIBC_TUNABLES"),
        server_cores=",".join(str(core) for core in sorted(bench.cores.server)),
        client_cores=",".join(str(core) for core in sorted(bench.cores.client)),
        database=database[options.storage],
        access_log=f"on, JSON to a file on {storage}",
        storage=options.storage,
        workers=options.workers,
    )


def _count_access_lines(log: Path) -> int:
    """Count the access log's lines: with the log on, there is one for every answer of IronAuth."""
    with log.open("rb") as lines:
        return sum(b'"event":"request"' in line for line in lines)


def _brief(measured: Round) -> str:
    problems = (
        f"  FAILED {measured.failed} {measured.failures}, 503: {measured.shed}"
        if measured.failed or measured.shed
        else ""
    )
    return f"{measured.rate:10,.1f}/s  p50 {measured.p50_ms:8.2f} ms  p99 {measured.p99_ms:8.2f} ms{problems}"


if __name__ == "__main__":
    sys.exit(main())
