"""What the nodes promise together, and whether they kept it: tables and checks."""

from collections.abc import Mapping, Sequence

from perf.findings import Finding, Table, at_most
from perf.nodes.crowd import Renewed
from perf.nodes.cuts import BOUND_S, RECOVERY_S, REPORTED_S, Cut
from perf.nodes.revocation import Lags
from perf.nodes.watch import Answers

WITH_REDIS, WITHOUT_REDIS = "Redis", "no Redis"


def revocation(lags: Mapping[tuple[str, str], Lags], answers: Answers) -> Finding:
    """Report how long node B took what was ended at node A, by what ended it and by whether there was Redis."""
    rows = [
        [act, storage, str(len(found)), f"{found.p50_ms:,.0f} ms", f"{found.longest_ms:,.0f} ms"]
        for (act, storage), found in lags.items()
    ]
    columns = ["ended at node A by", "told by", "times", "taken at node B for, p50", "longest"]
    longest = max(found.longest_ms for found in lags.values()) / 1000
    check = at_most("longest life of what was ended at the other node", BOUND_S, longest, " s")
    return Finding([Table("Revocation reaches the other node", columns, rows)], [check], failed=len(answers.wrong))


def refreshes(times: int, forks: int, answers: Answers) -> Finding:
    """Report how often one refresh token, traded in at both nodes at once, had two successors."""
    check = at_most(f"second successors of a token renewed at both nodes at once, {times} times", 0, forks)
    return Finding([], [check], failed=len(answers.wrong))


def cuts(seen: Sequence[Cut]) -> Finding:
    """Report every cut on a line."""
    columns = [
        "node B cut off from", "sign-outs at A", "B's last 200 after one", "B: 200 / 401 / 503", "B's longest answer",
        "A: 200", "people behind nginx: answers", "of them 503 (GET, POST)", "longest", "B is back after",
    ]  # fmt: skip
    rows = [_cut_row(one) for one in seen]
    checks = []
    for one in seen:
        checks += [
            at_most(f"cut off from {one.what}: life of an ended session", BOUND_S, one.latest_s, " s"),
            at_most(f"cut off from {one.what}: longest answer of B", REPORTED_S, one.at_b.longest_s, " s"),
            at_most(f"cut off from {one.what}: wrong answers of A and B", 0, _wrong(one.at_a, one.at_b)),
            at_most(f"cut off from {one.what}: wrong answers to people", 0, _wrong(one.people)),
            at_most(f"cut off from {one.what}: reads that people had to repeat", 0, one.refused["GET"]),
            at_most(f"cut off from {one.what}: B's recovery", RECOVERY_S, one.recovery_s, " s"),
        ]
    return Finding([Table("One node cut off", columns, rows)], checks, failed=sum(_all_wrong(one) for one in seen))


def renewals(seen: Sequence[Renewed]) -> Finding:
    """Report what a crowd saw of restarts."""
    columns = ["what", "times", "seconds", "answers", "failed", "longest answer"]
    rows = [
        [one.what, str(one.times), f"{one.seconds:.0f}", f"{one.answers.total:,}", str(len(one.answers.wrong)),
         f"{one.answers.longest_s * 1000:,.0f} ms"]
        for one in seen
    ]  # fmt: skip
    checks = [at_most(f"{one.what}: failed requests", 0, len(one.answers.wrong)) for one in seen]
    failed = sum(len(one.answers.wrong) for one in seen)
    return Finding([Table("Restarts under load", columns, rows)], checks, failed=failed)


def together(parts: Sequence[Finding], wrong: Sequence[str]) -> Finding:
    """Join findings; ``wrong`` are answers in words, of which the first are told."""
    return Finding(
        [table for part in parts for table in part.tables],
        [check for part in parts for check in part.checks],
        notes=[f"wrong: {text}" for text in wrong[:10]],
        failed=len(wrong),
    )


def _cut_row(one: Cut) -> list[str]:
    at_b = one.at_b.statuses
    return [
        one.what, str(one.ended), f"{one.latest_s:.1f} s", f"{at_b[200]:,} / {at_b[401]:,} / {at_b[503]:,}",
        f"{one.at_b.longest_s:.1f} s", f"{one.at_a.statuses[200]:,}", f"{one.people.total:,}",
        f"{one.people.statuses[503]:,} ({one.refused['GET']}, {one.refused['POST']})", f"{one.people.longest_s:.1f} s",
        f"{one.recovery_s:.1f} s",
    ]  # fmt: skip


def _wrong(*answers: Answers) -> int:
    return sum(len(one.wrong) for one in answers)


def _all_wrong(one: Cut) -> int:
    return _wrong(one.at_a, one.at_b, one.people)
