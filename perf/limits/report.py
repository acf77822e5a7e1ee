"""The limits as tables and checks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perf.findings import Check, Finding, Table, at_most
from perf.limits.boundaries import Outcome, wrong
from perf.limits.client import span, told
from perf.limits.hash_queue import ACCOUNTS, EACH, P95_S, PAUSE_S, RATE, Scene
from perf.limits.pool import RECOVERED_WITHIN_S, REFUSED_WITHIN_S, Refusals

if TYPE_CHECKING:
    from perf.limits.__main__ import Crowded

#: What comes a second time finds what the allocator has kept of the first, and may not take that again.
GROWN_MIB = 8.0
#: What every crowd but the last leaves, together: the process's growth to what it needs for as many clients.
LEFT_MIB = 24.0
#: Of 768 requests and 896 connections at once; none of them may have more than 192 KiB.
PEAK_MIB = 144.0
SERVED_P99_MS = 250.0
#: Of 400 unfinished bodies from one network: its share of 4 MiB, and 50 KiB for each connection.
FLAT_MIB = 24.0


def finding(
    outcomes: Sequence[Outcome],
    crowded: Sequence["Crowded"],
    refusals: Sequence[Refusals],
    scenes: Sequence[Scene] = (),
    *,
    missing: str,
    requests: int,
    connections: int,
) -> Finding:
    """Say what was found. ``missing``: why no database was held, if none was."""
    mistakes = wrong(outcomes)
    checks = [at_most("bounds of one request that did not hold", 0, len(mistakes))]
    checks += _crowd_checks(crowded)
    checks += [check for one in scenes for check in _queue_checks(one)]
    checks += [check for one in refusals for check in _pool_checks(one)]
    notes = [
        (
            f"One worker on SQLite that may open 1,024 files, so that it answers {requests} requests at once and keeps "
            f"{connections} connections; crowds come one after the other. `/me` is asked 20 times a second by somebody "
            "signed in, from another process. Memory is the resident set; after: 3 s later."
        ),
        "A connection that was never completed (a SYN without more) is the kernel's: no server hears of it.",
        *mistakes,
    ]
    if missing:
        notes.append(f"Not measured: connections to Postgres that are all taken ({missing}).")
    if scenes:
        notes.append(
            f"The hash queue: {ACCOUNTS} accounts of one client give right passwords on {ACCOUNTS * EACH} connections "
            f"(sign-in, step-up, removing a factor), and pause {PAUSE_S * 1000:.0f} ms after a refusal. Another "
            f"client, at another address, signs in {RATE:g} times a second; its times count from when each was due."
        )
    tables = [_bounds(outcomes), _crowds(crowded)]
    tables += [_queue(scenes)] if scenes else []
    tables += [_pool(refusals)] if refusals else []
    data = {
        "bounds": {one.case.name: [one.how, round(one.seconds, 3)] for one in outcomes},
        "hash_queue": [one._asdict() for one in scenes],
        "crowds": {one.crowd.name: [told(one.ends), one.peak_mib, one.beside._asdict()] for one in crowded},
        "pool": {one.name: [told(one.ends), one.beside._asdict()] for one in refusals},
    }
    failed = sum(one.crowd.wrong(one.ends) for one in crowded) + len(mistakes)
    return Finding(tables, checks, (), notes, data=data, failed=failed)


def _crowd_checks(crowded: Sequence["Crowded"]) -> list[Check]:
    if not crowded:
        return []
    earlier = crowded[:-2]  # the last comes twice
    left_mib = earlier[-1].after_mib - earlier[0].before_mib if earlier else 0.0
    again_mib = crowded[-1].after_mib - crowded[-1].before_mib
    misled = sum(one.crowd.wrong(one.ends) for one in crowded)
    unserved = sum(unserved_by(one) for one in crowded)
    slowest = max((one.beside.p99_ms for one in crowded if not one.crowd.busy), default=0.0)
    return [
        at_most("connections of crowds that did not end as they must", 0, misled),
        at_most("requests of an ordinary client that failed meanwhile", 0, unserved),
        at_most("its longest p99 while nobody keeps the server busy", SERVED_P99_MS, slowest, " ms"),
        at_most("memory a crowd took at most", PEAK_MIB, max(one.peak_mib - one.before_mib for one in crowded), " MiB"),
        *(
            at_most(f"memory taken by {one.crowd.name}", FLAT_MIB, one.peak_mib - one.before_mib, " MiB")
            for one in crowded
            if one.crowd.flat
        ),
        at_most("memory left behind by all crowds before that", LEFT_MIB, left_mib, " MiB"),
        at_most("memory left behind by the last crowd when it came again", GROWN_MIB, again_mib, " MiB"),
    ]


def unserved_by(one: "Crowded") -> int:
    """Return how many requests of the ordinary client failed; 503 is no failure where every place is taken."""
    return sum(one.beside.failures.values()) + (0 if one.crowd.full else one.beside.shed)


def _pool_checks(one: Refusals) -> list[Check]:
    longest = max((end.seconds for end in one.ends), default=float("inf"))
    unserved = sum(one.beside.failures.values()) + one.beside.shed
    name = f"connections to Postgres, {one.name}"
    return [
        at_most(f"{name}: refreshes not refused by 503 with Retry-After", 0, one.wrong),
        at_most(f"{name}: longest wait for it", REFUSED_WITHIN_S, longest, " s"),
        at_most(f"{name}: `/me` not answered, hot lane", 0, unserved),
        at_most(f"{name}: first refresh after it", RECOVERED_WITHIN_S, one.recovered_s, " s"),
    ]


def _queue_checks(one: Scene) -> list[Check]:
    name = f"hash queue flooded, {one.way}, workers {one.workers}: another client's sign-ins"
    return [
        at_most(f"{name} refused by 503", 0, one.refused),
        at_most(f"{name} that failed otherwise", 0, one.failed),
        at_most(f"{name}, p95", P95_S, one.within_s(0.95), " s"),
    ]


def _bounds(outcomes: Sequence[Outcome]) -> Table:
    rows = [[one.case.name, one.how, f"{one.seconds:.2f}", "yes" if one.right else "NO"] for one in outcomes]
    return Table("One request", ["sent", "answer", "ended after s", "as it must be"], rows)


def _crowds(crowded: Sequence["Crowded"]) -> Table:
    columns = [
        "clients",
        "ended by",
        "after s",
        "memory MiB: before, most, after",
        "`/me` p50 ms",
        "p99 ms",
        "failed",
        "503",
    ]
    rows = [
        [
            f"{one.crowd.count:,}: {one.crowd.name}",
            told(one.ends),
            span(one.ends),
            f"{one.before_mib:.0f}, {one.peak_mib:.0f}, {one.after_mib:.0f}",
            f"{one.beside.p50_ms:.1f}",
            f"{one.beside.p99_ms:.1f}",
            f"{sum(one.beside.failures.values())}",
            f"{one.beside.shed}",
        ]
        for one in crowded
    ]
    return Table("Crowds", columns, rows)


def _queue(scenes: Sequence[Scene]) -> Table:
    columns = ["a flood of right passwords", "workers", "its answers", "another's sign-ins", "503", "failed", "p50 s"]
    rows = [
        [
            one.way,
            f"{one.workers}",
            ", ".join(f"{status}: {count:,}" for status, count in one.flood.items()),
            f"{len(one.seen)}",
            f"{one.refused}",
            f"{one.failed}",
            f"{one.within_s(0.5):.2f}",
            f"{one.within_s(0.95):.2f}",
        ]
        for one in scenes
    ]
    return Table("The hash queue", [*columns, "p95 s"], rows)


def _pool(refusals: Sequence[Refusals]) -> Table:
    columns = ["connections to Postgres", "refreshes", "after s", "`/me` answered", "p99 ms", "refused", "back after s"]
    rows = [
        [
            f"{one.name}, for {one.held_s:g} s",
            told(one.ends),
            span(one.ends),
            f"{one.beside.answers}",
            f"{one.beside.p99_ms:.1f}",
            f"{sum(one.beside.failures.values()) + one.beside.shed}",
            f"{one.recovered_s:.2f}",
        ]
        for one in refusals
    ]
    return Table("No database to be had", columns, rows)
