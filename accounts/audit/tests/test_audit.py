"""The audit trail itself: what an event holds, that it is part of its act, and that nothing takes it away."""

import asyncio
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import RequestFactory

from accounts.audit import queries as audit_queries
from accounts.audit import recording as audit
from accounts.audit import triggers as audit_triggers
from accounts.audit.models import AppendOnlyError, AuditEvent
from accounts.audit.recording import Event, Outcome
from ironauth.infrastructure.core import clock, ids
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.http import client_context
from ironauth.infrastructure.telemetry import logs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


@pytest.fixture
def locked() -> Iterator[None]:
    """Give the table the triggers the suite takes away to empty it."""
    with transaction.atomic():
        audit_triggers.install(connection)
    yield
    audit_triggers.remove(connection, "delete", "truncate")


def test_an_event_says_who_what_and_whence() -> None:
    """All columns are as given; address, user agent and request id are the request's that is being answered."""
    actor, user, session = ids.new_id(), ids.new_id(), ids.new_id()
    request = RequestFactory().get("/", REMOTE_ADDR="192.0.2.7", HTTP_USER_AGENT="Browser/1.0")
    named, entered = ids.enter_request("rid-7"), client_context.enter(request)
    try:
        audit.record(
            Event.ROLE_GIVEN,
            outcome=Outcome.REFUSED,
            actor_id=actor,
            user_id=user,
            session_id=session,
            details={"role": "editors", "names": ["a", "b"], "count": 2, "all": False},
        )
    finally:
        client_context.leave(entered)
        ids.leave_request(named)
    event = AuditEvent.objects.get()
    assert (event.event, event.outcome, event.actor_id, event.user_id, event.session_id) == (
        "role_given", "refused", actor, user, session,
    )  # fmt: skip
    assert (event.address, event.user_agent, event.request_id) == ("192.0.2.7", "Browser/1.0", "rid-7")
    assert event.details == {"role": "editors", "names": ["a", "b"], "count": 2, "all": False}
    assert abs((clock.now() - event.at).total_seconds()) < 10
    assert ids.first_id_at(event.at) <= event.id < ids.first_id_at(event.at + timedelta(microseconds=1))


def test_outside_of_a_request_nothing_is_known() -> None:
    """A command's event has no address, user agent or request id."""
    audit.record(Event.KEY_ROTATED)
    event = AuditEvent.objects.get()
    assert (event.address, event.user_agent, event.request_id, event.actor_id) == (None, "", "", None)


@pytest.mark.parametrize("length", [audit.MAX_DETAIL, audit.MAX_DETAIL + 1])
def test_details_are_bounded(length: int) -> None:
    """A name is cut after its 255th character, a list after its 100th name; control characters are left out."""
    details = {"role": "x" * length, "names": ["n\r\n\x00\u2028"] * (audit.MAX_NAMES + 1)}
    audit.record(Event.ROLE_CREATED, details=details)
    stored = AuditEvent.objects.get().details
    assert stored == {"role": "x" * audit.MAX_DETAIL, "names": ["n"] * audit.MAX_NAMES}


def test_recording_costs_one_query(django_assert_num_queries: Any) -> None:
    """One insert for one event, one for many of the same kind."""
    audit.record(Event.SIGN_UP)  # compiles the statement
    with django_assert_num_queries(1):
        audit.record(Event.SIGN_UP, details={"a": "b"})
    with django_assert_num_queries(1):
        audit.record_each(Event.SESSIONS_ENDED, [(ids.new_id(), None), (ids.new_id(), ids.new_id())], actor_id=None)
    assert AuditEvent.objects.count() == 4


def test_an_act_that_is_rolled_back_leaves_no_event() -> None:
    """The event shares the fate of its transaction."""

    def unit() -> None:
        audit.record(Event.SIGN_UP)
        raise LookupError

    with pytest.raises(LookupError), transaction.atomic():
        unit()
    assert not AuditEvent.objects.exists()


def test_python_refuses_to_change_or_delete() -> None:
    """Neither an object nor a queryset changes, replaces or deletes an event."""
    audit.record(Event.SIGN_UP)
    event = AuditEvent.objects.get()
    all_events: Any = AuditEvent.objects.all()
    tries = (
        event.save,
        event.delete,
        lambda: event.save(update_fields=["event"]),
        lambda: all_events.update(event="x"),
        all_events.delete,
        lambda: all_events.bulk_update([event], ["event"]),
        lambda: all_events.update_or_create(pk=event.pk, defaults={"event": "x"}),
        lambda: all_events.bulk_create([event], update_conflicts=True, update_fields=["event"], unique_fields=["id"]),
    )
    for attempt in tries:
        with pytest.raises(AppendOnlyError):
            attempt()
    with pytest.raises(IntegrityError):
        AuditEvent(**{f.attname: getattr(event, f.attname) for f in AuditEvent._meta.concrete_fields}).save()
    assert AuditEvent.objects.get().event == "sign_up"


REPLACE = (
    "INSERT OR REPLACE INTO accounts_auditevent SELECT id, at, 'x', outcome, actor_id, user_id, session_id, address,"
    " user_agent, request_id, details FROM accounts_auditevent"
)


@pytest.mark.each_case
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE accounts_auditevent SET event = 'x'",
        "DELETE FROM accounts_auditevent",
        pytest.param(REPLACE, marks=pytest.mark.only_sqlite),
        pytest.param("TRUNCATE accounts_auditevent", marks=pytest.mark.only_postgres),
    ],
)
def test_the_database_refuses_to_change_or_delete(locked: None, statement: str) -> None:
    """SQL that changes, replaces or deletes an event of today fails, no matter who sends it."""
    audit.record(Event.SIGN_UP)
    with pytest.raises(IntegrityError, match="append-only"), connection.cursor() as cursor:
        cursor.execute(statement)
    assert AuditEvent.objects.get().event == "sign_up"


@pytest.mark.parametrize(("age_days", "left"), [(audit_triggers.LOCKED_DAYS - 0.01, 1), (30, 0)])
def test_the_database_lets_old_events_go(locked: None, age_days: float, left: int) -> None:
    """Events can be deleted, but not changed, once they are older than any purge has to keep them."""
    with clock.shifted(-age_days * 86_400):
        audit.record(Event.SIGN_UP)
    with pytest.raises(IntegrityError), connection.cursor() as cursor:
        cursor.execute("UPDATE accounts_auditevent SET event = 'x'")
    try:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM accounts_auditevent")
    except IntegrityError:
        assert left
    assert AuditEvent.objects.count() == left


@pytest.mark.only_sqlite  # on Postgres see test_partitions
def test_a_purge_that_asks_too_early_deletes_nothing(locked: None) -> None:
    """Whatever the setting may say, no batch takes an event the database still keeps."""
    with clock.shifted(-40 * 86_400):
        audit.record(Event.SIGN_UP)
    audit.record(Event.SIGN_UP)
    with pytest.raises(IntegrityError), transaction.atomic():
        audit_queries.delete_batch(clock.now() + timedelta(days=1), size=10)
    assert AuditEvent.objects.count() == 2
    with transaction.atomic():
        assert audit_queries.delete_batch(clock.now() - timedelta(days=30), size=10) == 1


def test_installing_twice_is_harmless(locked: None) -> None:
    """A later migration may install the triggers again."""
    with transaction.atomic():
        audit_triggers.install(connection)
    audit.record(Event.SIGN_UP)
    with pytest.raises(IntegrityError), connection.cursor() as cursor:
        cursor.execute("DELETE FROM accounts_auditevent")


async def test_nobody_waits_for_an_event_without_an_act() -> None:
    """The writing begins after the caller goes on, and happens all the same, with the caller's request id."""
    named = ids.enter_request("rid-9")
    await audit.record_later(Event.SIGN_IN, outcome=Outcome.FAILURE)
    ids.leave_request(named)
    assert await asyncio.to_thread(audit.wait_until_written)
    event = await database().read(AuditEvent.objects.get)
    assert (event.event, event.outcome, event.request_id) == ("sign_in", "failure", "rid-9")


async def test_a_flood_makes_callers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many on their way as memory is meant for, the next one is written before its caller goes on."""
    monkeypatch.setattr(audit, "MAX_UNWRITTEN", 0)
    await audit.record_later(Event.SIGN_IN, outcome=Outcome.FAILURE)
    assert await database().read(AuditEvent.objects.count) == 1


async def test_an_event_that_cannot_be_written_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is never lost silently: the log says which event, whose, and why."""

    def fail(**_: object) -> int:
        raise Unavailable(retry_after_s=1)

    user_id = uuid.uuid4()
    monkeypatch.setattr(audit._INSERT, "run", fail)
    await audit.record_later(Event.SIGN_IN, outcome=Outcome.FAILURE, user_id=user_id)
    assert await asyncio.to_thread(audit.wait_until_written)
    logs.flush()
    printed = capfd.readouterr().err
    assert "audit_event_lost" in printed
    assert str(user_id) in printed
    assert "Unavailable" in printed


def test_ids_follow_time_to_the_microsecond() -> None:
    """Ids of later moments are greater, and are valid UUIDv7 of their millisecond."""
    start = datetime(2026, 11, 21, 12, 0, 0, 998, tzinfo=UTC)
    moments = [start + timedelta(microseconds=n) for n in range(5)]
    made = [ids.id_at(moment) for moment in moments]
    assert made == sorted(made)
    assert {one.version for one in made} == {7}
    assert {one.variant for one in made} == {uuid.RFC_4122}
    assert made[0].int >> 80 == int(start.timestamp() * 1000)
    assert ids.first_id_at(datetime(1, 1, 1, tzinfo=UTC)) == ids.first_id_at(datetime(1970, 1, 1, tzinfo=UTC))


async def test_closing_the_pool_writes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stops loses none of the events on their way."""
    await asyncio.to_thread(database().close)  # connections that another test had Postgres end
    for _ in range(20):
        await audit.record_later(Event.SIGN_IN, outcome=Outcome.FAILURE)
    await asyncio.to_thread(database().close)
    assert await database().read(AuditEvent.objects.count) == 20
