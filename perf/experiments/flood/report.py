"""The tables, checks and plots of the flood experiment."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perf import plots
from perf.experiments.flood.clients import Outcome
from perf.experiments.flood.rounds import Flooded
from perf.experiments.flood.stalls import undisturbed
from perf.findings import Check, Finding, Table, at_most
from perf.lab import Lab
from perf.rig.hash_rate import HashRate
from perf.rig.machine import QUIET_CORES
from perf.summary import percentile_ms, spread

ME_P99_MS = 5.0
REFUSED_MS = 50.0
#: Of the hashes that threads of normal priority compute beside the same neighbours.
SHARE_OF_NICE_0 = 0.9
LIMIT_MS = 4_000.0  # IRONAUTH_HASH_MAX_WAIT_S, which the servers have at its default
#: ``worker`` and ``hashing`` of docs/operate/sizing.md; two threads: 278 MiB.
WORKER_MIB, THREAD_MIB = 150.0, 64.0
_NS_PER_MS = 1_000_000


@dataclass
class Seen:
    """Everything measured; ``offered``: sign-ins per second, ``flood_s``: measured seconds of a flood.

    ``beside`` are floods with a busy process a core, ``beside_at_0`` the same with hash threads of niceness 0.
    """

    threads: int
    flood_s: float
    offered: float = 0.0
    raw: list[HashRate] = field(default_factory=list)
    idle: list[Outcome] = field(default_factory=list)
    flooded: list[Flooded] = field(default_factory=list)
    beside: list[Flooded] = field(default_factory=list)
    beside_at_0: list[Flooded] = field(default_factory=list)

    @property
    def raw_rate(self) -> float:
        """The pool's capacity: hashes per second, the median round."""
        return statistics.median(one.rate for one in self.raw)


def brief(under: Flooded, seconds: float) -> str:
    """Say in a line what one round of the flood was like."""
    return (
        f"/me p99 {_at(under.me.latencies, 99)} ms, {len(under.sign_ins.latencies) / seconds:.1f} sign-ins/s, "
        f"503 p99 {_at(under.sign_ins.shed, 99)} ms, peak {under.peak_mib:.0f} MiB, others {under.others:.2f} cores"
    )


def finding(lab: Lab, seen: Seen) -> Finding:
    """Put together what was found."""
    return Finding(
        tables=[_me_table(seen), _sign_in_table(seen), _beside_table(seen)],
        checks=_checks(seen),
        plots=_plots(lab, seen),
        notes=_notes(seen),
        data=_data(seen),
        failed=sum(_failures(seen)),
    )


def _me_table(seen: Seen) -> Table:
    scenes = {"idle": (seen.idle, ""), "flooded": ([one.me for one in seen.flooded], _at(_calm(seen.flooded), 99))}
    rows = []
    for name, (outcomes, calm) in scenes.items():
        pooled = _pool(outcomes, lambda outcome: outcome.latencies)
        ends = spread([percentile_ms(sorted(outcome.latencies), 99) for outcome in outcomes if outcome.latencies])
        lag = _at(_pool(outcomes, lambda outcome: outcome.lags), 99)
        points = [_at(pooled, percent) for percent in (50, 99, 99.9, 100)]
        rows.append([name, points[0], f"{points[1]} ({ends.low:.2f}-{ends.high:.2f})", calm, *points[2:], lag])
    columns = ["`/me` at 200/s", "p50 ms", "p99 ms (rounds)", "p99 ms but for stalls of the machine"]
    columns += ["p99.9 ms", "max ms", "generator's lag p99 ms"]
    return Table("`/me` from the intended send time", columns, rows)


def _sign_in_table(seen: Seen) -> Table:
    accepted = _accepted(seen, seen.flooded)
    refused = _pool([one.sign_ins for one in seen.flooded], lambda outcome: outcome.shed)
    row = [
        f"{accepted:.1f}",
        f"{accepted / seen.raw_rate:.0%}",
        f"{_longest(seen.flooded):.2f}",
        f"{len(refused):,}",
        *(_at(refused, percent) for percent in (50, 99, 100)),
        f"{max(one.peak_mib for one in seen.flooded):.0f}",
        f"{statistics.median(one.loop_wait_us for one in seen.flooded):.0f}",
    ]
    columns = ["accepted/s", "of raw", "longest s", "refused (503)", "503 p50 ms", "503 p99 ms"]
    columns += ["503 max ms", "peak memory MiB", "loop waits for a core µs"]
    return Table(f"Sign-ins, {seen.offered:.0f} arriving each second", columns, [row])


def _beside_table(seen: Seen) -> Table:
    rows = []
    for name, rounds in (("nice 19", seen.beside), ("nice 0", seen.beside_at_0)):
        me = _pool([one.me for one in rounds], lambda outcome: outcome.latencies)
        refused = _pool([one.sign_ins for one in rounds], lambda outcome: outcome.shed)
        rows.append([
            name, *(_at(me, percent) for percent in (50, 99)), *(_at(refused, percent) for percent in (50, 99, 100)),
            f"{_accepted(seen, rounds):.1f}",
        ])  # fmt: skip
    columns = ["hash threads", "`/me` p50 ms", "`/me` p99 ms", "503 p50 ms", "503 p99 ms", "503 max ms", "sign-ins/s"]
    return Table("The same flood beside a busy process a core", columns, rows)


def _accepted(seen: Seen, rounds: Sequence[Flooded]) -> float:
    """Return how many sign-ins a second were accepted, the median round."""
    return statistics.median(len(one.sign_ins.latencies) for one in rounds) / seen.flood_s


def _beside_checks(seen: Seen) -> list[Check]:
    me = sorted(_pool([one.me for one in seen.beside], lambda outcome: outcome.latencies))
    refused = sorted(_pool([one.sign_ins for one in seen.beside], lambda outcome: outcome.shed))
    share = _accepted(seen, seen.beside) / max(_accepted(seen, seen.beside_at_0), 1e-9)
    where = "beside a busy process a core"
    return [
        at_most(f"p99 of /me {where}", ME_P99_MS, _p99(me), " ms"),
        at_most(f"p99 of the answers 503 {where}", REFUSED_MS, _p99(refused), " ms"),
        Check(f"sign-ins {where}, of those with niceness 0", SHARE_OF_NICE_0, share),
    ]


def _checks(seen: Seen) -> list[Check]:
    rounds = seen.flooded
    me = sorted(_pool([one.me for one in rounds], lambda outcome: outcome.latencies))
    refused = sorted(_pool([one.sign_ins for one in rounds], lambda outcome: outcome.shed))
    without = sum(one.sign_ins.no_retry_after for one in rounds)
    limit_s = (LIMIT_MS + max(one.slowest_ms for one in seen.raw)) / 1_000
    bound = WORKER_MIB + THREAD_MIB * seen.threads
    calm = sorted(_calm(rounds))
    still = 1 - len(calm) / max(len(me), 1)
    checks = [
        at_most("p99 of /me under the flood", ME_P99_MS, _p99(me), " ms"),
        at_most(
            f"the same without the {still:.1%} during which the machine stood still",
            ME_P99_MS,
            _p99(calm),
            " ms",
        ),
        at_most("answers 503 without Retry-After", 0, without),
        at_most("longest accepted sign-in, its hash included", limit_s, _longest(rounds), " s"),
        at_most("peak memory", bound, max(one.peak_mib for one in rounds), " MiB"),
    ]
    if refused:
        slow = percentile_ms(refused, 99)
        late = sum(latency > REFUSED_MS * _NS_PER_MS for latency in refused)
        checks.insert(2, at_most("p99 of the answers 503", REFUSED_MS, slow, " ms"))
        checks.insert(3, at_most(f"answers 503 later than {REFUSED_MS:.0f} ms", 0, late))
    return checks + _beside_checks(seen)


def _p99(ordered: Sequence[int]) -> float:
    """Return the 99th percentile in ms; without a value so much that no promise is met by silence."""
    return percentile_ms(ordered, 99) if ordered else 1e9


def _notes(seen: Seen) -> list[str]:
    every = seen.flooded
    raw = f"Raw hash rate of {seen.threads} threads: {seen.raw_rate:.1f}/s"
    notes = [f"{raw}; server and clients share all cores, the clients at {every[0].me.scheduling}."]
    late = sum(latency > REFUSED_MS * _NS_PER_MS for one in every for latency in one.sign_ins.shed)
    notes.append(f"Refused later than {REFUSED_MS:.0f} ms: {late:,} sign-ins.")
    if waited := sum(one.sign_ins.waited + one.me.waited for one in every):
        notes.append(f"{waited:,} requests found no free connection in the client, and waited for one.")
    if stalls := [end - begin for one in every for begin, end in one.stalls]:
        notes.append(
            f"The machine itself stood still {len(stalls):,} times, on one core or more, for {sum(stalls) / 1e9:.2f} "
            f"core seconds, at most {max(stalls) / _NS_PER_MS:.0f} ms at once: its hypervisor, not the server."
        )
    if (others := max(one.others for one in every)) > QUIET_CORES:
        notes.append(f"NOT QUIET: others kept up to {others:.2f} cores busy: repeat this run.")
    return notes


def _plots(lab: Lab, seen: Seen) -> list[str]:
    """Draw how many requests are slower than a latency, and what sign-ins get."""
    series = {"idle": _slower(_pool(seen.idle, lambda outcome: outcome.latencies))}
    series["flooded"] = _slower(_pool([one.me for one in seen.flooded], lambda outcome: outcome.latencies))
    plots.lines(
        latency := lab.plot("me"),
        "/me at 200 requests/s while sign-ins flood the pool",
        series,
        x="latency from the intended send time, ms",
        y="% of requests that are slower",
        log_x=True,
        log_y=True,
    )
    accepted = _accepted(seen, seen.flooded)
    values = {"raw": seen.raw_rate, "flooded": accepted}
    plots.bars(rates := lab.plot("sign-ins"), "Accepted sign-ins", values, unit="per second")
    return [latency.name, rates.name]


def _slower(latencies: Iterable[int]) -> list[tuple[float, float]]:
    """Return (ms, % of the values that are slower), at most a few hundred points, densest at the slow end."""
    ordered = sorted(latencies)
    count = len(ordered)
    ranks = sorted({min(int(count * (1 - 0.97**step)), count - 2) for step in range(400)}) if count > 1 else []
    return [(ordered[rank] / _NS_PER_MS, 100 * (count - rank - 1) / count) for rank in ranks]


def _data(seen: Seen) -> dict[str, Any]:
    """Return every round's figures; single latencies would be megabytes."""
    points = (50, 90, 99, 99.9, 100)
    return {
        "offered_per_s": seen.offered,
        "raw_per_s": [one.rate for one in seen.raw],
        "idle_me_ms": [{str(point): _at(one.latencies, point) for point in points} for one in seen.idle],
        **{
            name: [
                {
                    "me_ms": {str(point): _at(one.me.latencies, point) for point in points},
                    "accepted": len(one.sign_ins.latencies),
                    "refused": len(one.sign_ins.shed),
                    "refused_ms": {str(point): _at(one.sign_ins.shed, point) for point in points},
                    "peak_mib": one.peak_mib,
                    "loop_wait_us": one.loop_wait_us,
                    "others": one.others,
                    "stalls_ms": [(end - begin) / _NS_PER_MS for begin, end in one.stalls],
                }
                for one in rounds
            ]
            for name, rounds in (("flooded", seen.flooded), ("beside", seen.beside), ("beside_at_0", seen.beside_at_0))
        },
    }


def _failures(seen: Seen) -> Iterable[int]:
    """Yield how many answers of each client were wrong or missing; a client without any answer failed too."""
    floods = [*seen.flooded, *seen.beside, *seen.beside_at_0]
    for outcome in [*seen.idle, *(part for one in floods for part in (one.me, one.sign_ins))]:
        yield sum(outcome.failures.values()) or int(not outcome.latencies)


def _calm(rounds: Iterable[Flooded]) -> list[int]:
    """Return the latencies of `/me` without those that a stall of the machine is part of."""
    return [latency for one in rounds for latency in undisturbed(one.me.dues, one.me.latencies, one.stalls)]


def _longest(rounds: Sequence[Flooded]) -> float:
    """Return the longest that an accepted sign-in took, in seconds."""
    return max((max(one.sign_ins.latencies, default=0) for one in rounds), default=0) / 1e9


def _pool(outcomes: Iterable[Outcome], values: Callable[[Outcome], Sequence[int]]) -> list[int]:
    return [value for outcome in outcomes for value in values(outcome)]


def _at(values: Sequence[int], percent: float) -> str:
    """Return a percentile in ms as text; nothing when there are no values."""
    return f"{percentile_ms(sorted(values), percent):.2f}" if values else ""
