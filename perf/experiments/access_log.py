"""What logging costs: nothing logged, errors only, every request as JSON; on the hot lane and through the DRF view."""

import os
from pathlib import Path

from ironauth.infrastructure.configuration import default_hash_threads
from perf import plots
from perf.bench.measuring import load_round
from perf.findings import Check, Finding, Table
from perf.lab import Lab
from perf.load.sources import Constant, Source, TokenPair, get
from perf.load.workloads import Site
from perf.rig.machine import file_system
from perf.rig.processes import Server, free_port, pin
from perf.rig.site_setup import prepare_site, serve, site_environment
from perf.summary import Round, Spread, ratios, spread

HYPOTHESIS = (
    "A line of the access log costs about 3 µs, mostly on the log's own thread, which competes for the same core: 10 % "
    "of a warm /me on the hot lane, and 2 % of one through the DRF view. Errors only costs nothing: nothing goes wrong."
)
LIMIT_PERCENT = 15.0  # of the requests/s of warm /me, access log on against no logging at all
CONNECTIONS = 16
PEOPLE = CONNECTIONS
ROUNDS, SECONDS = 9, 3.0  # many short rounds: the three are compared within each
QUICK_ROUNDS, QUICK_SECONDS = 2, 1.0
NONE, ERRORS, ALL = "none", "errors", "all"
LOGGING = {
    NONE: {"IRONAUTH_ACCESS_LOG": "0", "IRONAUTH_LOG_LEVEL": "CRITICAL"},
    ERRORS: {"IRONAUTH_ACCESS_LOG": "0", "IRONAUTH_LOG_LEVEL": "ERROR"},
    ALL: {"IRONAUTH_ACCESS_LOG": "1", "IRONAUTH_LOG_LEVEL": "INFO"},
}
LANES = {"hot lane": "1", "DRF view": "0"}
type Rounds = dict[tuple[str, str], list[Round]]  # by lane and logging


def measure(lab: Lab) -> Finding:
    """Measure warm /me on six servers over one database, in rounds."""
    cores = os.sched_getaffinity(0)
    port = free_port()
    environment = site_environment(lab.folder, port=port, hash_threads=default_hash_threads())
    lab.say("preparing a database and six servers")
    prepare_site(environment, people=PEOPLE)
    servers: dict[tuple[str, str], Server] = {}
    for lane, hot in LANES.items():
        for logging, settings in LOGGING.items():
            own = {**environment, **settings, "IRONAUTH_HOT_LANE": hot}
            log = lab.folder / f"{lane.replace(' ', '-')}-{logging}.log"
            servers[lane, logging] = serve(log, port if not servers else free_port(), own, lab.stack)
    first = next(iter(servers.values()))
    pairs = Site(first).sign_in(CONNECTIONS)
    for server in servers.values():
        pin(server.pid, {min(cores)})
    os.sched_setaffinity(0, {max(cores)})
    seconds, count = (QUICK_SECONDS, QUICK_ROUNDS) if lab.quick else (SECONDS, ROUNDS)
    rounds: Rounds = {key: [] for key in servers}
    for number in range(1, count + 1):
        for key, server in _turned(servers, number):
            rounds[key].append(load_round(server, _sources(server, pairs), seconds=seconds))
        lab.say(f"round {number}: " + ", ".join(f"{key[1]} {each[-1].rate:,.0f}/s" for key, each in rounds.items()))
    lines = {key: _access_lines(server.log) for key, server in servers.items()}
    path = lab.plot()
    plots.bars(path, "Warm /me by what is logged", _labelled(rounds, "rate"), unit="requests/s")
    return finding(rounds, lines, [path.name], log=f"a file on {file_system(lab.folder)}")


def finding(rounds: Rounds, lines: dict[tuple[str, str], int], drawn: list[str], *, log: str) -> Finding:
    """Say what was found; ``lines``: what each server wrote into its access log."""
    checks, notes = [], []
    for lane in LANES:
        lost = lost_percent(rounds, lane, ALL, "rate")
        measured = lost.median if lost is not None else float("inf")
        what = f"requests/s that logging everything costs warm /me, {lane}"
        checks.append(Check(what, LIMIT_PERCENT, measured, ceiling=True, unit=" %"))
        grown = lost_percent(rounds, lane, ALL, "server_cpu_us")
        if grown is not None:
            notes.append(f"By CPU time, which other processes hardly change, {lane}: {_percent(grown)} of a request.")
    notes.append(
        f"One worker pinned to the first core, {CONNECTIONS} connections from the last; one SQLite database; all "
        f"of them write to {log}. Errors: access log off, level ERROR; none: access log off, level CRITICAL. Losses "
        "are taken within each round; the median and the lowest and highest round are shown."
    )
    failed = sum(one.failed + one.shed for each in rounds.values() for one in each)
    data = {f"{lane}, {logging}": each for (lane, logging), each in rounds.items()}
    return Finding([_table(rounds, lines)], checks, drawn, notes, data=data, failed=failed)


def _table(rounds: Rounds, lines: dict[tuple[str, str], int]) -> Table:
    columns = [
        "logging",
        "requests/s (low-high)",
        "lost",
        "server CPU µs/request",
        "added µs",
        "p99 ms",
        "access lines",
    ]
    rows = []
    for (lane, logging), each in rounds.items():
        rate, cpu = spread([one.rate for one in each]), spread([one.server_cpu_us for one in each])
        lost = lost_percent(rounds, lane, logging, "rate")
        added = cpu.median - spread([one.server_cpu_us for one in rounds[lane, NONE]]).median
        rows.append(
            [
                f"{lane}, {logging}",
                f"{rate.median:,.0f} ({rate.low:,.0f}-{rate.high:,.0f})",
                _percent(lost) if logging != NONE else "",
                f"{cpu.median:.1f}",
                f"{added:+.1f}" if logging != NONE else "",
                f"{spread([one.p99_ms for one in each]).median:.2f}",
                f"{lines[lane, logging]:,}",
            ]
        )
    return Table("Warm /me", columns, rows)


def lost_percent(rounds: Rounds, lane: str, logging: str, figure: str) -> Spread | None:
    """Return what ``logging`` costs against none, in percent, round by round: requests/s lost, or CPU time spent.

    For CPU time it is the part of a request's time that goes to logging. None where nothing was measured.
    """
    own = [getattr(each, figure) for each in rounds[lane, logging]]
    without = [getattr(each, figure) for each in rounds[lane, NONE]]
    share = ratios(own, without) if figure == "rate" else ratios(without, own)
    return None if share is None else Spread(*(100 - 100 * part for part in (share.median, share.high, share.low)))


def _turned(servers: dict[tuple[str, str], Server], number: int) -> list[tuple[tuple[str, str], Server]]:
    """Return the servers, each round beginning with another, so that no place in the order is always the same one's."""
    items = list(servers.items())
    start = number % len(items)
    return items[start:] + items[:start]


def _sources(server: Server, pairs: list[TokenPair]) -> list[Source]:
    return [Constant(get("/api/v1/access/me", server.host, pair.access_token)) for pair in pairs]


def _access_lines(log: Path) -> int:
    with log.open("rb") as lines:
        return sum(b'"event":"request"' in line for line in lines)


def _labelled(rounds: Rounds, figure: str) -> dict[str, float]:
    return {
        f"{lane}, {logging}": spread([getattr(one, figure) for one in each]).median
        for (lane, logging), each in rounds.items()
    }


def _percent(lost: Spread | None) -> str:
    return "" if lost is None else f"{lost.median:.1f} % ({lost.low:.1f} to {lost.high:.1f})"
