"""That no statement of a person's request, nor of the purge, grows with the tables."""

from collections.abc import Iterator
from uuid import UUID

import pytest
from django.db import connection

from perf.experiments.scale.experiment import EXTRAS, OPERATIONS, faults
from perf.experiments.scale.units import Scenes
from perf.rig import bulk_seed, query_plans
from tokens.sessions.models import Session

pytestmark = [pytest.mark.django_db, pytest.mark.storage]


@pytest.fixture
def scenes() -> Iterator[Scenes]:
    """People to act, in a database whose planner may not take the small tables for a reason to read them whole."""
    bulk_seed.seed(1_000)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
            cursor.execute("SET LOCAL enable_seqscan = off")
    found = Scenes(seed=1)
    found.keep_ended()
    found.meet()
    yield found
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS scale_ended")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_statement_reads_a_whole_table(scenes: Scenes, operation: str) -> None:
    """Every statement finds its rows by an index, on both databases."""
    units = [scenes.purge] if operation == "purge" else scenes.steps(operation)
    plans = [found for unit in units for found in query_plans.plans_of(unit)]
    assert plans
    assert not [(statement.sql, faults(plan)) for statement, plan in plans if faults(plan)]


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != "purge"])
def test_operations_do_what_they_are_called(scenes: Scenes, operation: str) -> None:
    """The measured units succeed, again and again: a refresh leaves the token that the next one needs."""
    for _ in range(5):
        assert scenes.accept(operation, [step() for step in scenes.steps(operation)])
    scenes.sign_out()
    assert Session.objects.count() == 1_000


def test_a_purge_deletes_the_same_number_each_time(scenes: Scenes) -> None:
    """A batch takes exactly as many as is said; when the table has no more, it can be refilled, as it was."""
    before = _in_order_of_the_file()
    for _ in range(2):
        assert scenes.purge() == 100
        assert scenes.purge() == 0
        scenes.restore()
    assert Session.objects.count() == 1_000
    if connection.vendor == "sqlite":  # Postgres chooses where
        assert _in_order_of_the_file() == before


def _in_order_of_the_file() -> list[UUID]:
    return [session.pk for session in Session.objects.raw("SELECT * FROM tokens_session")]


def test_explaining_changes_nothing(scenes: Scenes) -> None:
    """The plan of a refresh is found by running it, but the token stays good."""
    steps = scenes.steps("refresh")
    query_plans.plans_of(steps[0])
    assert scenes.accept("refresh", [steps[0]()])


def test_steps_name_their_side(scenes: Scenes) -> None:
    """What writes runs where writing is allowed."""
    assert [step.write for step in scenes.steps("signin")] == [False, True]
    assert not any(step.write for name in ("sessions", "token", "list-first") for step in scenes.steps(name))


@pytest.mark.parametrize("operation", [name for name in EXTRAS if name != "walk"])
def test_every_list_finds_somebody(scenes: Scenes, operation: str) -> None:
    """No list is fast because it is empty."""
    assert scenes.accept(operation, [step() for step in scenes.steps(operation)])


@pytest.mark.only_postgres
def test_pages_of_sessions_keep_room_for_refreshes() -> None:
    """On Postgres the table is made so that a refresh finds room in the row's own page."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT reloptions FROM pg_class WHERE relname = 'tokens_session'")
        assert cursor.fetchone() == (["fillfactor=90"],)
