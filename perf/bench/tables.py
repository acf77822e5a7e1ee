"""The benchmark's report as Markdown: the result first, then what it depends on."""

from collections import Counter

from perf.bench import paced
from perf.bench.report import HASHING, Report
from perf.load.workloads import BARE, HASH
from perf.rig.machine import QUIET_CORES
from perf.rig.sampling import Sample
from perf.summary import Spread, spread


def markdown(report: Report, *, plots: str = "plots") -> str:
    """Render the report; ``plots`` is the folder of the plots as seen from the page."""
    parts = [_table(report)]
    if report.paced:
        parts.append(paced.table(report.paced, report.titles))
    if sampled := _samples(report):
        parts.append(sampled)
    parts += [[f"![{name.removesuffix('.svg')}]({plots}/{name})"] for name in report.plots]
    parts += [_verdicts(report), _conditions(report)]
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _table(report: Report) -> list[str]:
    lines = [
        (
            "| workload | requests/s: median (low-high) | p50 ms | p99 ms | of bare | of raw hash "
            "| server CPU µs/request | cores busy: server + client + databases + others | failed | 503 |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, rounds in report.rounds.items():
        rate = spread([each.rate for each in rounds])
        metered = name not in report.conditions.peers
        cores = " + ".join(
            f"{spread(values).median:.2f}"
            for values in zip(
                *((each.server_cores, each.client_cores, each.beside_cores, each.other_cores) for each in rounds),
                strict=True,
            )
        )
        lines.append(
            f"| {report.titles.get(name, name)} | {_rate(rate.median)} ({_rate(rate.low)}-{_rate(rate.high)}) "
            f"| {report.median(name, 'p50_ms'):.2f} | {report.median(name, 'p99_ms'):.2f} "
            f"| {_share(report.ratio(name, BARE), shown=name != HASH and name not in HASHING)} "
            f"| {_share(report.ratio(name, HASH), shown=name in HASHING)} "
            f"| {f'{report.median(name, "server_cpu_us"):,.0f}' if metered else ''} "
            f"| {cores if metered and name != HASH else ''} "
            f"| {sum(each.failed for each in rounds)} | {sum(each.shed for each in rounds)} |"
        )
    return lines


def _samples(report: Report) -> list[str]:
    """Summarise what was sampled beside the rounds."""
    lines = [
        (
            "| beside it | CPU % of all cores: mean (user, system, iowait, steal) | run queue: mean, max "
            "| context switches/s | server's voluntary/s | server's involuntary/s |"
        ),
        f"|{'---|' * 6}",
    ]
    for name, rounds in report.rounds.items():
        samples = [sample for each in rounds for sample in each.samples]
        if samples:
            lines.append(
                f"| {report.titles.get(name, name)} | {_sampled(samples, server=name not in report.conditions.peers)}"
            )
    return lines if len(lines) > 2 else []


def _sampled(samples: list[Sample], *, server: bool) -> str:
    parts = [
        _mean([getattr(core, part) for sample in samples for core in sample.cores])
        for part in ("user", "system", "iowait", "steal")
    ]
    busy, queue = _mean([sample.busy for sample in samples]), [sample.run_queue for sample in samples]
    switches = [
        _mean([getattr(sample, name) for sample in samples])
        for name in ("switches", "server_voluntary", "server_involuntary")
    ]
    shown = [f"{each:,.0f}" if server or at == 0 else "" for at, each in enumerate(switches)]
    return (
        f"{busy:.0f} ({', '.join(f'{part:.0f}' for part in parts)}) | {_mean(queue):.1f}, {max(queue)} "
        f"| {' | '.join(shown)} |"
    )


def _verdicts(report: Report) -> list[str]:
    lines = [f"- {check}" for check in report.thresholds]
    lines += _cpu_shares(report)
    ours = {name: rounds for name, rounds in report.rounds.items() if name not in report.conditions.peers}
    busiest, where = max((each.other_cores, name) for name, rounds in ours.items() for each in rounds)
    if busiest > QUIET_CORES:
        lines.append(
            f"- NOT QUIET: other processes kept up to {busiest:.2f} cores busy (during {where}): "
            "repeat on a quiet machine before believing a rate"
        )
    reasons: Counter[str] = Counter()
    for name, each in report.every_round():
        reasons.update({f"{name}: {reason}": count for reason, count in each.failures.items()})
    lines += [f"- failed: {reason}: {count}" for reason, count in reasons.items()]
    return lines or ["- no threshold applies to the workloads chosen"]


def _cpu_shares(report: Report) -> list[str]:
    """Say what the rates' ratios would be if only CPU time counted: other processes hardly change these."""
    cpu_us = {name: report.median(name, "server_cpu_us") for name in report.rounds}
    pairs = (
        ("the bare callable of warm /me", BARE, "me"),
        ("the raw hash of a sign-in", HASH, "signin"),
        ("the raw hash of a sign-up", HASH, "signup"),
    )
    return [
        f"- CPU time: {what}: {cpu_us[part] / cpu_us[whole]:.1%}"
        for what, part, whole in pairs
        if cpu_us.get(part) and cpu_us.get(whole)
    ]


def _conditions(report: Report) -> list[str]:
    how, machine = report.conditions, report.machine
    elsewhere = {BARE, "bare-ours", HASH, *how.peers}
    measured = sum(each.completed for name, each in report.every_round() if name not in elsewhere)
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions.items())
    lines = [
        (
            f"- {how.started_at}, commit {machine.commit}; {machine.cpu}, {machine.cores} cores, "
            f"{machine.memory_gib} GiB, Linux {machine.kernel}, load average {machine.load_average:.2f} at the start."
        ),
        f"- Python {machine.python}, {versions}.",
        (
            f"- {how.rounds} rounds, interleaved; {how.seconds:g} s each ({how.hash_seconds:g} s where a password is "
            f"hashed), {how.connections} keep-alive connections ({how.hash_connections} for sign-in and sign-up)."
        ),
        f"- {_placement(report)}",
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
    if how.peers:
        lines.append(
            "- Peers were started by the operator, run on whichever cores they were given, and are not metered."
        )
    return lines


def _placement(report: Report) -> str:
    how = report.conditions
    if how.workers == 1:
        return (
            f"One worker, DEBUG off. Server on core {how.server_cores}, load generator on core {how.client_cores}; "
            "for sign-in and sign-up the server has every core."
        )
    return (
        f"{how.workers} workers, DEBUG off, on every core, the load generator's core {how.client_cores} included: it "
        "takes its part of that. The bare callables and the server without hot lane have one worker, on core "
        f"{how.server_cores}."
    )


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _mean(values: list[float] | list[int]) -> float:
    return sum(values) / len(values)


def _share(ratio: Spread | None, *, shown: bool) -> str:
    return f"{ratio.median:.1%}" if ratio is not None and shown else ""
