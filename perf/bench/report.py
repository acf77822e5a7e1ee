"""The benchmark's report: its rounds as tables, promises, plots and notes."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from perf import plots
from perf.findings import Check, Finding, Table
from perf.load.workloads import BARE, HASH, WORKLOADS
from perf.rig.machine import QUIET_CORES, Machine
from perf.rig.sampling import Sample
from perf.summary import Round, Spread, ratios, spread

ME_SHARE_OF_BARE = 50.0  # %, with the access log; through the DRF view the next
ME_VIEW_SHARE_OF_BARE = 18.0
SIGN_IN_SHARE_OF_HASH = 95.0  # %; everything a sign-in or sign-up does beside its hash fits into what is left
REFRESHES = 900.0  # per second, on SQLite and on Postgres
HASHING = frozenset(workload.name for workload in WORKLOADS if workload.hashing)
HYPOTHESIS = (
    f"Warm /me has at least {ME_SHARE_OF_BARE:g} % of the requests/s of a bare ASGI callable, through the DRF view "
    f"{ME_VIEW_SHARE_OF_BARE:g} %; sign-in and sign-up have {SIGN_IN_SHARE_OF_HASH:g} % of the raw hash rate; at least "
    f"{REFRESHES:g} refreshes are committed in a second. All of it with one worker."
)
# The short name, without Markdown, that a bar has room for.
_LABELS = {BARE: "bare ASGI", "bare-ours": "bare ASGI, our protocol class", HASH: "raw hash"}
_RATES = (
    "workload", "requests/s: median (low-high)", "p50 ms", "p99 ms", "of bare", "of raw hash", "server CPU µs/request",
    "cores busy: server + client + databases + others", "failed", "503",
)  # fmt: skip
_BESIDE = (
    "beside it", "CPU % of all cores: mean (user, system, iowait, steal)", "run queue: mean, max", "context switches/s",
    "server's voluntary/s", "server's involuntary/s",
)  # fmt: skip


@dataclass(frozen=True)
class Conditions:
    """How the run was made: everything a reader needs to repeat it."""

    rounds: int
    seconds: float
    hash_seconds: float
    connections: int
    hash_connections: int
    hash_threads: int
    argon2: str
    malloc: str
    server_cores: str
    client_cores: str
    database: str
    access_log: str
    storage: str
    workers: int


@dataclass(frozen=True)
class Report:
    """Everything one run produced."""

    conditions: Conditions
    rounds: dict[str, list[Round]]
    access_lines: int

    def every_round(self) -> Iterator[tuple[str, Round]]:
        """Return every round with its workload's name."""
        for name, rounds in self.rounds.items():
            for each in rounds:
                yield name, each

    @property
    def titles(self) -> dict[str, str]:
        """The name people read, of every workload."""
        titles = {workload.name: workload.title for workload in WORKLOADS}
        titles[HASH] = f"raw Argon2id, {self.conditions.hash_threads} threads, no server"
        return titles

    def ratio(self, name: str, yardstick: str) -> Spread | None:
        """Return ``name``'s rate over ``yardstick``'s, round by round; None when one was not measured."""
        if name not in self.rounds or yardstick not in self.rounds:
            return None
        return ratios([each.rate for each in self.rounds[name]], [each.rate for each in self.rounds[yardstick]])

    def median(self, name: str, figure: str) -> float:
        """Return the median over the rounds of one figure of a workload."""
        return spread([getattr(each, figure) for each in self.rounds[name]]).median


def variant(storage: str, workers: int) -> str:
    """Return what names add for a kind of run: nothing for one worker on SQLite."""
    return ("" if storage == "sqlite" else f"-{storage}") + (f"-{workers}workers" if workers > 1 else "")


def finding(report: Report, machine: Machine, folder: Path) -> Finding:
    """Say what was found; the plots are drawn into ``folder``."""
    tables = [_rates(report), *([beside] if (beside := _beside(report)).rows else [])]
    failed = sum(each.failed + each.shed for _, each in report.every_round())
    notes = [*_cpu_shares(report), *_doubts(report), *_conditions(report, machine)]
    data = {"conditions": asdict(report.conditions), "rounds": report.rounds, "access_lines": report.access_lines}
    return Finding(tables, checks(report), draw(report, folder), notes, data=data, failed=failed)


def checks(report: Report) -> list[Check]:
    """Compare what was measured with what was promised; one worker on one core is what the promises are about."""
    if report.conditions.workers > 1:
        return []
    shares = (
        ("warm /me against the bare ASGI callable", ME_SHARE_OF_BARE, "me", BARE),
        ("warm /me through the DRF view against the bare ASGI callable", ME_VIEW_SHARE_OF_BARE, "me-view", BARE),
        ("sign-in against the raw hash rate", SIGN_IN_SHARE_OF_HASH, "signin", HASH),
        ("sign-up against the raw hash rate", SIGN_IN_SHARE_OF_HASH, "signup", HASH),
    )
    measured = ((what, wanted, report.ratio(name, yardstick)) for what, wanted, name, yardstick in shares)
    found = [
        Check(what, wanted, 100 * ratio.median, unit=" %") for what, wanted, ratio in measured if ratio is not None
    ]
    if "refresh" in report.rounds:
        found.append(Check("refresh", REFRESHES, report.median("refresh", "rate"), unit="/s"))
    return found


def _rates(report: Report) -> Table:
    rows = []
    for name, rounds in report.rounds.items():
        rate = spread([each.rate for each in rounds])
        cores = " + ".join(
            f"{report.median(name, f'{who}_cores'):.2f}" for who in ("server", "client", "beside", "other")
        )
        rows.append(
            [
                report.titles.get(name, name),
                f"{_rate(rate.median)} ({_rate(rate.low)}-{_rate(rate.high)})",
                f"{report.median(name, 'p50_ms'):.2f}",
                f"{report.median(name, 'p99_ms'):.2f}",
                "" if name in HASHING | {HASH} else _share(report.ratio(name, BARE)),
                _share(report.ratio(name, HASH)) if name in HASHING else "",
                f"{report.median(name, 'server_cpu_us'):,.0f}",
                cores if name != HASH else "",
                f"{sum(each.failed for each in rounds)}",
                f"{sum(each.shed for each in rounds)}",
            ]
        )
    return Table("Workloads", _RATES, rows)


def _beside(report: Report) -> Table:
    """Summarise what was sampled beside the rounds."""
    sampled = {name: [sample for each in rounds for sample in each.samples] for name, rounds in report.rounds.items()}
    rows = [[report.titles.get(name, name), *_sampled(samples)] for name, samples in sampled.items() if samples]
    return Table("The machine meanwhile", _BESIDE, rows)


def _sampled(samples: Sequence[Sample]) -> list[str]:
    def mean(of: Callable[[Sample], float]) -> float:
        return sum(map(of, samples)) / len(samples)

    def share(part: str) -> str:
        return f"{mean(lambda one: sum(getattr(core, part) for core in one.cores) / len(one.cores)):.0f}"

    parts = ", ".join(map(share, ("user", "system", "iowait", "steal")))
    return [
        f"{mean(lambda one: one.busy):.0f} ({parts})",
        f"{mean(lambda one: one.run_queue):.1f}, {max(one.run_queue for one in samples)}",
        f"{mean(lambda one: one.switches):,.0f}",
        f"{mean(lambda one: one.server_voluntary):,.0f}",
        f"{mean(lambda one: one.server_involuntary):,.0f}",
    ]


def draw(report: Report, folder: Path) -> list[str]:
    """Draw what there are figures for into ``folder``: share, latency, hashing, cpu, run-queue; return the names."""
    drawn: list[str] = []
    how = report.conditions

    def path(what: str) -> Path:
        drawn.append(f"bench{variant(how.storage, how.workers)}-{what}.svg")
        return folder / drawn[-1]

    title = f"{how.storage}, {how.workers} worker{'s'[: how.workers - 1]}"
    light = [name for name in report.rounds if name not in HASHING | {HASH}]
    shares = {_label(name): 100 * ratio.median for name in light if (ratio := report.ratio(name, BARE)) is not None}
    if shares:
        plots.bars(path("share"), f"Requests/s as a share of the bare ASGI callable ({title})", shares, unit="%")
        latencies = {f"{_label(name)} {at}": report.median(name, f"{at}_ms") for name in light for at in ("p50", "p99")}
        plots.bars(path("latency"), f"Latency at saturation ({title})", latencies, unit="ms")
    hashing = {_label(name): report.median(name, "rate") for name in report.rounds if name in HASHING | {HASH}}
    if hashing:
        plots.bars(path("hashing"), f"With a password hash ({title})", hashing, unit="requests/s")
    samples = sorted((one for _, each in report.every_round() for one in each.samples), key=lambda one: one.at_s)
    if samples:
        cores = {
            f"core {number}": [(one.at_s, one.cores[number].user + one.cores[number].system) for one in samples]
            for number in range(len(samples[0].cores))
        }
        over = f"over the run ({title})"
        plots.lines(path("cpu"), f"CPU, user and system, {over}", cores, x="seconds", y="% of the core")
        queue = {"tasks": [(one.at_s, float(one.run_queue)) for one in samples]}
        plots.lines(path("run-queue"), f"Run queue {over}", queue, x="seconds", y="running or ready tasks")
    return drawn


def _label(name: str) -> str:
    return _LABELS.get(name, name)


def _cpu_shares(report: Report) -> list[str]:
    """Say what the rates' ratios would be if only CPU time counted: other processes hardly change these."""
    cpu_us = {name: report.median(name, "server_cpu_us") for name in report.rounds}
    pairs = (
        ("the bare callable of warm /me", BARE, "me"),
        ("the raw hash of a sign-in", HASH, "signin"),
        ("the raw hash of a sign-up", HASH, "signup"),
    )
    return [
        f"CPU time: {what}: {cpu_us[part] / cpu_us[whole]:.1%}"
        for what, part, whole in pairs
        if cpu_us.get(part) and cpu_us.get(whole)
    ]


def _doubts(report: Report) -> list[str]:
    """Say what speaks against the figures: other work on the machine, and wrong answers with their reasons."""
    ours = [(each.other_cores, name) for name, each in report.every_round()]
    busiest, where = max(ours)
    lines = []
    if busiest > QUIET_CORES:
        lines.append(
            f"NOT QUIET: other processes kept up to {busiest:.2f} cores busy (during {where}): "
            "repeat on a quiet machine before believing a rate"
        )
    reasons: Counter[str] = Counter()
    for name, each in report.every_round():
        reasons.update({f"{name}: {reason}": count for reason, count in each.failures.items()})
    return lines + [f"failed: {reason}: {count}" for reason, count in reasons.items()]


def _conditions(report: Report, machine: Machine) -> list[str]:
    how = report.conditions
    elsewhere = {BARE, "bare-ours", HASH}
    measured = sum(each.completed for name, each in report.every_round() if name not in elsewhere)
    one_worker = (
        f"One worker, DEBUG off. Server on core {how.server_cores}, load generator on core {how.client_cores}; "
        "for sign-in and sign-up the server has every core."
    )
    several = (
        f"{how.workers} workers, DEBUG off, on every core, the load generator's core {how.client_cores} included: it "
        "takes its part of that. The bare callables and the server without hot lane have one worker, on core "
        f"{how.server_cores}."
    )
    return [
        f"{', '.join(f'{name} {number}' for name, number in machine.versions.items())}.",
        (
            f"{how.rounds} rounds, interleaved; {how.seconds:g} s each ({how.hash_seconds:g} s where a password is "
            f"hashed), {how.connections} keep-alive connections ({how.hash_connections} for sign-in and sign-up)."
        ),
        one_worker if how.workers == 1 else several,
        (
            f"Hash pool: {how.hash_threads} threads, {how.argon2}, GLIBC_TUNABLES={how.malloc or '(not set)'}, "
            f"transparent huge pages {machine.huge_pages}; {how.hash_connections} connections wait for less than the "
            "pool's admission limit."
        ),
        (
            f"Database: {how.database}. Access log: {how.access_log}; {report.access_lines:,} lines for {measured:,} "
            "measured answers and those of ramps and warm-up."
        ),
    ]


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _share(ratio: Spread | None) -> str:
    return f"{ratio.median:.1%}" if ratio is not None else ""
