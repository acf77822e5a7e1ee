"""The endpoint benchmark: IronAuth beside a bare ASGI callable, the raw hash rate, and peers, in one run.

``python -m perf.bench --quick`` takes about two minutes. Exit status: 0 measured; 1 an answer was wrong, missing
or shed; 2 a server did not start or the command line is wrong; 130 interrupted. README.md says how to read the result.
"""

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from ironauth.config.checks import default_hash_threads
from perf.bench.measuring import Bench, Cores
from perf.bench.options import README, Options, parse
from perf.bench.paced import PacedRound
from perf.bench.report import Conditions, Report, thresholds
from perf.bench.results import redraw, save, update_readme
from perf.bench.servers import start_servers
from perf.bench.tables import markdown
from perf.findings import now
from perf.load.workloads import HASH
from perf.rig.console import INTERRUPTED, leave_by_interrupt, say
from perf.rig.machine import describe, file_system
from perf.rig.processes import StartError, environment_of
from perf.rig.site_setup import ARGON2, ROOT
from perf.summary import Round

REDRAW = "name the JSON file of a kept run, perf/results/DATE-bench.json or perf/results/raw/DATE-quick.json"


def main() -> int:
    """Measure, report, and end everything that was started."""
    leave_by_interrupt()
    options = parse(description=__doc__.split("\n", 1)[0])
    if options.redraw is not None:
        return _redraw(options.redraw)
    try:
        report = _run(options)
    except StartError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: the servers have been ended, nothing was saved.\n")
        return INTERRUPTED
    written = save(report, folder=ROOT / "perf" / "results", quick=options.quick)
    sys.stdout.write(f"\n{markdown(report)}\n")
    _say_written(written)
    if options.update_readme:
        update_readme(report, README)
    return 1 if report.failed else 0


def _redraw(data: Path) -> int:
    try:
        _say_written(redraw(data.resolve()))
    except OSError as error:
        sys.stderr.write(f"{data} cannot be read ({error.strerror}): {REDRAW}\n")
        return 2
    except ValueError as error:
        sys.stderr.write(f"{error}: {REDRAW}\n")
        return 2
    return 0


def _run(options: Options) -> Report:
    """Start the servers, measure every round, end the servers."""
    machine = describe(ROOT)
    every = os.sched_getaffinity(0)
    cores = Cores({min(every)}, {max(every)}, every)
    hash_threads = default_hash_threads()
    started_at = now()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ironauth-bench-")))
        say(f"preparing a database and two servers in {folder}")
        with ExitStack() as running:
            servers = start_servers(
                folder, hash_threads=hash_threads, stack=running, storage=options.storage, workers=options.workers
            )
            bench = Bench(
                servers, cores, hash_threads, options.seconds, options.connections, options.workers, options.peers
            )
            conditions = _conditions(bench, options, started_at, folder)
            os.sched_setaffinity(0, cores.client)  # after the servers, which would inherit it
            rounds, paced = _measure_all(bench, options)
        access_lines = sum(_count_access_lines(folder / name) for name in ("ironauth.log", "ironauth-view.log"))
    report = Report(machine, conditions, rounds, access_lines, paced=paced)
    report.thresholds = thresholds(report)
    return report


def _measure_all(bench: Bench, options: Options) -> tuple[dict[str, list[Round]], dict[str, list[PacedRound]]]:
    """Warm up, then measure the rounds, every workload once in each, so that a slow minute hits them all alike."""
    rounds: dict[str, list[Round]] = {name: [] for name in options.names}
    paced: dict[str, list[PacedRound]] = {name: [] for name in options.paced}
    for name in options.names:
        if name != HASH:
            say(f"warm-up  {name:9} {_brief(bench.warm_up(name))}")
    for number in range(1, options.rounds + 1):
        for name in options.names:
            measured = bench.measure(name)
            rounds[name].append(measured)
            say(f"round {number}  {name:9} {_brief(measured)}")
        for name in options.paced:
            at_rate = bench.measure_paced(name, options.rate or 0.0)
            paced[name].append(at_rate)
            say(f"round {number}  {name:9} {_brief(at_rate)}")
    return rounds, paced


def _conditions(bench: Bench, options: Options, started_at: str, folder: Path) -> Conditions:
    storage = file_system(folder)
    database = {
        "sqlite": f"SQLite file on {storage}, no Redis",
        "postgres": f"Postgres on {storage} with fsync, and Redis, both on this machine and on every core",
    }
    return Conditions(
        started_at=started_at,
        rounds=options.rounds,
        seconds=bench.seconds,
        hash_seconds=bench.hash_seconds,
        connections=bench.connections,
        hash_connections=bench.hash_connections,
        hash_threads=bench.hash_threads,
        argon2=f"Argon2id t={ARGON2['time-cost']}, m={ARGON2['memory-kib'] // 1024} MiB, p={ARGON2['parallelism']}",
        malloc=environment_of(bench.servers.site.server.pid, "GLIBC_TUNABLES"),
        server_cores=",".join(str(core) for core in sorted(bench.cores.server)),
        client_cores=",".join(str(core) for core in sorted(bench.cores.client)),
        database=database[options.storage],
        access_log=f"on, JSON to a file on {storage}",
        storage=options.storage,
        workers=options.workers,
        peers={peer.name: peer.url for peer in options.peers},
    )


def _count_access_lines(log: Path) -> int:
    """Count the access log's lines: with the log on, there is one for every answer of IronAuth."""
    with log.open("rb") as lines:
        return sum(b'"event":"request"' in line for line in lines)


def _brief(measured: Round | PacedRound) -> str:
    problems = (
        f"  FAILED {measured.failed} {measured.failures}, 503: {measured.shed}"
        if measured.failed or measured.shed
        else ""
    )
    return f"{measured.rate:10,.1f}/s  p50 {measured.p50_ms:8.2f} ms  p99 {measured.p99_ms:8.2f} ms{problems}"


def _say_written(paths: list[Path]) -> None:
    for path in paths:
        say(f"written: {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")
