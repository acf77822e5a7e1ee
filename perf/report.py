"""The benchmark's report: the figures as one Struct (JSON) and as Markdown."""

from collections import Counter

import msgspec

from perf.machine import Machine
from perf.summary import Round, Spread, ratios, spread
from perf.workloads import BARE, HASH, WORKLOADS

ME_SHARE_OF_BARE = 0.50  # with the access log; through the DRF view the next
ME_VIEW_SHARE_OF_BARE = 0.18
SIGN_IN_SHARE_OF_HASH = 0.95  # everything a sign-in does beside its hash fits into the other core
QUIET_CORES = 0.15  # the kernel's network work alone shows as up to 0.1 core of "others"
_HASHING = {workload.name for workload in WORKLOADS if workload.hashing}


class Conditions(msgspec.Struct, frozen=True):
    """How the run was made: everything a reader needs to repeat it."""

    started_at: str
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


class Threshold(msgspec.Struct, frozen=True):
    """A ratio this project promises, and what was measured."""

    what: str
    wanted: float
    measured: float

    @property
    def met(self) -> bool:
        """Whether the promise was kept."""
        return self.measured >= self.wanted


class Report(msgspec.Struct):
    """Everything one run produced."""

    machine: Machine
    conditions: Conditions
    rounds: dict[str, list[Round]]
    access_lines: int
    thresholds: list[Threshold] = []

    @property
    def failed(self) -> int:
        """Answers that were wrong, missing or shed, over all rounds."""
        return sum(each.failed + each.shed for rounds in self.rounds.values() for each in rounds)

    def ratio(self, name: str, yardstick: str) -> Spread | None:
        """Return ``name``'s rate over ``yardstick``'s, round by round; None when one was not measured."""
        if name not in self.rounds or yardstick not in self.rounds:
            return None
        return ratios([each.rate for each in self.rounds[name]], [each.rate for each in self.rounds[yardstick]])


def thresholds(report: Report) -> list[Threshold]:
    """Compare the measured ratios with the promised ones."""
    promised = (
        ("warm /me against the bare ASGI callable", ME_SHARE_OF_BARE, "me", BARE),
        ("warm /me through the DRF view against the bare ASGI callable", ME_VIEW_SHARE_OF_BARE, "me-view", BARE),
        ("sign-in against the raw hash rate", SIGN_IN_SHARE_OF_HASH, "signin", HASH),
    )
    measured = ((what, wanted, report.ratio(name, yardstick)) for what, wanted, name, yardstick in promised)
    return [Threshold(what, wanted, ratio.median) for what, wanted, ratio in measured if ratio is not None]


def markdown(report: Report) -> str:
    """Render the report; the first table is the result, the rest says what it depends on."""
    return "\n".join([*_table(report), "", *_verdicts(report), "", *_conditions(report), ""])


def _table(report: Report) -> list[str]:
    lines = [
        (
            "| workload | requests/s: median (low-high) | p50 ms | p99 ms | of bare | of raw hash "
            "| server CPU µs/request | cores busy: server + client + others | failed | 503 |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    titles = {workload.name: workload.title for workload in WORKLOADS}
    titles[HASH] = f"raw Argon2id, {report.conditions.hash_threads} threads, no server"
    for name, rounds in report.rounds.items():
        rate = spread([each.rate for each in rounds])
        cores = " + ".join(
            f"{spread(values).median:.2f}"
            for values in zip(
                *((each.server_cores, each.client_cores, each.other_cores) for each in rounds), strict=True
            )
        )
        server_less = name == HASH
        lines.append(
            f"| {titles[name]} | {_rate(rate.median)} ({_rate(rate.low)}-{_rate(rate.high)}) "
            f"| {_median(rounds, 'p50_ms')} | {_median(rounds, 'p99_ms')} "
            f"| {_share(report.ratio(name, BARE), shown=not server_less and name not in _HASHING)} "
            f"| {_share(report.ratio(name, HASH), shown=name in _HASHING)} "
            f"| {spread([each.server_cpu_us for each in rounds]).median:,.0f} "
            f"| {'' if server_less else cores} "
            f"| {sum(each.failed for each in rounds)} | {sum(each.shed for each in rounds)} |"
        )
    return lines


def _verdicts(report: Report) -> list[str]:
    lines = [
        f"- {'pass' if each.met else 'FALLS SHORT'}: {each.what}: {each.measured:.1%} "
        f"(wanted: at least {each.wanted:.0%})"
        for each in report.thresholds
    ]
    lines += _cpu_shares(report)
    busiest, where = max((each.other_cores, name) for name, rounds in report.rounds.items() for each in rounds)
    if busiest > QUIET_CORES:
        lines.append(
            f"- NOT QUIET: other processes kept up to {busiest:.2f} cores busy (during {where}): "
            "repeat on a quiet machine before believing a rate"
        )
    reasons: Counter[str] = Counter()
    for name, rounds in report.rounds.items():
        for each in rounds:
            reasons.update({f"{name}: {reason}": count for reason, count in each.failures.items()})
    lines += [f"- failed: {reason}: {count}" for reason, count in reasons.items()]
    return lines or ["- no threshold applies to the workloads chosen"]


def _cpu_shares(report: Report) -> list[str]:
    """Say what the rates' ratios would be if only CPU time counted: other processes hardly change these."""
    cpu_us = {name: spread([each.server_cpu_us for each in rounds]).median for name, rounds in report.rounds.items()}
    pairs = (("the bare callable of warm /me", BARE, "me"), ("the raw hash of a sign-in", HASH, "signin"))
    return [
        f"- CPU time: {what}: {cpu_us[part] / cpu_us[whole]:.1%}"
        for what, part, whole in pairs
        if cpu_us.get(part) and cpu_us.get(whole)
    ]


def _conditions(report: Report) -> list[str]:
    how, machine = report.conditions, report.machine
    measured = sum(
        each.completed for name, rounds in report.rounds.items() if name not in (BARE, HASH) for each in rounds
    )
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    return [
        (
            f"- {how.started_at}, commit {machine.commit}; {machine.cpu}, {machine.cores} cores, "
            f"{machine.memory_gib} GiB, Linux {machine.kernel}, load average {machine.load_average:.2f} at the start."
        ),
        f"- Python {machine.python}, {versions}.",
        (
            f"- {how.rounds} rounds, interleaved; {how.seconds:g} s each ({how.hash_seconds:g} s where a password is "
            f"hashed), {how.connections} keep-alive connections ({how.hash_connections} for sign-in and sign-up)."
        ),
        (
            f"- One worker, DEBUG off. Server on core {how.server_cores}, load generator on core {how.client_cores}; "
            "for sign-in and sign-up the server has every core."
        ),
        (
            f"- Hash pool: {how.hash_threads} threads, {how.argon2}, GLIBC_TUNABLES={how.malloc or '(not set)'}, "
            f"transparent huge pages {machine.huge_pages}; {how.hash_connections} connections wait for less than the "
            "pool's admission limit."
        ),
        (
            f"- Database: {how.database}. Access log: {how.access_log}; {report.access_lines:,} lines for {measured:,} "
            "measured answers and those of ramps and warm-up."
        ),
    ]


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _median(rounds: list[Round], figure: str) -> str:
    return f"{spread([getattr(each, figure) for each in rounds]).median:.2f}"


def _share(ratio: Spread | None, *, shown: bool) -> str:
    return f"{ratio.median:.1%}" if ratio is not None and shown else ""
