"""SQLite's journal modes, and who holds connections, under sixteen callers at one and two cores."""

import os
import sqlite3
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from perf import plots
from perf.experiments.sqlite_modes.threads import CALLERS, MODES, READS, ROTATIONS, Outcome
from perf.findings import Check, Finding, Table
from perf.lab import Lab
from perf.rig.machine import file_system
from perf.rig.processes import StartError, free_port
from perf.rig.site_setup import ROOT, prepare, prepare_site, site_environment
from perf.summary import spread

HYPOTHESIS = (
    "As in the article, WAL does more than the rollback journal, because readers go on while one writes, and a second "
    "core makes the difference larger. One writer and a few readers do more again: threads that wait for SQLite's lock "
    "sleep and try again, a queue wakes the next one at once. We expect 1.2 times WAL with a connection per thread at "
    "two cores, no 'database is locked' at all, and a p99 of writes at least three times shorter. A transaction "
    "that begins with BEGIN and reads before it writes fails under WAL whenever another one wrote meanwhile. "
    "synchronous=NORMAL saves the fsync of each commit, and is not served: it may lose the last commits with the power."
)
SECONDS, QUICK_SECONDS, RAMP_S = 3.5, 1.0, 0.5
SESSIONS = 500  # people with a session each: what is measured is locking, not the size of the tables
SPARE_S = 60.0  # beyond its window, for starting and ending one run
OURS, PLAIN = "wal-pools", "wal"
GAIN = 1.2  # hypothesis: our pools against a connection per thread, units/s
STEADIER = 3.0  # hypothesis: the same, p99 of writes
LOCKED = "database is locked"
type Runs = Mapping[tuple[int, str], Sequence[Outcome]]  # (cores, mode) → rounds


def measure(lab: Lab) -> Finding:
    """Run every mode on one core and on two, interleaved; each run has a process and a database of its own."""
    usable = sorted(os.sched_getaffinity(0))
    environment = site_environment(lab.folder, port=free_port(), hash_threads=1) | {"IRONAUTH_LOG_LEVEL": "CRITICAL"}
    prepare_site(environment, people=SESSIONS)
    prepare(["-m", "perf.rig.seed", "--sessions", str(SESSIONS), "--into", str(_sessions(lab))], environment)
    runs: dict[tuple[int, str], list[Outcome]] = {
        (count, name): [] for count in (1, 2) if count <= len(usable) for name in MODES
    }
    for number in range(1, lab.rounds + 1):
        lab.say(f"round {number}")
        for (count, name), outcomes in runs.items():
            outcomes.append(_run(name, usable[:count], environment, lab))
    path = lab.plot()
    rates = {
        f"{MODES[name].title.replace('`', '').replace('**', '')}, {_cores(count)}": _median(outcomes, "rate")
        for (count, name), outcomes in runs.items()
    }
    plots.bars(path, f"SQLite under {CALLERS} callers", rates, unit="units of work per second, median")
    found = finding(runs, disk=file_system(lab.folder))
    found.plots = [path.name]
    return found


def finding(runs: Runs, *, disk: str) -> Finding:
    """Say what was found; ``disk``: the kind of file system the databases were on."""
    rows = []
    for (count, name), outcomes in runs.items():
        rate = spread([each.rate for each in outcomes])
        figures = [f"{rate.median:,.0f} ({rate.low:,.0f}-{rate.high:,.0f})"]
        figures += [
            f"{statistics.median(getattr(getattr(each, kind), what) for each in outcomes):.2f}"
            for kind in ("reads", "writes")
            for what in ("p50_ms", "p99_ms")
        ]
        refused = _refused(outcomes)
        locked = refused.pop(LOCKED, 0)
        rows.append(
            [MODES[name].title, str(count), str(outcomes[0].threads), *figures, f"{locked:,}", f"{refused.total():,}"]
        )
    columns = ["mode", "cores", "connections", "units/s: median (low-high)"]
    columns += ["read p50 ms", "p99", "write p50 ms", "p99", "database is locked", "otherwise refused"]
    wrong = {key: sum(each.wrong for each in outcomes) for key, outcomes in runs.items()}
    ours = sum(wrong[key] + _refused(runs[key]).total() for key in runs if key[1].startswith(OURS))
    elsewhere = [
        f"Unexpected outcomes, {MODES[name].title}, {_cores(count)}: {number:,} (a unit given up had committed)"
        for (count, name), number in wrong.items()
        if number and not name.startswith(OURS)
    ]
    return Finding(
        [Table(f"{READS:.0%} reads and {1 - READS:.0%} writes by {CALLERS} callers", columns, rows)],
        checks(runs),
        notes=[_MIX, _PROCESS, f"The databases are on {disk}. {_DURABILITY}", *_reasons(runs), *elsewhere],
        data={f"{name}, {count}": list(outcomes) for (count, name), outcomes in runs.items()},
        failed=ours,  # what other ways of serving get wrong is a result
    )


def checks(runs: Runs) -> list[Check]:
    """Hold what was measured against the hypothesis, at the most cores there were."""
    most = max(count for count, _ in runs)
    ours, plain, rollback = (runs[most, name] for name in (OURS, PLAIN, "delete"))
    locked = sum(_refused(outcomes)[LOCKED] for (_, name), outcomes in runs.items() if name.startswith(OURS))
    slower = _median_write_p99(plain) / (_median_write_p99(ours) or float("inf"))
    at = f"at {_cores(most)}"
    return [
        Check(f"WAL against the rollback journal, units/s {at}", 1.0, _ratio(plain, rollback), unit=" times"),
        Check(
            f"our pools against a connection per thread, both WAL, units/s {at}",
            GAIN,
            _ratio(ours, plain),
            unit=" times",
        ),
        Check(f"the same, p99 of writes shorter {at}", STEADIER, slower, unit=" times"),
        Check(f"'{LOCKED}' under our pools", 0, locked, ceiling=True),
    ]


_MIX = (
    f"Units are IronAuth's own: {READS:.0%} look up the account behind a token (`live_account`), {ROTATIONS:.0%} "
    "rotate a session (`rotate`: a SELECT, then one UPDATE that commits by itself), the rest open a session "
    "(`open_authenticated`: a SELECT and an INSERT in one transaction)."
)
_PROCESS = (
    "Callers, pools and SQLite share one process, as in a worker, and with it Python's lock: a second core only takes "
    "what SQLite and the disk do outside of it. Every run is a fresh process on a fresh copy of the database. A unit "
    "is given up 1.5 s after it was asked for, and a connection waits as long for a lock, as served."
)
_DURABILITY = (
    "`synchronous=FULL` waits for the disk at each commit; `NORMAL` under WAL only at checkpoints, so that the last "
    "sign-outs could be undone by a power failure: IronAuth serves `FULL`."
)


def _reasons(runs: Runs) -> list[str]:
    return [
        f"Refused, {MODES[name].title}, {_cores(count)}: "
        + ", ".join(f"{reason}: {number:,}" for reason, number in sorted(refused.items()))
        for (count, name), outcomes in runs.items()
        if (refused := _refused(outcomes))
    ]


def _refused(outcomes: Sequence[Outcome]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in outcomes:
        total.update(each.refused)
    return total


def _median(outcomes: Sequence[Outcome], what: str) -> float:
    return float(statistics.median(getattr(each, what) for each in outcomes))


def _median_write_p99(outcomes: Sequence[Outcome]) -> float:
    return statistics.median(each.writes.p99_ms for each in outcomes)


def _ratio(above: Sequence[Outcome], below: Sequence[Outcome]) -> float:
    """Divide round by round; a side that did nothing makes it infinite, or 0."""
    pairs = zip(above, below, strict=True)
    return statistics.median(one.rate / other.rate if other.rate else float("inf") for one, other in pairs)


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"


def _sessions(lab: Lab) -> Path:
    return lab.folder / "sessions.json"


def _run(name: str, cores: Sequence[int], environment: Mapping[str, str], lab: Lab) -> Outcome:
    """Run one mode in a process of its own on a copy of the prepared database.

    Raises:
        StartError: it failed; the message has its output.
    """
    prepared = Path(urlsplit(environment["DATABASE_URL"]).path)
    copy = lab.folder / "copy.sqlite3"
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{copy}{suffix}").unlink(missing_ok=True)
    with closing(sqlite3.connect(prepared)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    seconds = QUICK_SECONDS if lab.quick else SECONDS
    arguments = ["--mode", name, "--sessions", str(_sessions(lab)), "--seconds", str(seconds), "--ramp", str(RAMP_S)]
    arguments += ["--cores", ",".join(map(str, cores))]
    done = subprocess.run(  # killed by run() itself when interrupted or late
        [sys.executable, "-m", "perf.experiments.sqlite_modes.threads", *arguments],
        cwd=ROOT,
        env={**environment, "DATABASE_URL": f"sqlite:///{copy}"},
        capture_output=True,
        timeout=seconds + RAMP_S + SPARE_S,
        check=False,
    )
    if done.returncode:
        raise StartError(f"sqlite_modes.threads --mode {name} failed:\n{done.stderr.decode(errors='replace')}")
    return msgspec.json.decode(done.stdout, type=Outcome)
