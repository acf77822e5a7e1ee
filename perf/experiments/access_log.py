"""What logging costs: nothing logged, errors only, every request as JSON; on the hot lane and through the DRF view."""

from pathlib import Path

from perf import plots
from perf.bench.variants import (
    COLUMNS,
    CONNECTIONS,
    LANES,
    Key,
    Rounds,
    log_of,
    lost_percent,
    measure_variants,
    medians,
    percent_text,
    rows,
    start_variants,
    wrong,
)
from perf.findings import Check, Finding, Table
from perf.lab import Lab
from perf.rig.machine import file_system

HYPOTHESIS = (
    "A line of the access log costs about 3 µs, mostly on the log's own thread, which competes for the same core: 10 % "
    "of a warm /me on the hot lane, and 2 % of one through the DRF view. Errors only costs nothing: nothing goes wrong."
)
LIMIT_PERCENT = 15.0  # of the requests/s of warm /me, access log on against no logging at all
ROUNDS, SECONDS = 9, 3.0  # many short rounds: the three are compared within each
QUICK_ROUNDS, QUICK_SECONDS = 2, 1.0
NONE, ERRORS, ALL = "none", "errors", "all"
LOGGING = {
    NONE: {"IRONAUTH_ACCESS_LOG": "0", "IRONAUTH_LOG_LEVEL": "CRITICAL"},
    ERRORS: {"IRONAUTH_ACCESS_LOG": "0", "IRONAUTH_LOG_LEVEL": "ERROR"},
    ALL: {"IRONAUTH_ACCESS_LOG": "1", "IRONAUTH_LOG_LEVEL": "INFO"},
}


def measure(lab: Lab) -> Finding:
    """Measure warm /me on six servers over one database, in rounds."""
    lab.say("preparing a database and six servers")
    servers = start_variants(lab.folder, LOGGING, lab.stack)
    seconds, count = (QUICK_SECONDS, QUICK_ROUNDS) if lab.quick else (SECONDS, ROUNDS)
    rounds = measure_variants(servers, rounds=count, seconds=seconds, say=lab.say)
    lines = {key: _access_lines(log_of(lab.folder, key)) for key in servers}
    path = lab.plot()
    plots.bars(path, "Warm /me by what is logged", medians(rounds, "rate"), unit="requests/s")
    return finding(rounds, lines, [path.name], log=f"a file on {file_system(lab.folder)}")


def finding(rounds: Rounds, lines: dict[Key, int], drawn: list[str], *, log: str) -> Finding:
    """Say what was found; ``lines``: what each server wrote into its access log."""
    checks, notes = [], []
    for lane in LANES:
        lost = lost_percent(rounds, (lane, ALL), NONE, "rate")
        measured = lost.median if lost is not None else float("inf")
        what = f"requests/s that logging everything costs warm /me, {lane}"
        checks.append(Check(what, LIMIT_PERCENT, measured, ceiling=True, unit=" %"))
        grown = lost_percent(rounds, (lane, ALL), NONE, "server_cpu_us")
        if grown is not None:
            notes.append(
                f"By CPU time, which other processes hardly change, {lane}: {percent_text(grown)} of a request."
            )
    notes.append(
        f"One worker pinned to the first core, {CONNECTIONS} connections from the last; one SQLite database; all "
        f"of them write to {log}. Errors: access log off, level ERROR; none: access log off, level CRITICAL. Losses "
        "are taken within each round; the median and the lowest and highest round are shown."
    )
    table = rows(rounds, NONE, {key: [f"{count:,}"] for key, count in lines.items()})
    data = {", ".join(key): each for key, each in rounds.items()}
    columns = ["logging", *COLUMNS, "access lines"]
    return Finding([Table("Warm /me", columns, table)], checks, drawn, notes, data=data, failed=wrong(rounds))


def _access_lines(log: Path) -> int:
    with log.open("rb") as lines:
        return sum(b'"event":"request"' in line for line in lines)
