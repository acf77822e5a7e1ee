"""What a failover costs: a line for each case and way to the database, and whether every promise was kept."""

import statistics
from collections.abc import Sequence
from typing import Final

from perf.failover.cases import CASES, Round
from perf.failover.people import BOUND_S
from perf.findings import Check, Finding, Table, at_most

#: Seconds: Patroni's ttl. After it another primary may be chosen where there is a majority.
TTL_S: Final = 20.0
_SEEN: Final = (
    "what", "way", "times", "longest time without a committed refresh, median", "longest", "answers", "503",
    "other errors", "sign-outs", "flows at an application", "ended token taken for", "histories",
)  # fmt: skip
_COLUMNS: Final = (*_SEEN, "not linearizable")
_PRICE: Final = (*_SEEN, "with acknowledged writes that were lost")


def finding(rounds: Sequence[Round], versions: str, *, ended: str = "") -> Finding:
    """Report rounds, those of one case and way together; what is promised apart from what is not.

    Args:
        rounds: What was seen.
        versions: Of the programs, in words.
        ended: Why the run ended before its last round, which is a failure; "" for a whole run.
    """
    groups: dict[tuple[str, str], list[Round]] = {}
    for one in rounds:
        groups.setdefault((one.case, one.route), []).append(one)
    checks: list[Check] = []
    for (case, route), group in groups.items():
        middle = statistics.median(one.gap_s for one in group)
        checks.append(
            at_most(f"{CASES[case].what}, {route}: no committed refresh", CASES[case].ceiling_s, middle, " s")
        )
    kept = [one for one in rounds if one.promised]
    checks += [
        at_most("histories that are not linearizable (an acknowledged write was lost, or undone)", 0,
                sum(len(one.illegal) for one in kept)),
        at_most("refresh tokens and codes with two successors", 0, sum(one.seen.forks for one in kept)),
        at_most("life of a token after its sign-out", BOUND_S,
                max((one.seen.latest_s for one in kept), default=0), " s"),
        at_most("answers that are neither right nor 503", 0, sum(len(one.mistaken) for one in rounds)),
        at_most("writes that a cut off primary took", 0, sum(len(one.wrote) for one in kept)),
        at_most("writes taken without a majority of etcds, after its loss", TTL_S,
                max((one.took_s for one in rounds), default=0), " s"),
    ]  # fmt: skip
    rows: dict[bool, list[list[str]]] = {True: [], False: []}
    for (case, route), group in groups.items():
        rows[group[0].promised].append(_row(CASES[case].what, route, group))
    tables = [Table("Failover under load", _COLUMNS, rows[True])] if rows[True] else []
    if rows[False]:
        tables.append(Table("The price of asynchronous replication, which loses writes", _PRICE, rows[False]))
    wrong = [*filter(None, [ended]), *(text for one in rounds for text in one.broken)]
    return Finding(
        tables,
        checks,
        notes=[versions, *(f"wrong: {text[:300]}" for text in wrong[:10])],
        failed=len(wrong),
    )


def _row(what: str, route: str, group: Sequence[Round]) -> list[str]:
    gaps = [one.gap_s for one in group]
    return [
        what, route, str(len(group)), f"{statistics.median(gaps):.1f} s", f"{max(gaps):.1f} s",
        f"{sum(one.answers.total for one in group):,}", f"{sum(one.unavailable for one in group):,}",
        str(sum(len(one.answers.wrong) for one in group)), str(sum(one.seen.sign_outs for one in group)),
        str(sum(one.seen.flows for one in group)),
        f"{max(one.seen.latest_s for one in group):.1f} s", f"{sum(one.sessions for one in group):,}",
        str(sum(len(one.illegal) for one in group)),
    ]  # fmt: skip
