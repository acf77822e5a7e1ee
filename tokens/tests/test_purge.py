"""Purging what has no use any more."""

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.sessions.models import Session as AdminSession
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from pytest_django import Settings

from accounts.audit import partitions
from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event
from accounts.privacy import units as deletions
from accounts.privacy.units import PurgedAccounts
from accounts.transfer.models import LeftAddress
from accounts.users.outputs import Account
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db import single_use
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.models import Invalidation
from ironauth.infrastructure.telemetry import logs
from tokens.keys.models import SigningKey
from tokens.keys.units import create_first_keys, rotate
from tokens.purge import Purged, purge_expired
from tokens.sessions import units as sessions
from tokens.sessions.models import Session
from tokens.sessions.queries import OpenedSession

pytestmark = [pytest.mark.django_db, pytest.mark.storage, pytest.mark.usefixtures("still_clock")]

DAY = 86_400


@pytest.fixture
def opened(new_account: Callable[[], Account]) -> list[OpenedSession]:
    """Seven sessions of one person."""
    account = new_account()
    return [sessions.store_first_party(account=account, context=ClientContext()) for _ in range(7)]


def test_live_sessions_stay(opened: list[OpenedSession]) -> None:
    """A session that lives is never deleted, however often the purge runs."""
    with clock.shifted(13 * DAY):
        assert purge_expired(keep_s=0).sessions == 0
    assert Session.objects.count() == 7


@pytest.mark.parametrize(("after_s", "left"), [(14 * DAY + DAY - 1, 7), (14 * DAY + DAY + 1, 0)])
def test_expired_sessions_go(opened: list[OpenedSession], after_s: int, left: int) -> None:
    """A session idle for too long is deleted one day after its end, not a second earlier."""
    with clock.shifted(after_s):
        assert purge_expired().sessions == 7 - left
    assert Session.objects.count() == left


def test_revoked_sessions_go(opened: list[OpenedSession]) -> None:
    """A revoked session is deleted a day after it was revoked; the others stay."""
    sessions.end_session(session_id=opened[3].session_id, reason=Session.RevokeReason.SIGNED_OUT)
    with clock.shifted(DAY - 5):
        assert purge_expired().sessions == 0
    with clock.shifted(DAY + 5):
        assert purge_expired().sessions == 1
    assert not Session.objects.filter(pk=opened[3].session_id).exists()


@pytest.mark.each_case
@pytest.mark.parametrize("batch", [1, 2, 3, 7, 1_000])
def test_batches(opened: list[OpenedSession], batch: int) -> None:
    """Whatever the batch, everything due is deleted and nothing else."""
    for opened_session in opened[::2]:
        sessions.end_session(session_id=opened_session.session_id, reason=Session.RevokeReason.SIGNED_OUT)
    with clock.shifted(2 * DAY):
        assert purge_expired(batch=batch).sessions == 4
    assert set(Session.objects.values_list("pk", flat=True)) == {
        opened_session.session_id for opened_session in opened[1::2]
    }


def test_invalidations_and_keys(opened: list[OpenedSession]) -> None:
    """Invalidations older than an hour and keys whose last token has expired go too."""
    create_first_keys()
    old = rotate(at_once=True)
    rotate(at_once=True)
    for number in range(5):
        invalidate(f"sid:{number}")
    before = Invalidation.objects.count()
    with clock.shifted(3_599):
        assert purge_expired(batch=2).invalidations == 0
    invalidate("newest")
    with clock.shifted(3_601):
        purged = purge_expired(batch=2)
    assert purged.invalidations >= before
    assert Invalidation.objects.count() <= 3
    assert not SigningKey.objects.filter(pk=old).exists()


def test_accounts_go_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch in which accounts are kept or were not to go, even all of them, is not taken for the last."""
    due = iter([(2, 0), (0, 2), (0, 0, 2), (2, 0), (1, 1), (0, 0)])
    monkeypatch.setattr(deletions, "purge_due", lambda _: PurgedAccounts(*next(due)))
    purged = purge_expired(batch=100)
    assert (purged.accounts, purged.accounts_kept) == (5, 3)


@pytest.mark.parametrize("batch", [1, 2, 1_000])
def test_the_admins_log_goes_with_the_trail(django_user_model: Any, settings: Settings, batch: int) -> None:
    """An entry stays as long as an event of the same act, and not a second longer."""
    user = django_user_model.objects.create_user(email="staff@example.com")
    now, keep = clock.now(), timedelta(days=settings.IRONAUTH_AUDIT_KEEP_DAYS)
    for age in (keep + timedelta(seconds=1), keep + timedelta(days=9), keep - timedelta(minutes=1), timedelta()):
        LogEntry.objects.create(user=user, action_flag=CHANGE, action_time=now - age)
    LogEntry.objects.filter(action_time=now - keep - timedelta(seconds=1)).update(id=0)  # in order of time again
    LogEntry.objects.filter(action_time=now - keep - timedelta(days=9)).update(id=-1)
    assert purge_expired(batch=batch).admin_log == 2
    assert [entry.action_time > now - keep for entry in LogEntry.objects.all()] == [True, True]


def test_sign_ins_to_the_admin_go(django_user_model: Any) -> None:
    """Django deletes an expired session of the admin when its browser comes back, and most never do."""
    for number in range(3):
        user = django_user_model.objects.create_user(email=f"staff{number}@example.com", is_staff=True)
        Client().force_login(user)
    ends = AdminSession.objects.values_list("expire_date", flat=True)
    with clock.shifted((min(ends) - clock.now()).total_seconds() - 5):
        assert purge_expired(batch=2).admin_sessions == 0
    with clock.shifted((max(ends) - clock.now()).total_seconds() + 5):
        assert purge_expired(batch=2).admin_sessions == 3
    assert not AdminSession.objects.exists()


def test_deleting_publishes_nothing(opened: list[OpenedSession]) -> None:
    """The end of these sessions was published when it came: the purge does not flood the workers."""
    before = Invalidation.objects.count()
    with clock.shifted(20 * DAY):
        sessions_purged = purge_expired().sessions
    assert sessions_purged == 7
    assert Invalidation.objects.count() <= before


def test_command(opened: list[OpenedSession]) -> None:
    """The command prints what it deleted, and refuses a senseless batch."""
    out = StringIO()
    with clock.shifted(20 * DAY):
        call_command("purge_expired", stdout=out)
    assert out.getvalue().strip() == (
        "deleted accounts=0 accounts_kept=0 sessions=7 admin_sessions=0 invalidations=0 signing_keys=0 "
        "throttle_counts=0 email_tokens=0 mails=0 invitations=0 audit_events=0 admin_log=0 used_once=0 "
        "idempotency_keys=0 kept_devices=0 left_addresses=0 oauth=0 clients=0 registration_tokens=0 "
        "organizations=0"
    )
    with pytest.raises(CommandError, match="--batch"):
        call_command("purge_expired", batch=0)


@pytest.mark.parametrize(("after_s", "left"), [(-1, 1), (0, 0)])
def test_remembered_addresses_go_with_lazy_migration(after_s: int, left: int, settings: Settings) -> None:
    """They stay until its last day is over; then nothing tells who was here."""
    LeftAddress.objects.create(digest="0" * 64)
    settings.IRONAUTH_LAZY_MIGRATION_UNTIL = clock.now() - timedelta(seconds=after_s)
    assert purge_expired().left_addresses == 1 - left
    assert LeftAddress.objects.count() == left


def test_nothing_to_do(db: None) -> None:
    """On an empty database the purge does nothing."""
    assert purge_expired() == Purged(
        accounts=0,
        accounts_kept=0,
        sessions=0,
        admin_sessions=0,
        invalidations=0,
        signing_keys=0,
        throttle_counts=0,
        email_tokens=0,
        mails=0,
        invitations=0,
        audit_events=0,
        admin_log=0,
        used_once=0,
        idempotency_keys=0,
        kept_devices=0,
        left_addresses=0,
        organizations=0,
        oauth=0,
        clients=0,
        registration_tokens=0,
    )


@pytest.mark.only_postgres
def test_it_drops_the_months_of_the_trail_that_are_old(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a year later this month is gone as a whole, and the months to come have partitions."""
    monkeypatch.setattr(partitions, "_database_now", lambda _: clock.now())
    settings.IRONAUTH_AUDIT_KEEP_DAYS = 30
    audit.record(Event.SIGN_UP)
    first = {one.name for one in partitions.partitions(connection)}
    with clock.shifted(200 * 86_400):
        purge_expired()
        now = clock.now()
        left = {one.name for one in partitions.partitions(connection)}
    assert f"{partitions.TABLE}_p{now:%Y_%m}" in left
    assert len(left & first) == 1
    assert not AuditEvent.objects.exists()


@pytest.mark.only_postgres
def test_a_trail_of_another_database_user_stops_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    """Who may not change the table makes no months. The log has it, and what is over goes nevertheless."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE server")
        cursor.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO server")
        cursor.execute("SET LOCAL ROLE server")
    single_use.consume("test", uuid4(), 1)
    with clock.shifted(200 * 86_400):
        assert purge_expired().used_once == 1
    logs.flush()
    assert "audit_partitions_missing" in capfd.readouterr().err
