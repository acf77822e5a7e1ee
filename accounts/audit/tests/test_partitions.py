"""The trail's table on Postgres has a partition a month, made ahead and dropped when old."""

import uuid
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from django.core.management import call_command
from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models.expressions import RawSQL

from accounts.audit import checks, partitions
from accounts.audit import queries as audit_queries
from accounts.audit import recording as audit
from accounts.audit import triggers as audit_triggers
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event
from ironauth.infrastructure.core import clock

pytestmark = [pytest.mark.storage, pytest.mark.django_db]
only_postgres = pytest.mark.only_postgres
TABLE = partitions.TABLE
DAY_S = 86_400


def _run(statement: str, *values: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall()) if cursor.description else []


def _month(more: int) -> str:
    now = clock.now()
    years, month = divmod(now.month - 1 + more, 12)
    return f"{TABLE}_p{now.year + years:04}_{month + 1:02}"


def _names() -> list[str]:
    return [one.name for one in partitions.partitions(connection)]


def _places() -> list[str]:
    place = RawSQL("accounts_auditevent.tableoid::regclass::text", ())
    return list(AuditEvent.objects.order_by("id").annotate(place=place).values_list("place", flat=True))


def _months_from_now() -> list[datetime]:
    now = clock.now()
    months = [divmod(now.month - 1 + more, 12) for more in range(3)]
    return [datetime(now.year + years, month + 1, 1, tzinfo=UTC) for years, month in months]


def _checks() -> list[Any]:
    return _run("SELECT conname FROM pg_constraint WHERE conname = 'partition_before'")


def _in_one_piece(events: int = 2) -> None:
    """Make the table what the migrations before made, with events."""
    _run(f"DROP TABLE {TABLE} CASCADE")
    with connection.schema_editor() as editor:
        editor.create_model(AuditEvent)
    audit_triggers.install(connection)
    for _ in range(events):
        audit.record(Event.SIGN_UP)


@only_postgres
def test_events_go_to_their_month_and_none_is_refused() -> None:
    """This month and the next three have partitions; what has none is kept in the rest."""
    assert _names() == [partitions.BEFORE, *(_month(more) for more in range(4)), partitions.OTHER]
    with clock.shifted(-60 * DAY_S):
        audit.record(Event.SIGN_UP)
    audit.record(Event.SIGN_UP)
    with clock.shifted(500 * DAY_S):
        audit.record(Event.SIGN_UP)
    assert _places() == [partitions.BEFORE, _month(0), partitions.OTHER]
    assert AuditEvent.objects.count() == 3


@only_postgres
def test_months_are_made_once_and_leave_what_the_rest_has() -> None:
    """Nothing is missing at first. A month of which the rest has events stays there, those after it are made."""
    assert partitions.make_ahead(connection) == []
    later = clock.now() + timedelta(days=500)
    with clock.shifted(500 * DAY_S):
        audit.record(Event.SIGN_UP)
        taken, *made = (_month(more) for more in range(4))
        assert partitions.make_ahead(connection, now=later) == made
        assert partitions.make_ahead(connection, now=later) == []
    assert taken not in _names()
    assert _places() == [partitions.OTHER]


@only_postgres
def test_a_month_goes_as_a_whole_when_its_last_day_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """One day before it stays, with every event; the rest stays in any case."""
    monkeypatch.setattr(partitions, "_database_now", lambda _: clock.now())
    audit.record(Event.SIGN_UP)
    (end,) = (one.end for one in partitions.partitions(connection) if one.name == _month(0))
    assert end is not None
    over = datetime.fromtimestamp((end.int >> 80) / 1_000, UTC)
    first = _month(0)
    with clock.shifted((over - clock.now()).total_seconds() + 60 * DAY_S):
        partitions.drop_old(connection, over - timedelta(seconds=1))
        assert first in _names()
        assert AuditEvent.objects.count() == 1
        partitions.drop_old(connection, over)
        assert first not in _names()
        assert partitions.OTHER in _names()
    assert not AuditEvent.objects.exists()


@only_postgres
def test_a_purge_that_asks_too_early_drops_no_month() -> None:
    """Whatever the setting says, events younger than the triggers' days stay."""
    audit.record(Event.SIGN_UP)
    partitions.drop_old(connection, clock.now() + timedelta(days=400))
    assert [_month(more) for more in range(4)] == [name for name in _names() if "_p" in name]
    assert AuditEvent.objects.count() == 1


@only_postgres
@pytest.mark.parametrize("days", [400, 4_000])
def test_a_clock_that_is_wrong_drops_no_month(days: int) -> None:
    """The database's own clock says how old an event is, as where a row is deleted."""
    audit.record(Event.SIGN_UP)
    with clock.shifted(days * DAY_S):
        assert partitions.drop_old(connection, clock.now() - timedelta(days=30)) == 0
    assert _month(0) in _names()
    assert AuditEvent.objects.count() == 1


@only_postgres
def test_old_events_outside_the_months_go_row_by_row() -> None:
    """From the part of before and from the rest, as many as asked; those of a month wait for it."""
    with clock.shifted(-60 * DAY_S):
        audit.record(Event.SIGN_UP)
        audit.record(Event.SIGN_UP)
    audit.record(Event.SIGN_UP)
    with clock.shifted(500 * DAY_S):
        audit.record(Event.SIGN_UP)
    later = clock.now() + timedelta(days=501)
    assert audit_queries.delete_batch(clock.now() - timedelta(days=50), size=1) == 1
    assert audit_queries.delete_batch(later, size=10) == 2
    assert _places() == [_month(0)]


@only_postgres
def test_a_table_in_one_piece_becomes_the_first_partition() -> None:
    """Its events, its rights and its indexes stay; events of after the next turn of the month go to their own."""
    _in_one_piece()
    _run("CREATE ROLE auditor")
    _run(f"GRANT SELECT ON {TABLE} TO auditor WITH GRANT OPTION")
    before = list(AuditEvent.objects.values_list())
    assert not partitions.is_partitioned(connection)
    assert partitions.convert(connection)
    assert not partitions.convert(connection)
    assert list(AuditEvent.objects.values_list()) == before
    assert _places() == [partitions.BEFORE] * 2
    with clock.shifted(70 * DAY_S):
        audit.record(Event.SIGN_UP)
        assert _places()[-1] == _month(0)
    assert _run("SELECT has_table_privilege('auditor', %s, 'SELECT WITH GRANT OPTION')", TABLE) == [(True,)]
    rows = _run("SELECT indexname FROM pg_indexes WHERE tablename LIKE %s", f"{TABLE}%")
    names = {name for (name,) in rows}
    for partition in ("", *(name.removeprefix(TABLE) for name in _names())):
        assert {f"{index}{partition}" for index in partitions.INDEXES} <= names


@only_postgres
@pytest.mark.parametrize("anew", [False, True])
def test_no_partition_can_be_changed_or_emptied(*, anew: bool) -> None:
    """The triggers hold for the table and for each partition by its own name."""
    if anew:
        _in_one_piece()
        partitions.convert(connection)
    audit_triggers.install(connection)
    for days in (-20, 0, 40, 500):
        with clock.shifted(days * DAY_S):
            audit.record(Event.SIGN_UP)
    for table in {TABLE, *_places()}:
        for statement in ("UPDATE {} SET event = 'x'", "DELETE FROM {}"):
            with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
                _run(statement.format(table))
    for table in (TABLE, *_names()):
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            _run(f"TRUNCATE {table}")


@pytest.mark.each_case
@only_postgres
@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({"user": uuid.UUID(int=1)}, "accounts_audit_user_p"),
        ({"actor": uuid.UUID(int=1)}, "accounts_audit_actor_p"),
        ({"session": uuid.UUID(int=1)}, "accounts_audit_session_p"),
        ({"event": "sign_up"}, "accounts_audit_event_p"),
        ({"outcome": "failure"}, "accounts_audit_outcome_p"),
        ({"cause": "wrong_password"}, "accounts_audit_cause_p"),
        ({"client": "web"}, "accounts_audit_client_p"),
        ({"network": "192.0.2.0/24"}, "accounts_audit_address_p"),
    ],
)
def test_each_filter_has_an_index_in_each_month(filters: dict[str, Any], index: str) -> None:
    """It finds the events of one value; where they are many, the order of ids does."""
    _run("SET LOCAL enable_seqscan = off")
    assert index in audit_queries.filtered(filters).order_by().explain()


@only_postgres
def test_a_large_trail_is_left_to_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check names the command, which partitions it and then has nothing to do."""
    assert checks.check_partitions(None, databases=["default"]) == []
    _in_one_piece()
    assert not partitions.is_large(connection)
    _run(f"ANALYZE {TABLE}")
    monkeypatch.setattr(partitions, "FEW", 1)
    assert partitions.is_large(connection)
    assert [found.id for found in checks.check_partitions(None, databases=["default"])] == ["ironauth.W004"]
    said = StringIO()
    call_command("partition_audit", stdout=said)
    assert f"{partitions.BEFORE}: about 2 events" in said.getvalue()
    assert checks.check_partitions(None, databases=["default"]) == []
    call_command("partition_audit", stdout=said)
    assert "Nothing to do." in said.getvalue()


@only_postgres
def test_a_trail_that_was_never_counted_is_judged_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restore Postgres has no number; one that has grown since it was counted is larger than that number."""
    _in_one_piece()
    _run("UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE oid = %s::regclass", TABLE)
    stored = 8_192
    monkeypatch.setattr(partitions, "FEW", stored // partitions.EVENT_BYTES + 1)
    assert not partitions.is_large(connection)
    monkeypatch.setattr(partitions, "FEW", stored // partitions.EVENT_BYTES)
    assert partitions.is_large(connection)
    _run("UPDATE pg_class SET reltuples = 100, relpages = 2 WHERE oid = %s::regclass", TABLE)
    for few, is_large in ((50, False), (49, True)):
        monkeypatch.setattr(partitions, "FEW", few)
        assert partitions.is_large(connection) is is_large


@only_postgres
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_conversion_that_breaks_off_refuses_no_event(monkeypatch: pytest.MonkeyPatch, *, is_killed: bool) -> None:
    """Its check goes with it; that of a process that died goes before it refuses anything, and no earlier."""
    _in_one_piece()
    with monkeypatch.context() as broken:
        broken.setattr(partitions, "_swap", Mock(side_effect=OperationalError("locked")))
        if is_killed:
            broken.setattr(partitions, "_drop_check", lambda _: None)
        with pytest.raises(OperationalError):
            partitions.convert(connection)
    (end,) = [one for one in _months_from_now() if one > clock.now() + timedelta(days=3)][:1]
    assert len(_checks()) == is_killed
    for before, left in ((partitions.LEFT_OVER_WITHIN + timedelta(hours=1), is_killed), (timedelta(hours=47), False)):
        with clock.shifted((end - before - clock.now()).total_seconds()):
            assert partitions.make_ahead(connection) == []
            assert len(_checks()) == left
            audit.record(Event.SIGN_UP)
    with clock.shifted(70 * DAY_S):
        audit.record(Event.SIGN_UP)
    assert partitions.convert(connection)


@only_postgres
def test_a_table_without_its_check_is_not_read_while_it_is_locked() -> None:
    """Where the check was dropped meanwhile, or not proved, the table stays as it is."""
    _in_one_piece()
    for made in ("", f"ALTER TABLE {TABLE} ADD CONSTRAINT partition_before CHECK (id IS NOT NULL) NOT VALID"):
        if made:
            _run(made)
        with pytest.raises(OperationalError), transaction.atomic(), connection.cursor() as cursor:
            partitions._swap(connection, cursor, uuid.uuid4())
    assert not partitions.is_partitioned(connection)


@only_postgres
def test_the_slower_of_two_conversions_leaves_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has seen a table in one piece, and finds partitions: the months to come must go on taking events."""
    kinds = iter(("r", "p"))
    monkeypatch.setattr(partitions, "_kind", lambda _: next(kinds))
    assert not partitions.convert(connection)
    assert _checks() == []


@only_postgres
@pytest.mark.django_db(transaction=True)
def test_a_locked_table_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Nobody waits behind the purge: it gives up soon, logs it, and the next run tries again."""
    monkeypatch.setattr(partitions, "LOCK_WAIT_MS", 10)
    monkeypatch.setattr(partitions, "TRIES", 2)
    monkeypatch.setattr(partitions, "PAUSE_S", 0)
    monkeypatch.setattr(partitions, "_database_now", lambda _: clock.now())
    told = {**connection.get_connection_params()}
    told.pop("cursor_factory", None), told.pop("context", None)
    with psycopg.connect(**told) as other:
        other.execute(f"LOCK TABLE {TABLE} IN ACCESS SHARE MODE")
        with clock.shifted(200 * DAY_S):
            assert partitions.drop_old(connection, clock.now()) == 0
            assert partitions.BEFORE in _names()
    assert "audit_partition_kept" in capfd.readouterr().err


@pytest.mark.only_sqlite
def test_sqlite_has_one_table() -> None:
    """Nothing is made, dropped, checked or said."""
    assert not partitions.is_partitioned(connection)
    assert partitions.make_ahead(connection) == []
    assert partitions.drop_old(connection, clock.now()) == 0
    assert not partitions.convert(connection)
    assert checks.check_partitions(None, databases=["default"]) == []
    said = StringIO()
    call_command("partition_audit", stdout=said)
    assert said.getvalue() == "Nothing to do.\n"
