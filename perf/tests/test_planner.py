"""Reading plans."""

from pathlib import Path

import pytest

from perf.experiments.planner import experiment as planner
from perf.experiments.planner.queries import TITLES
from perf.rig import query_plans

POSTGRES = """\
Limit  (cost=0.84..786.48 rows=51 width=210) (actual time=0.582..77.939 rows=51 loops=1)
  ->  Nested Loop Left Join  (cost=0.84..569970.15 rows=37000 width=210) (actual time=0.580..77.922 rows=51 loops=1)
        Rows Removed by Join Filter: 5555
        ->  Index Scan using accounts_user_created on accounts_user u  (cost=0.42..120660.11 rows=10 width=210)
              Filter: is_staff
              Rows Removed by Filter: 49950
        ->  Parallel Seq Scan on tokens_session  (cost=0.00..1.04 rows=1 width=4)
Planning Time: 0.478 ms"""
SQLITE = """\
SCAN accounts_user USING INDEX accounts_user_created
SEARCH tokens_session USING INDEX sqlite_autoindex_tokens_session_1 (id=?)
  SCAN accounts_user_groups
USE TEMP B-TREE FOR ORDER BY"""


def test_tables_read_whole_are_found() -> None:
    """A sequential scan counts, and in SQLite a walk over a whole index as well; a search does not."""
    assert query_plans.whole_tables(POSTGRES) == ["tokens_session"]
    assert query_plans.whole_tables(SQLITE) == ["accounts_user", "accounts_user_groups"]


def test_rows_read_in_vain_are_counted() -> None:
    """The node that discards most is the one that tells."""
    assert query_plans.discarded(POSTGRES) == 49_950
    assert query_plans.discarded(SQLITE) == 0


def test_a_plan_in_a_few_words() -> None:
    """Nodes and tables are named from the top, without indexes, aliases and figures."""
    assert query_plans.nodes(POSTGRES) == (
        "Limit > Nested Loop Left Join > Index Scan on accounts_user > Parallel Seq Scan on tokens_session"
    )
    assert query_plans.cost(POSTGRES) == 786.48


def test_a_page_of_plans_leaves_long_lists_out() -> None:
    """A thousand ids do not make a page of a thousand lines."""
    plan = query_plans.shortened([f"Index Cond: (id = ANY ('{{{'x' * 5_000}}}'))"])
    page = query_plans.described("purge", [("DELETE FROM t WHERE id IN (" + "%s, " * 5_000 + ")", plan)])
    assert page.startswith("purge\n\nDELETE")
    assert len(page) < 2_500


@pytest.mark.parametrize("name", ["refresh", "sessions"])
def test_what_a_person_waits_for_is_measured_from_the_disk(name: str) -> None:
    """These are timed cold even when their plan is always the same."""
    assert name in planner._KEPT
    assert name in TITLES


def test_forgetting_pages_leaves_files_as_they_are(tmp_path: Path) -> None:
    """What is dropped from memory is still in the file, below folders too."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "1").write_bytes(b"row" * 10_000)
    planner.forget_pages(tmp_path)
    assert (tmp_path / "base" / "1").read_bytes() == b"row" * 10_000
