"""The table of faults, and what to say about them."""

from collections.abc import Mapping, Sequence

import msgspec

from perf.faults.cases import ADDED_S, CASES
from perf.faults.stage import RECOVERY_S, Outcome
from perf.findings import Check, Finding, Table, at_most

REFUSAL_S = 2.0  # a database that is gone is reported within this time
COLUMNS = (
    "fault", "answers", "503", "other 5xx", "no answer", "longest refusal",
    "longest answer before, since", "revocations",
    "latest acceptance of a revoked token", "live generations of a session", "recovery",
)  # fmt: skip
HYPOTHESIS = (
    "whatever is lost, no answer is a 5xx but 503, no revoked token is accepted anywhere past 5 s, no session has two "
    "live generations, and within 5 s after the fault either worker does everything again, without a restart."
)


def finding(outcomes: Sequence[Outcome], not_run: Mapping[str, str], *, bound_s: float) -> Finding:
    """Return the record of a run; ``not_run``: faults this machine did not allow, with the reason."""
    table = Table("Faults", COLUMNS, [row(outcome) for outcome in outcomes])
    figures = [outcome.figures for outcome in outcomes]
    checks = [
        _worst("answers with a 5xx but 503", 0, [one.other_5xx for one in figures]),
        _worst("latest acceptance of a revoked token", bound_s, [one.latest_acceptance_s for one in figures], " s"),
        _worst("live generations of one session", 1, [one.most_generations for one in figures]),
        _worst("longest recovery", RECOVERY_S, [_recovery(one) for one in outcomes], " s"),
        _worst("time that a Redis out of order adds to the longest answer", ADDED_S, _added(outcomes), " s"),
        _worst("longest refusal", REFUSAL_S, [one.longest_refusal_s for one in figures], " s"),
    ]
    notes = [f"NOT RUN: {CASES[name].what}: {why}" for name, why in not_run.items()]
    notes += [
        f"{CASES[one.name].what}: {one.figures.ended} sessions ended: {reason}"
        for one in outcomes
        if one.figures.ended and (reason := CASES[one.name].allowed.ending or "shown again after the grace window")
    ]
    notes += [
        f"BROKEN: {CASES[one.name].what}: {promise} ({times} times)"
        for one in outcomes
        for promise, times in one.figures.broken.most_common()
    ]
    return Finding(
        [table], checks, notes=notes, data={"faults": msgspec.to_builtins(outcomes)},
        failed=sum(one.broken.total() for one in figures),
    )  # fmt: skip


def row(outcome: Outcome) -> list[str]:
    """Return a fault's line of the table."""
    one = outcome.figures
    return [
        CASES[outcome.name].what,
        f"{one.answers:,}",
        f"{one.unavailable:,}",
        f"{one.other_5xx:,}",
        f"{one.lost.total():,}",
        f"{one.longest_refusal_s:.2f} s" if one.unavailable else "",
        f"{one.usual_s:.2f}, {one.slowest_s:.2f} s",
        f"{one.revocations:,}",
        f"{one.latest_acceptance_s:.2f} s" if one.latest_acceptance_s else "none",
        f"{one.most_generations}",
        "none" if outcome.recovery_s is None else f"{outcome.recovery_s:.1f} s",
    ]


def _worst(what: str, wanted: float, seen: Sequence[float], unit: str = "") -> Check:
    """Return what the worst fault says about a promise."""
    return at_most(what, wanted, max(seen, default=0), unit)


def _added(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.figures.added_s for outcome in outcomes if CASES[outcome.name].allowed.adding_s == ADDED_S]


def _recovery(outcome: Outcome) -> float:
    return float("inf") if outcome.recovery_s is None else outcome.recovery_s
