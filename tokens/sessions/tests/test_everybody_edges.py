"""The edges of the end of everybody's sessions: what is under way at that moment, kept devices, clocks, failures."""

import io
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.mfa.kept_devices import queries as kept_devices
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.users.models import User
from accounts.users.outputs import Account
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.core.ids import id_at
from ironauth.infrastructure.http.client_context import ClientContext
from tokens.clients.models import OAuthClient
from tokens.clients.registry import read_client
from tokens.sessions import refresh_token
from tokens.sessions import units as sessions
from tokens.sessions.client_sessions import ConsentedAccess, open_client_session
from tokens.sessions.ends import batches, clocks, of_everybody
from tokens.sessions.ends.clocks import ClockIsWrongError
from tokens.sessions.models import SSO_CLIENT, EverybodysEnd, Session
from tokens.sessions.refresh import units as refresh_units
from tokens.sessions.refresh.queries import Outcome

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("signing_key")]

CLIENT = str(uuid.uuid4())
US = timedelta(microseconds=1)
REASON = Session.RevokeReason


def _session(account: Account, at: datetime | None = None, **more: object) -> Session:
    """Store a session of the account's pages; ``at``: when it was opened."""
    one = sessions.store_first_party(account=account, context=ClientContext()).session_id
    Session.objects.filter(pk=one).update(**{"created_at": at or clock.now(), **more})
    return Session.objects.get(pk=one)


def _device(account: Account, at: datetime) -> KeptDevice:
    later = clock.now() + timedelta(days=30)
    return KeptDevice.objects.create(
        user_id=account.id, digest=uuid.uuid4().hex, epoch=account.session_epoch, created_at=at, expires_at=later
    )


def _write_all() -> None:
    more = True
    while more:
        with transaction.atomic():
            more = of_everybody.end_batch()


def _reason(session: Session) -> str | None:
    """Return why a session has ended; None while its row is not written."""
    session.refresh_from_db()
    return session.revoke_reason if session.revoked_at is not None else None


def _events(name: str) -> int:
    return AuditEvent.objects.filter(event=name).count()


# ------------------------------------------------------------------ opened meanwhile
def test_the_moment_is_taken_after_everything_that_takes_time(
    new_account: Callable[[], Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is opened while codes and sessions of the admin are deleted is older than the moment."""
    account = new_account()
    opened: list[Session] = []

    def meanwhile(key: str) -> str:
        opened.append(_session(account))
        return key

    monkeypatch.setattr(of_everybody, "stored_key", meanwhile)
    end = of_everybody.begin(actor_id=None, spared="key")
    (one,) = opened
    assert one.created_at < end.at
    assert not Session.objects.live(clock.now()).filter(pk=one.pk).exists()


@pytest.mark.parametrize("link", ["parent_id", "goes_on_from"])
@pytest.mark.parametrize(("opened_us", "lives"), [(0, False), (1, True)])
def test_what_was_opened_meanwhile_from_an_old_session_ends_with_its_row(
    new_account: Callable[[], Account], link: str, opened_us: int, lives: bool
) -> None:
    """Single sign-on, what goes on from it, and a client's offline access. What begins in a new session stays.

    ``opened_us``: when the first one was opened, after the moment.
    """
    account = new_account()
    end = of_everybody.begin(actor_id=None)
    first = _session(account, end.at + opened_us * US, client_id=SSO_CLIENT)
    later = end.at + 5 * US
    second = _session(account, later, client_id=SSO_CLIENT, **{link: first.pk})
    third = _session(account, later, client_id=CLIENT, scope="openid offline_access", parent_id=second.pk)
    other = _session(account, later)
    assert Session.objects.live(clock.now()).filter(pk__in=[second.pk, third.pk]).count() == 2
    _write_all()
    expected = None if lives else REASON.ENDED_BY_STAFF
    assert [_reason(one) for one in (first, second, third)] == [expected] * 3
    assert _reason(other) is None
    assert EverybodysEnd.objects.get().ended == (0 if lives else 3)


def test_it_ends_also_where_the_old_session_was_signed_out_since(new_account: Callable[[], Account]) -> None:
    """A person who signs out after the moment has marked the row: what began in it is found all the same."""
    account = new_account()
    old = _session(account, client_id=SSO_CLIENT)
    end = of_everybody.begin(actor_id=None)
    begun = _session(account, end.at + US, client_id=CLIENT, scope="openid offline_access", parent_id=old.pk)
    Session.objects.filter(pk=old.pk).revoke(REASON.SIGNED_OUT, clock.now())
    _write_all()
    assert (_reason(old), _reason(begun)) == (REASON.SIGNED_OUT, REASON.ENDED_BY_STAFF)


def test_what_goes_on_in_a_ring_ends_once(new_account: Callable[[], Account]) -> None:
    """However that came about. Sessions outside the ring stay."""
    account = new_account()
    ring = [_session(account, client_id=SSO_CLIENT) for _ in range(3)]
    for number, one in enumerate(ring):
        Session.objects.filter(pk=one.pk).update(goes_on_from=ring[number - 1].pk)
    own = _session(account, parent_id=ring[1].pk)
    Session.objects.filter(pk=ring[0].pk).update(parent_id=own.pk)
    other = _session(account, client_id=SSO_CLIENT)
    with transaction.atomic():
        assert sessions.end_session(session_id=ring[0].pk, reason=REASON.SIGNED_OUT)
    assert [_reason(one) for one in (*ring, own, other)] == [REASON.SIGNED_OUT] * 4 + [None]


# ------------------------------------------------------------------ in flight, for a client
@pytest.mark.parametrize("scope", ["openid", "openid offline_access"])
@pytest.mark.parametrize("reason", [None, "", REASON.TOO_MANY, REASON.SIGNED_OUT])
@pytest.mark.parametrize(("opened_us", "ended"), [(0, True), (1, False)])
def test_a_code_in_flight_gives_no_session_of_one_that_ended_with_all(
    new_account: Callable[[], Account], scope: str, reason: str | None, opened_us: int, ended: bool
) -> None:
    """Whatever its row says has ended it since. Of a session opened later, the row alone decides."""
    account = new_account()
    client = OAuthClient.objects.create(name="App", grants="authorization_code refresh_token")
    end = of_everybody.begin(actor_id=None)
    parent = _session(account, end.at + opened_us * US, client_id=SSO_CLIENT)
    if reason is not None:
        Session.objects.filter(pk=parent.pk).revoke(reason, clock.now())
    found = read_client(client.pk)
    assert found is not None
    consented = ConsentedAccess(account, scope, parent.authenticated_at, parent.amr, parent.pk)
    with transaction.atomic():
        opened = open_client_session(client=found, consented=consented, context=ClientContext())
    given = not ended and (reason is None or "offline_access" in scope)
    assert (opened is not None) is given


# ------------------------------------------------------------------ kept devices
@pytest.mark.parametrize("state", ["live", "signed out", "expired", "purged"])
def test_kept_devices_go_whatever_has_become_of_their_session(new_account: Callable[[], Account], state: str) -> None:
    """Those kept at the moment and before; a microsecond later they stay, and an end of before takes none of them."""
    account = new_account()
    session = _session(account)
    end = of_everybody.begin(actor_id=None)
    before, then, after = (_device(account, end.at + shift * US) for shift in (-1, 0, 1))
    Session.objects.filter(pk=session.pk).update(kept_device_id=before.pk)
    if state == "signed out":
        Session.objects.filter(pk=session.pk).revoke(REASON.SIGNED_OUT, clock.now())
    elif state == "expired":
        Session.objects.filter(pk=session.pk).update(idle_expires_at=end.at - timedelta(days=1))
    elif state == "purged":
        session.delete()
    _write_all()
    assert list(KeptDevice.objects.values_list("pk", flat=True)) == [after.pk], (before.pk, then.pk)


@pytest.mark.parametrize(("kept_us", "spared"), [(-1, False), (0, False), (1, True)])
def test_a_kept_device_is_worth_nothing_before_its_row_is_gone(
    new_account: Callable[[], Account], settings: Settings, kept_us: int, spared: bool
) -> None:
    """From the commit on it spares nobody the factor, is not listed, and a sign-in that has found it opens nothing."""
    settings.IRONAUTH_KEEP_DEVICE_DAYS = 30
    account = new_account()
    row = _device(account, clock.now() - timedelta(days=1))
    KeptDevice.objects.filter(pk=row.pk).update(digest=kept_devices.digest_of("s"))
    mine: Any = {"user_id": account.id, "epoch": account.session_epoch, "secret": "s"}
    found = kept_devices.find(**mine)
    assert found is not None
    assert kept_devices.use(found)
    end = of_everybody.begin(actor_id=None)
    KeptDevice.objects.filter(pk=row.pk).update(created_at=end.at + kept_us * US)
    assert (kept_devices.find(**mine) is not None) is spared
    assert kept_devices.use(found) is spared
    assert bool(kept_devices.of_user(account.id)) is spared
    assert KeptDevice.objects.exists()


def test_more_devices_than_sessions_go_by_several_batches(
    new_account: Callable[[], Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is not done before they are."""
    monkeypatch.setattr(of_everybody, "BATCH", 3)
    account = new_account()
    _session(account)
    end = of_everybody.begin(actor_id=None)
    for _ in range(7):
        _device(account, end.at)
    left = []
    for _ in range(3):
        with transaction.atomic():
            left.append((of_everybody.end_batch(), KeptDevice.objects.count()))
    assert left == [(True, 4), (True, 1), (False, 0)]
    assert EverybodysEnd.objects.get().ended == 1


# ------------------------------------------------------------------ no alarm
@pytest.mark.parametrize(("opened_us", "alarms"), [(0, 0), (1, 1)])
@pytest.mark.parametrize("written", [False, True])
def test_a_browser_that_comes_back_is_no_thief(
    new_account: Callable[[], Account], opened_us: int, alarms: int, written: bool
) -> None:
    """Its old token, long after: what went on from its session had ended with everybody's, and nothing is told.

    What lived until then ends by it, and is told: with one who has signed out, that is a copied token.
    """
    account = new_account()
    opened = sessions.store_first_party(account=account, context=ClientContext())
    own = Session.objects.filter(pk=opened.session_id)
    end = of_everybody.begin(actor_id=None)
    own.update(created_at=end.at)
    kept = _session(account, end.at + opened_us * US, client_id=SSO_CLIENT)
    if written:
        _write_all()  # before they are linked: the batch would end the later one as well
    Session.objects.filter(pk=kept.pk).update(goes_on_from=opened.session_id)
    parsed = refresh_token.parse(opened.refresh_token)
    assert parsed is not None
    with clock.shifted(3600):
        for _ in range(2):
            assert refresh_units.rotate(parsed=parsed).outcome is Outcome.REVOKED
    assert _events("refresh_reuse") == alarms
    assert _reason(kept) is not None


def test_an_old_token_of_an_ended_session_is_no_copy_either(new_account: Callable[[], Account]) -> None:
    """Two generations ago: without the end it is a reuse, with it the session was over."""
    for ends, outcome, alarms in ((True, Outcome.REVOKED, 0), (False, Outcome.REUSE, 1)):
        opened = sessions.store_first_party(account=new_account(), context=ClientContext())
        token = first = refresh_token.parse(opened.refresh_token)
        for _ in range(2):
            assert token is not None
            moved = refresh_units.rotate(parsed=token).opened
            assert moved is not None
            token = refresh_token.parse(moved.refresh_token)
        if ends:
            of_everybody.begin(actor_id=None)
        assert first is not None
        with clock.shifted(3600):
            assert refresh_units.rotate(parsed=first).outcome is outcome
        assert _events("refresh_reuse") == alarms


# ------------------------------------------------------------------ clocks
@pytest.mark.parametrize("off_s", [-3, -1, 0, 1, 3])
def test_a_clock_that_is_off_ends_nothing(new_account: Callable[[], Account], off_s: int) -> None:
    """By more than two seconds, and the message says what to do. SQLite has no other clock: it tells one behind."""
    _session(new_account())
    refused = off_s == -3 or (off_s == 3 and connection.vendor == "postgresql")
    with clock.shifted(off_s):
        if not refused:
            call_command("end_everybodys_sessions", "--confirm", of_everybody.PHRASE, stdout=io.StringIO())
            assert EverybodysEnd.objects.count() == 1
            return
        with pytest.raises(CommandError, match=r"Nothing was done: .* Set the clock.*--despite-clocks") as told:
            call_command("end_everybodys_sessions", "--confirm", of_everybody.PHRASE)
        if connection.vendor == "postgresql":
            assert ("behind" if off_s < 0 else "ahead of") in str(told.value)
        assert (EverybodysEnd.objects.count(), _events("everybodys_sessions_ended")) == (0, 0)
        arguments = ("--confirm", of_everybody.PHRASE, "--despite-clocks")
        call_command("end_everybodys_sessions", *arguments, stdout=io.StringIO())
    assert EverybodysEnd.objects.count() == 1


@pytest.mark.skipif(connection.vendor == "postgresql", reason="it has a clock of its own")
@pytest.mark.parametrize("kind", ["session", "event"])
@pytest.mark.parametrize(("ahead_ms", "refused"), [(1999, False), (2001, True)])
def test_on_sqlite_what_is_newest_is_not_of_the_future(
    new_account: Callable[[], Account], monkeypatch: pytest.MonkeyPatch, kind: str, ahead_ms: int, refused: bool
) -> None:
    """Of a session or of an event, by the millisecond; without either there is nothing to end, and no refusal."""
    clocks.require_right()
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    then = now + timedelta(milliseconds=ahead_ms)
    if kind == "session":
        _session(new_account(), then)
    else:
        AuditEvent.objects.create(id=id_at(then), at=then, event="sign_in", outcome="success")
    if refused:
        with pytest.raises(ClockIsWrongError, match=r"2\.0 s in the future"):
            clocks.require_right()
    else:
        clocks.require_right()


@pytest.mark.each_case
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no clock of its own")
@pytest.mark.parametrize(("off_ms", "refused"), [(-2001, True), (-2000, False), (2000, False), (2001, True)])
def test_on_postgresql_its_clock_is_asked(monkeypatch: pytest.MonkeyPatch, off_ms: int, refused: bool) -> None:
    """By the millisecond, and what the newest session says does not matter."""
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    assert abs(clocks._of_database() - now) < timedelta(seconds=30)
    monkeypatch.setattr(clocks, "_of_database", lambda: now + timedelta(milliseconds=off_ms))
    if refused:
        with pytest.raises(ClockIsWrongError, match="behind" if off_ms > 0 else "ahead of"):
            clocks.require_right()
    else:
        clocks.require_right()


def test_the_admin_says_that_the_clock_is_off(
    client: Client, new_email: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The button ends nothing then, and the list of sessions has the remedy."""
    client.force_login(User.objects.create_user(email=new_email(), is_staff=True, is_superuser=True))

    def wrong() -> None:
        raise ClockIsWrongError("off.", "Set the clock.")

    monkeypatch.setattr(clocks, "require_right", wrong)
    said = {"confirmed": "yes", "typed": of_everybody.PHRASE}
    page = client.post(reverse("admin:tokens_session_end_everybody"), said, follow=True)
    assert "Nothing was done: off. Set the clock." in page.content.decode()
    assert "Everybody&#x27;s sessions have ended" not in page.content.decode()
    assert not EverybodysEnd.objects.exists()


# ------------------------------------------------------------------ failures
def _is_away() -> bool:
    raise Unavailable


def _fails() -> bool:
    raise ValueError("the clients' step")


def test_a_step_that_fails_keeps_no_other_one_back(
    new_account: Callable[[], Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command ends everybody's although those of clients cannot; the first error is raised afterwards."""
    _session(new_account())
    of_everybody.begin(actor_id=None)

    def later() -> bool:
        raise KeyError

    monkeypatch.setattr(batches, "STEPS", (_fails, of_everybody.end_batch, later))
    with pytest.raises(ValueError, match="the clients' step"):
        batches.end_all()
    assert not Session.objects.filter(revoked_at=None).exists()
    assert EverybodysEnd.objects.get().finished_at is not None


async def test_a_server_does_the_same(new_account: Callable[[], Account], monkeypatch: pytest.MonkeyPatch) -> None:
    """In each of its rounds; what failed is in the log, but for a database that is away: its pool has told."""
    await sync_to_async(_session)(await sync_to_async(new_account)())
    await sync_to_async(of_everybody.begin)(actor_id=None)
    monkeypatch.setattr(batches, "REST_S", 0)
    told: list[str] = []
    monkeypatch.setattr(batches.log, "exception", told.append)
    monkeypatch.setattr(batches, "STEPS", (_is_away, _fails, of_everybody.end_batch))
    await batches._Ending()._end_all()
    assert told == ["session_ending_failed"]
    assert not await Session.objects.filter(revoked_at=None).aexists()
    assert await EverybodysEnd.objects.filter(finished_at=None).acount() == 0
