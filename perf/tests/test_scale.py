"""The experiment of many people: what it promises, how much it loads, and that it loads what the product can use."""

import json
from pathlib import Path

import psycopg
import pytest

from ironauth.tests.services import BinaryMissing, PrivatePostgres
from perf.experiments.scale import loading
from perf.experiments.scale.experiment import WANTED, finding
from perf.experiments.trail import TABLE
from perf.rig.plans import walked
from perf.rig.processes import free_port
from perf.rig.site_setup import prepare, prepare_site, site_environment

FACTS = {
    "events": 10.0,
    "bytes": 2.0**30,
    "people_bytes": 1e6,
    "sessions_bytes": 1e6,
    "events_bytes": 1e6,
    "load_s": 1.0,
}
GIB = 2**30


def _round(ms: float, plan: str = "Index Scan on accounts_user_pkey", failed: int = 0) -> dict[str, object]:
    return {"refresh": {"first": [ms * 2] * 3, "again": [ms] * 3, "failed": failed, "plans": [plan]}}


def test_growth_is_judged_round_by_round() -> None:
    """The second time counts, of both sides of the same round; the first time is told."""
    found = finding(
        {1_000: [_round(1.0), _round(2.0)], 9_000: [_round(1.1), _round(2.4)]}, {1_000: FACTS, 9_000: FACTS}
    )
    growth, walks = found.checks
    assert (growth.measured, growth.wanted, growth.met) == (1.15, WANTED, True)
    assert (walks.measured, walks.met) == (0, True)
    assert found.tables[0].rows == [["refresh", "1.50", "1.75", "1.15 (1.10-1.20)", "3.00", "3.50"]]
    assert found.failed == 0


def test_what_grows_falls_short() -> None:
    """So do a statement that walks a big table, and an answer that was missing."""
    slow = _round(1.3, "Limit > Seq Scan on tokens_session", failed=2)
    found = finding({1_000: [_round(1.0)], 9_000: [slow]}, {1_000: FACTS, 9_000: FACTS})
    assert [check.met for check in found.checks] == [False, False]
    assert found.failed == 2


@pytest.mark.parametrize(
    ("plan", "tables"),
    [
        ("Limit > Seq Scan on accounts_user", ["accounts_user"]),
        ("Append > Parallel Seq Scan on accounts_auditevent_p2026_11", ["accounts_auditevent_p2026_11"]),
        ("Append > Seq Scan on accounts_auditevent_other", []),
        ("Seq Scan on accounts_user_groups > Index Scan on accounts_user_pkey", []),
    ],
)
def test_a_walk_is_told_from_a_look_at_a_small_table(plan: str, tables: list[str]) -> None:
    """Months of the trail are big, what was before them and what has no month is empty here."""
    assert walked(plan, ("accounts_user", "accounts_auditevent")) == tables


def test_events_leave_room_on_the_disk() -> None:
    """Ten a person where there is room, fewer where not, none rather than less than none."""
    assert loading.that_fit(1_000, 100 * GIB) == 10_000
    assert 0 < loading.that_fit(10_000_000, 76 * GIB) < 100_000_000
    assert loading.that_fit(10_000_000, 20 * GIB) == 0


@pytest.mark.live
@pytest.mark.only_postgres
def test_what_it_loads_can_be_asked(tmp_path: Path) -> None:
    """Each question is answered, on a table that has its indexes again."""
    try:
        postgres = PrivatePostgres(tmp_path / "postgres", free_port())
        with postgres:
            environment = site_environment(tmp_path, port=free_port(), hash_threads=1) | {"DATABASE_URL": postgres.url}
            prepare_site(environment, people=0)
            with psycopg.connect(postgres.url, autocommit=True) as database:
                had = _indexes(database)
                loading.fill(database, environment, people=1_000, events=8_000)
                assert _indexes(database) == had
                assert database.execute("SELECT count(*) FROM tokens_session").fetchone() == (3_000,)
                assert database.execute(f"SELECT count(user_id) FROM {TABLE}").fetchone() == (8_000,)  # noqa: S608 - a constant
            printed = prepare(["-m", "perf.experiments.scale.asking", "--each", "8"], environment)
    except BinaryMissing as missing:
        pytest.skip(str(missing))
    seen = json.loads(next(line for line in reversed(printed.splitlines()) if line.startswith("{")))
    assert {name: asked["failed"] for name, asked in seen.items()} == dict.fromkeys(seen, 0)
    assert all(asked["plans"] for asked in seen.values())


def _indexes(database: "psycopg.Connection[tuple[str, ...]]") -> set[tuple[str, ...]]:
    rows = database.execute("SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'")
    return set(rows.fetchall())
