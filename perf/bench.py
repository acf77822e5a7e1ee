"""The first benchmark: IronAuth beside a bare ASGI callable and the raw hash rate, in one run.

``python -m perf.bench --quick`` takes about two minutes. Exit status: 0 measured; 1 an answer was wrong, missing
or shed; 2 a server did not start; 130 interrupted. README.md says how to read the result.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ironauth.infrastructure.configuration import default_hash_threads
from perf.machine import describe, file_system
from perf.measuring import Bench, Cores
from perf.processes import StartError, environment_of
from perf.report import Conditions, Report, markdown, thresholds
from perf.results import save, update_section
from perf.site_setup import ARGON2, ROOT, start_servers
from perf.summary import Round
from perf.workloads import BARE, HASH, WORKLOADS

CONNECTIONS = 16  # as the ceiling of design §2 was measured
MAX_SECONDS, MAX_ROUNDS, MAX_CONNECTIONS = 60, 20, 256  # a run ends within the hour, and has people enough to sign in
INTERRUPTED = 130  # what a shell reports for a command ended by SIGINT
# A round's order: the yardsticks stand right before what is compared with them.
ORDER = (BARE, "bare-ours", "ping", "me", "me-view", "health", "refresh", HASH, "signin", "signup")


@dataclass(frozen=True)
class Options:
    """The command line."""

    seconds: float
    rounds: int
    names: tuple[str, ...]
    connections: int
    quick: bool
    update_readme: bool
    storage: Literal["sqlite", "postgres"]


def main() -> int:
    """Measure, report, and end everything that was started."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)
    options = _options()
    try:
        report = _run(options)
    except StartError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: the servers have been ended, nothing was saved.\n")
        return INTERRUPTED
    text = markdown(report)
    sys.stdout.write(f"\n{text}\n")
    for path in save(
        report,
        text,
        folder=ROOT / "perf" / "results",
        quick=options.quick,
        suffix="" if options.storage == "sqlite" else "-postgres",
    ):
        _say(f"written: {path.relative_to(ROOT)}")
    if options.update_readme:
        update_section(ROOT / "perf" / "README.md", text)
    return 1 if report.failed else 0


def _run(options: Options) -> Report:
    """Start the servers, measure every round, end the servers."""
    machine = describe(ROOT)
    every = os.sched_getaffinity(0)
    cores = Cores({min(every)}, {max(every)}, every)
    hash_threads = default_hash_threads()
    started_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ironauth-bench-")))
        _say(f"preparing a database and two servers in {folder}")
        with ExitStack() as running:
            servers = start_servers(folder, hash_threads=hash_threads, stack=running, storage=options.storage)
            bench = Bench(servers, cores, hash_threads, options.seconds, options.connections)
            conditions = _conditions(bench, options, started_at, folder)
            os.sched_setaffinity(0, cores.client)  # after the servers, which would inherit it
            rounds = _measure_all(bench, options)
        access_lines = sum(_count_access_lines(folder / name) for name in ("ironauth.log", "ironauth-view.log"))
    report = Report(machine, conditions, rounds, access_lines)
    report.thresholds = thresholds(report)
    return report


def _measure_all(bench: Bench, options: Options) -> dict[str, list[Round]]:
    """Warm up, then measure the rounds, every workload once in each, so that a slow minute hits them all alike."""
    names = options.names
    rounds: dict[str, list[Round]] = {name: [] for name in names}
    for name in names:
        if name != HASH:
            _say(f"warm-up  {name:8} {_brief(bench.warm_up(name))}")
    for number in range(1, options.rounds + 1):
        for name in names:
            measured = bench.measure(name)
            rounds[name].append(measured)
            _say(f"round {number}  {name:8} {_brief(measured)}")
    return rounds


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
    )


def _count_access_lines(log: Path) -> int:
    """Count the access log's lines: with the log on, there is one for every answer of IronAuth."""
    with log.open("rb") as lines:
        return sum(b'"event":"request"' in line for line in lines)


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m perf.bench", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, help="length of a measured window (default: 5; quick: 2)")
    parser.add_argument("--rounds", type=int, help="measured rounds (default: 3; quick: 3)", default=3)
    parser.add_argument("--only", help=f"comma-separated workloads out of {','.join(ORDER)}; yardsticks are added")
    parser.add_argument("--connections", type=int, default=CONNECTIONS, help=f"keep-alive connections ({CONNECTIONS})")
    parser.add_argument(
        "--storage", choices=("sqlite", "postgres"), default="sqlite", help="postgres: with Redis, both private"
    )
    parser.add_argument("--quick", action="store_true", help="short windows; the result goes to perf/results/raw/")
    parser.add_argument("--update-readme", action="store_true", help="put the result into perf/README.md")
    given = parser.parse_args()
    seconds = given.seconds or (2.0 if given.quick else 5.0)
    only = set(given.only.split(",")) if given.only else set(ORDER)
    if unknown := only - set(ORDER):
        parser.error(f"unknown workload {', '.join(sorted(unknown))}: choose from {', '.join(ORDER)}")
    if not (
        0.5 <= seconds <= MAX_SECONDS and 0 < given.rounds <= MAX_ROUNDS and 0 < given.connections <= MAX_CONNECTIONS
    ):
        parser.error(f"choose 0.5 to {MAX_SECONDS} s, 1 to {MAX_ROUNDS} rounds, 1 to {MAX_CONNECTIONS} connections")
    hashing = any(workload.hashing for workload in WORKLOADS if workload.name in only)
    only |= {HASH} if hashing else set()
    only |= {BARE} if only - {HASH} else set()
    names = tuple(name for name in ORDER if name in only)
    return Options(seconds, given.rounds, names, given.connections, given.quick, given.update_readme, given.storage)


def _brief(measured: Round) -> str:
    problems = (
        f"  FAILED {measured.failed} {measured.failures}, 503: {measured.shed}"
        if measured.failed or measured.shed
        else ""
    )
    return f"{measured.rate:10,.1f}/s  p50 {measured.p50_ms:8.2f} ms  p99 {measured.p99_ms:8.2f} ms{problems}"


def _say(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def _terminated(_number: int, _frame: object) -> None:
    """Leave by the same way as Ctrl-C, so that the servers are ended.

    Raised as a signal: an exception from here would be swallowed by a callback of a running event loop, while
    asyncio.Runner has its own handler for SIGINT, which cancels what runs.
    """
    signal.raise_signal(signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
