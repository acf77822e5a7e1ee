"""What staff wait for when they search people and filter the list, among a thousand and among millions."""

import json
import statistics
import time
from typing import Any, Final

import psycopg

from ironauth.tests.services import PrivatePostgres
from perf.experiments.people.loading import drop_search, load, search_indexes
from perf.findings import Finding, Table, at_most
from perf.lab import Lab
from perf.rig.processes import free_port
from perf.rig.site_setup import installed, prepare, prepare_site, site_environment

HYPOTHESIS = (
    "A search for part of an address or a name brings a page within 10 ms (p50), however many people there are: "
    "a trigram index finds them, and no statement walks the table. The staff list's filters keep to the "
    "same, because each that few people meet has an index of those few."
)
WANTED_MS: Final = 10.0
SMALL, LARGE, QUICK = 1_000, 1_000_000, 100_000
#: What many people meet is found by the order of the list, of which each row is asked until a page is full.
WALKS: Final = "Seq Scan on accounts_user"


def measure(lab: Lab) -> Finding:
    """Fill the database, ask, fill it further, ask again."""
    with installed():
        postgres = lab.stack.enter_context(
            PrivatePostgres(lab.folder / "postgres", free_port(), "-c", "shared_buffers=1GB", "-c", "max_wal_size=8GB")
        )
    environment = site_environment(lab.folder, port=free_port(), hash_threads=1) | {"DATABASE_URL": postgres.url}
    prepare_site(environment, people=0)
    large = lab.size or (QUICK if lab.quick else LARGE)
    seen: dict[int, dict[str, Any]] = {}
    costs: dict[int, dict[str, float]] = {}
    have = 0
    with psycopg.connect(postgres.url, autocommit=True) as database:
        for size in (SMALL, large):
            costs[size] = _grow(database, environment, have=have, want=size)
            have = size
            printed = prepare(["-m", "perf.experiments.people.asking"], environment)
            seen[size] = json.loads(next(line for line in reversed(printed.splitlines()) if line.startswith("{")))
            lab.say(
                f"{size:,} people: loaded in {costs[size]['load_s']:.0f} s, index in {costs[size]['index_s']:.0f} s"
            )
    return finding(seen, costs)


def _grow(database: Any, environment: dict[str, str], *, have: int, want: int) -> dict[str, float]:
    """Load people without the indexes of the search, and build these after it; return what it took."""
    drop_search(database)
    began = time.perf_counter()
    load(database, have=have, want=want)
    loaded = time.perf_counter()
    prepare(["manage.py", "search_index"], environment, limit_s=3_600)
    built = time.perf_counter()
    built_over = search_indexes(database)
    sizes = database.execute(
        "SELECT pg_relation_size(%s), pg_total_relation_size('accounts_user')", [built_over["accounts_user"]]
    ).fetchone()
    return {
        "load_s": loaded - began,
        "index_s": built - loaded,
        "index_bytes": sizes[0] / want,
        "bytes": sizes[1] / want,
    }


def finding(seen: dict[int, dict[str, Any]], costs: dict[int, dict[str, float]]) -> Finding:
    """Return the tables and what was promised.

    Args:
        seen: By number of people, what each question took.
        costs: By number of people, what loading them took and takes up.
    """
    large = max(seen)
    rows, plans, checks = [], [], []
    for name, asked in seen[large].items():
        times = [f"{_p50(seen[size][name]['ms']):.2f} / {_p95(seen[size][name]['ms']):.2f}" for size in sorted(seen)]
        rows.append([name, *times, f"{asked['rows']:.0f}"])
        plans.append([name, "; ".join(asked["plans"])])
        checks.append(at_most(f"{name}, {large:,} people: p50", WANTED_MS, _p50(asked["ms"]), " ms"))
    walks = sum(WALKS in plan.split(" > ") for asked in seen[large].values() for plan in asked["plans"])
    checks.append(at_most(f"statements that walk the table of {large:,} people", 0, walks))
    note = (
        f"The index takes {costs[large]['index_bytes']:.0f} bytes a person of {costs[large]['bytes']:.0f} in all, "
        f"table and other indexes included; it was built in {costs[large]['index_s']:.0f} s, keeping nobody waiting."
    )
    columns = ["question", *(f"{size:,}: p50 / p95 ms" for size in sorted(seen)), "people on the page"]
    return Finding(
        [Table("A page of the staff list", columns, rows), Table(f"Plans at {large:,}", ["question", "plans"], plans)],
        checks,
        notes=[note],
        data={"seen": {str(size): one for size, one in seen.items()}, "costs": {str(k): v for k, v in costs.items()}},
    )


def _p50(times: list[float]) -> float:
    return statistics.median(times)


def _p95(times: list[float]) -> float:
    return sorted(times)[int(0.95 * (len(times) - 1))]
