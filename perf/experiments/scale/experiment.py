"""Whether what people and staff ask takes longer among millions of people than among a thousand."""

import json
import shutil
import statistics
import subprocess
import time
from typing import Any, Final

import psycopg

from ironauth.tests.services import PrivatePostgres, find_binary
from perf.experiments.scale.loading import SESSIONS_EACH, fill, that_fit
from perf.findings import Finding, Table, at_most
from perf.lab import Lab
from perf.rig.plans import walked
from perf.rig.processes import free_port
from perf.rig.site_setup import installed, prepare, prepare_site, site_environment
from perf.summary import ratios

HYPOTHESIS = (
    "What people do, what staff look up and a batch of the purge take at most 1.2 times as long (p50, pages in memory) "
    "among millions as among a thousand: an index finds the rows of each statement, and no table is read from end "
    "to end."
)
WANTED: Final = 1.2
SMALL, LARGE, QUICK = 1_000, 1_000_000, 20_000
BIG: Final = ("accounts_user", "tokens_session", "accounts_auditevent")
#: What a server for it would be given. The disk is waited for by no commit, so that it hides no growth.
OPTIONS: Final = (
    "shared_buffers=4GB", "effective_cache_size=14GB", "work_mem=64MB", "maintenance_work_mem=1GB", "max_wal_size=6GB",
    "checkpoint_timeout=30min", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0", "autovacuum=off",
)  # fmt: skip
ROUNDS, EACH, QUICK_EACH = 5, 400, 40

type Seen = dict[int, list[dict[str, Any]]]  # people → round → question → what was seen


def measure(lab: Lab) -> Finding:
    """Fill two databases of one Postgres, and ask both in turns."""
    with installed():
        options = [part for option in OPTIONS for part in ("-c", option)]
        postgres = lab.stack.enter_context(PrivatePostgres(lab.folder / "postgres", free_port(), *options))
    base = site_environment(lab.folder, port=free_port(), hash_threads=1)
    base |= {"IRONAUTH_DATABASE_TIMEOUT_S": "30", "IRONAUTH_LOG_LEVEL": "WARNING"}
    large = lab.size or (QUICK if lab.quick else LARGE)
    sites, loaded = {}, {}
    for size in (SMALL, large):
        sites[size] = base | {"DATABASE_URL": f"{postgres.url}_{size}"}
        _create(postgres, size)
        prepare_site(sites[size], people=0)
        events = that_fit(size, shutil.disk_usage(lab.folder).free)
        began = time.perf_counter()
        with psycopg.connect(sites[size]["DATABASE_URL"], autocommit=True) as database:
            fill(database, sites[size], people=size, events=events)
            loaded[size] = _facts(database, events) | {"load_s": time.perf_counter() - began}
        lab.say(f"{size:,} people, {events:,} events: loaded in {loaded[size]['load_s']:.0f} s")
    seen: Seen = {size: [] for size in sites}
    for number in range(1 if lab.quick else ROUNDS):
        for size, environment in sites.items():
            each = str(QUICK_EACH if lab.quick else EACH)
            asking = ["-m", "perf.experiments.scale.asking", "--each", each, "--seed", str(number)]
            printed = prepare(asking, environment, limit_s=900)
            seen[size].append(json.loads(next(line for line in reversed(printed.splitlines()) if line.startswith("{"))))
        lab.say(f"round {number + 1} asked")
    return finding(seen, loaded)


def _create(postgres: PrivatePostgres, size: int) -> None:
    address = ["-h", "127.0.0.1", "-p", str(postgres.port), "-U", "postgres"]
    command = [find_binary("createdb", "postgresql-client"), *address, f"ironauth_{size}"]
    subprocess.run(command, check=True, capture_output=True)


def _facts(database: Any, events: int) -> dict[str, float]:
    """Return how many rows there are, and what they take up, in bytes."""
    (whole,) = database.execute("SELECT pg_database_size(current_database())").fetchone()
    people, sessions, trail = database.execute(
        "SELECT pg_total_relation_size('accounts_user'), pg_total_relation_size('tokens_session'),"
        " (SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits"
        " WHERE inhparent = 'accounts_auditevent'::regclass)"
    ).fetchone()
    return {
        "events": events,
        "bytes": float(whole),
        "people_bytes": float(people),
        "sessions_bytes": float(sessions),
        "events_bytes": float(trail),
    }


def finding(seen: Seen, loaded: dict[int, dict[str, float]]) -> Finding:
    """Return the tables and what was promised.

    Args:
        seen: By number of people, what each round saw.
        loaded: By number of people, what was loaded.
    """
    small, large = min(seen), max(seen)
    title = f"p50 among {large:,} against {small:,}"
    rows, plans, checks = [], [], []
    walks = 0
    for name in seen[large][0]:
        again = ratios(_p50s(seen[large], name, "again"), _p50s(seen[small], name, "again"))
        first = ratios(_p50s(seen[large], name, "first"), _p50s(seen[small], name, "first"))
        if again is None or first is None:
            raise ValueError(f"{name} took no time")
        took = [
            f"{statistics.median(_p50s(seen[size], name, which)):.2f}"
            for which in ("again", "first")
            for size in (small, large)
        ]
        rows.append([name, *took[:2], f"{again.median:.2f} ({again.low:.2f}-{again.high:.2f})", *took[2:]])
        met = sorted({plan for one in seen[large] for plan in one[name]["plans"]})
        plans.append([name, "; ".join(met)])
        walks += sum(bool(walked(plan, BIG)) for plan in met)
        checks.append(at_most(f"{name}: {title}", WANTED, round(again.median, 3)))
    checks.append(at_most(f"statements that walk a table of {large:,} people, their sessions or events", 0, walks))
    columns = ["question", f"{small:,}: p50 ms", f"{large:,}: p50 ms", "ratio (low-high)"]
    columns += [f"{size:,}, first time: p50 ms" for size in (small, large)]
    return Finding(
        [
            Table("The same question a second time, and the first time", columns, rows),
            Table(f"Plans at {large:,}", ["question", "plans"], plans),
        ],
        checks,
        notes=[_loaded(size, loaded[size]) for size in (small, large)],
        data={
            "p50_ms": {str(size): _kept(rounds) for size, rounds in seen.items()},
            "loaded": {str(size): facts for size, facts in loaded.items()},
        },
        failed=sum(asked["failed"] for rounds in seen.values() for one in rounds for asked in one.values()),
    )  # fmt: skip


def _loaded(size: int, facts: dict[str, float]) -> str:
    sessions, events = SESSIONS_EACH * size, facts["events"]
    each = [
        f"{facts[f'{what}_bytes'] / count:.0f} bytes {name}"
        for what, count, name in (
            ("people", size, "a person"), ("sessions", sessions, "a session"), ("events", events or 1, "an event"),
        )
    ]  # fmt: skip
    return (
        f"{size:,} people, {sessions:,} sessions, {events:,.0f} events: {facts['bytes'] / 2**30:.2f} GiB"
        f" ({', '.join(each)}, with indexes), loaded in {facts['load_s']:.0f} s."
    )


def _kept(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: {which: _p50s(rounds, name, which) for which in ("first", "again")} for name in rounds[0]}


def _p50s(rounds: list[dict[str, Any]], name: str, which: str) -> list[float]:
    return [statistics.median(one[name][which]) for one in rounds]
