"""Sessions as units of work: rotation, grace, reuse, limits, ends, and how many queries each takes."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from accounts.errors import InvalidCredentials
from accounts.users.models import User
from accounts.users.outputs import Account
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import new_id
from ironauth.infrastructure.http.client_context import ClientContext
from ironauth.infrastructure.models import Invalidation
from tokens.sessions import queries as session_queries
from tokens.sessions import refresh_token
from tokens.sessions import units as sessions
from tokens.sessions.ends import queries as session_ends
from tokens.sessions.models import Session, sid_tag
from tokens.sessions.queries import NewSession, OpenedSession, StoredSession
from tokens.sessions.refresh import queries as refresh_queries
from tokens.sessions.refresh import units as refresh_units
from tokens.sessions.refresh.queries import Outcome
from tokens.sessions.refresh.units import Rotation
from tokens.sign_in import units as sign_in_units
from tokens.sign_in.proofs import ByPassword

pytestmark = [pytest.mark.django_db, pytest.mark.storage, pytest.mark.usefixtures("still_clock")]

DAY = 86_400


@pytest.fixture
def account(new_account: Callable[[], Account]) -> Account:
    """Somebody."""
    return new_account()


@pytest.fixture
def opened_session(account: Account) -> OpenedSession:
    """A session just opened."""
    return sessions.store_first_party(account=account, context=ClientContext("192.0.2.7", "curl"))


@pytest.mark.parametrize("change", ["none", "deactivated", "deactivated by hand", "password changed", "deleted"])
def test_an_account_that_changed_while_the_password_was_hashed_gets_no_session(account: Account, change: str) -> None:
    """Deactivation, a new password or deletion between the check and the session refuses it; else 4 queries open it."""
    who = ByPassword(account.id, account.session_epoch)
    user = User.objects.get(pk=account.id)
    match change:
        case "deactivated":
            user.is_active = False
            user.save()
        case "deactivated by hand":  # an UPDATE that raises no epoch
            QuerySet(User).filter(pk=account.id).update(is_active=False)
        case "password changed":
            user.set_password("another violet otter 9")
            user.save()
        case "deleted":
            user.delete()
    with queries() as captured, nullcontext() if change == "none" else pytest.raises(InvalidCredentials):
        sign_in_units.open_session(who, context=ClientContext())
    assert len(statements(captured)) <= 4


def test_a_row_to_be_has_every_column() -> None:
    """A column the model has and the row has not would be an error of every sign-in."""
    assert set(NewSession.__struct_fields__) == {field.attname for field in Session._meta.concrete_fields}


def use(token: str, **arguments: Any) -> Rotation:
    """Present a refresh token."""
    parsed = refresh_token.parse(token)
    assert parsed is not None
    return refresh_units.rotate(parsed=parsed, **arguments)


def successor(token: str) -> str:
    """Present a refresh token and return its successor."""
    rotation = use(token)
    assert rotation.outcome is Outcome.ROTATED
    assert rotation.opened is not None
    return rotation.opened.refresh_token


def statements(captured: CaptureQueriesContext) -> list[str]:
    """Return the SQL that is not about transactions."""
    control = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "ROLLBACK", "SET ")
    return [q["sql"] for q in captured.captured_queries if not q["sql"].startswith(control)]


def queries() -> AbstractContextManager[CaptureQueriesContext]:
    """Record this connection's queries."""
    return CaptureQueriesContext(connection)


def test_rotation_chain(opened_session: OpenedSession) -> None:
    """Each refresh gives a new token, and the session's generation counts them."""
    token, seen = opened_session.refresh_token, {opened_session.refresh_token}
    for _ in range(5):
        token = successor(token)
        seen.add(token)
    assert len(seen) == 6
    assert Session.objects.get().generation == 5


def test_nothing_usable_is_stored(opened_session: OpenedSession) -> None:
    """No column of the row contains the token or any part of its authentication code (ASVS 11.5.1)."""
    row = Session.objects.values().get()
    mac = refresh_token.parse(opened_session.refresh_token).mac  # type: ignore[union-attr] # it is well-formed
    for value in row.values():
        assert opened_session.refresh_token not in str(value)
        assert mac not in (bytes(value) if isinstance(value, (bytes, memoryview)) else str(value).encode())


def test_grace_gives_the_same_successor(opened_session: OpenedSession) -> None:
    """The immediate predecessor, within the window, gets exactly what the first user got, as often as it asks."""
    token = successor(opened_session.refresh_token)
    for _ in range(3):
        rotation = use(opened_session.refresh_token)
        assert rotation.outcome is Outcome.GRACE
        assert rotation.opened is not None
        assert rotation.opened.refresh_token == token
    assert Session.objects.get().generation == 1
    assert use(token).outcome is Outcome.ROTATED


@pytest.mark.parametrize(("after_s", "outcome"), [(9, Outcome.GRACE), (11, Outcome.REUSE)])
def test_grace_ends(opened_session: OpenedSession, after_s: int, outcome: Outcome) -> None:
    """The grace window is 10 s: 9 s after the rotation it is open, 11 s after it the session is revoked."""
    successor(opened_session.refresh_token)
    with clock.shifted(after_s):
        assert use(opened_session.refresh_token).outcome is outcome


@override_settings(IRONAUTH_REFRESH_GRACE_S=0)
def test_no_grace(opened_session: OpenedSession) -> None:
    """A window of 0 s means no grace at all."""
    successor(opened_session.refresh_token)
    assert use(opened_session.refresh_token).outcome is Outcome.REUSE


def test_grace_covers_the_immediate_predecessor_only(opened_session: OpenedSession) -> None:
    """The token before the last one is reuse, however quickly it comes (django-oauth-toolkit#1617)."""
    second = successor(opened_session.refresh_token)
    third = successor(second)
    assert use(opened_session.refresh_token).outcome is Outcome.REUSE
    assert use(third).outcome is Outcome.REVOKED


def test_reuse_revokes_this_session_only(account: Account, opened_session: OpenedSession) -> None:
    """Reuse ends the session it concerns, publishes that, and leaves the person's other sessions alone."""
    other = sessions.store_first_party(account=account, context=ClientContext())
    newest = successor(successor(opened_session.refresh_token))
    Invalidation.objects.all().delete()
    assert use(opened_session.refresh_token) == Rotation(Outcome.REUSE)
    session = Session.objects.get(pk=opened_session.session_id)
    assert (session.revoke_reason, session.revoked_at is not None) == ("reuse", True)
    assert [row.tag for row in Invalidation.objects.all()] == [sid_tag(opened_session.session_id)]
    assert use(newest).outcome is Outcome.REVOKED
    assert use(other.refresh_token).outcome is Outcome.ROTATED


def test_generation_from_the_future(opened_session: OpenedSession) -> None:
    """A genuine token newer than the row, as after a restored backup, ends the session instead of forking it."""
    second = successor(opened_session.refresh_token)
    Session.objects.update(generation=0, rotated_at=None)
    assert use(second).outcome is Outcome.REUSE


def test_forged(opened_session: OpenedSession) -> None:
    """A token this server did not make is refused and changes nothing: otherwise anyone could end any session."""
    parsed = refresh_token.parse(opened_session.refresh_token)
    assert parsed is not None
    for forged in (parsed._replace(mac=bytes(32)), parsed._replace(generation=9)):
        assert refresh_units.rotate(parsed=forged).outcome is Outcome.FORGED
    assert use(opened_session.refresh_token).outcome is Outcome.ROTATED


def test_unknown_session(opened_session: OpenedSession) -> None:
    """A token of a session that does not exist is unknown."""
    Session.objects.all().delete()
    assert use(opened_session.refresh_token).outcome is Outcome.UNKNOWN


def test_another_client(opened_session: OpenedSession) -> None:
    """A token presented for another client is unknown, and not revoked by it (security-bar 23)."""
    assert use(opened_session.refresh_token, client_id="other").outcome is Outcome.UNKNOWN
    assert use(opened_session.refresh_token).outcome is Outcome.ROTATED


@override_settings(IRONAUTH_SESSION_IDLE_S=100, IRONAUTH_SESSION_ABSOLUTE_S=1_000)
@pytest.mark.parametrize(("after_s", "outcome"), [(99, Outcome.ROTATED), (100, Outcome.EXPIRED)])
def test_idle_limit(account: Account, after_s: int, outcome: Outcome) -> None:
    """A session unused for the idle limit is over: 1 s before it a refresh works, at it none does."""
    token = sessions.store_first_party(account=account, context=ClientContext()).refresh_token
    with clock.shifted(after_s):
        assert use(token).outcome is outcome


@override_settings(IRONAUTH_SESSION_IDLE_S=100, IRONAUTH_SESSION_ABSOLUTE_S=250)
@pytest.mark.parametrize(("after_s", "outcome"), [(249, Outcome.ROTATED), (250, Outcome.EXPIRED)])
def test_absolute_limit(account: Account, after_s: int, outcome: Outcome) -> None:
    """Refreshing renews the idle limit and never passes the absolute one (ASVS 7.3.2)."""
    token = sessions.store_first_party(account=account, context=ClientContext()).refresh_token
    for used_at in (90, 180):
        with clock.shifted(used_at):
            token = successor(token)
    session = Session.objects.get()
    assert session.idle_expires_at == session.absolute_expires_at
    with clock.shifted(after_s):
        assert use(token).outcome is outcome


def test_default_limits(opened_session: OpenedSession) -> None:
    """By default a session is idle after 14 days and over after 30 (SP 800-63B-4 §2.1.3)."""
    session = Session.objects.get()
    assert (session.idle_expires_at - session.created_at).total_seconds() == 14 * DAY
    assert (session.absolute_expires_at - session.created_at).total_seconds() == 30 * DAY


@pytest.mark.parametrize("change", ["inactive", "epoch", "deleted"])
def test_user_gone(account: Account, opened_session: OpenedSession, change: str) -> None:
    """An inactive or deleted user, or one whose sessions were all ended, cannot refresh (simplejwt#193)."""
    user = User.objects.get(pk=account.id)
    if change == "deleted":
        user.delete()
        assert use(opened_session.refresh_token).outcome is Outcome.UNKNOWN
        assert not Session.objects.exists()
        return
    if change == "inactive":
        user.is_active = False
    else:
        user.session_epoch += 1
    user.save()
    assert use(opened_session.refresh_token).outcome is Outcome.INACTIVE


def test_a_user_who_is_switched_off_past_the_model(account: Account, opened_session: OpenedSession) -> None:
    """An inactive user cannot refresh, also where nothing has ended the sessions: after an UPDATE by hand."""
    QuerySet(User).filter(pk=account.id).update(is_active=False)
    assert User.objects.get(pk=account.id).session_epoch == account.session_epoch
    assert use(opened_session.refresh_token).outcome is Outcome.INACTIVE


def test_master_key_gone(opened_session: OpenedSession) -> None:
    """When a session's master key is no longer there, its token is refused, not an error."""
    with override_settings(IRONAUTH_MASTER_KEYS={"t9": bytes(range(32))}):
        assert use(opened_session.refresh_token).outcome is Outcome.FORGED
    assert use(opened_session.refresh_token).outcome is Outcome.ROTATED


def read(opened_session: OpenedSession) -> StoredSession:
    """Return the session as the units read it."""
    found = session_queries.find(opened_session.session_id)
    assert found is not None
    return found


def test_lost_race(opened_session: OpenedSession) -> None:
    """A request that reads the row before the winner wrote it updates nothing, and gets the winner's successor."""
    stale = read(opened_session)
    token = successor(opened_session.refresh_token)
    assert session_queries.advance(stale, now=clock.now(), idle_end=stale.idle_expires_at) is None
    assert Session.objects.get().generation == 1
    rotation = use(opened_session.refresh_token)
    assert rotation.opened is not None
    assert rotation.opened.refresh_token == token


def test_an_advanced_session_is_as_it_was_stored(opened_session: OpenedSession) -> None:
    """What a refresh answers from is the row it has written, all of it."""
    before = read(opened_session)
    with clock.shifted(60):
        advanced = session_queries.advance(before, now=clock.now(), idle_end=before.idle_expires_at)
    assert advanced == read(opened_session)


def test_revoked_between_read_and_write(opened_session: OpenedSession) -> None:
    """A session revoked after it was read is not advanced."""
    stale = read(opened_session)
    sessions.end_session(session_id=opened_session.session_id, reason=Session.RevokeReason.SIGNED_OUT)
    assert session_queries.advance(stale, now=clock.now(), idle_end=stale.idle_expires_at) is None


def test_live_account(account: Account, opened_session: OpenedSession) -> None:
    """A token's session is confirmed only for its own user and epoch, while it lives."""
    good = {"session_id": opened_session.session_id, "user_id": account.id, "epoch": account.session_epoch}
    found = session_queries.live_account(**good)  # type: ignore[arg-type] # a test's own mixture
    assert found is not None
    assert found.account == account
    assert (found.authenticated_at, found.amr) == (opened_session.authenticated_at, "pwd")
    for wrong in ({"user_id": opened_session.session_id}, {"session_id": account.id}, {"epoch": 5}):
        assert session_queries.live_account(**{**good, **wrong}) is None  # type: ignore[arg-type] # as above
    with clock.shifted(14 * DAY + 1):
        assert session_queries.live_account(**good) is None  # type: ignore[arg-type] # as above
    assert sessions.end_session(session_id=opened_session.session_id, reason=Session.RevokeReason.SIGNED_OUT)
    assert session_queries.live_account(**good) is None  # type: ignore[arg-type] # as above


@pytest.mark.parametrize("change", [{"is_active": False}, {"session_epoch": 1}])
def test_a_live_session_asks_its_account_too(
    account: Account, opened_session: OpenedSession, change: dict[str, Any]
) -> None:
    """An UPDATE by hand leaves the session's row; its tokens are good for no inactive account and no older epoch."""
    good: dict[str, Any] = {"session_id": opened_session.session_id, "user_id": account.id, "epoch": 0}
    assert session_queries.live_account(**good) is not None
    QuerySet(User).filter(pk=account.id).update(**change)
    assert session_queries.live_account(**good) is None


@pytest.mark.parametrize("wrong", ["user", "epoch", "idle"])
def test_a_session_is_ended_for_its_owner_while_it_lives(
    opened_session: OpenedSession, new_account: Callable[[], Account], wrong: str
) -> None:
    """Not for somebody else, not when it is over by the epoch or by its limit, and only once."""
    own: dict[str, Any] = {"session_id": opened_session.session_id, "user_id": opened_session.account.id, "epoch": 0}
    own["from_session_id"] = new_id()
    changes: dict[str, Any] = {"user": {"user_id": new_account().id}, "epoch": {"epoch": 1}, "idle": {}}
    with clock.shifted(14 * DAY + 1 if wrong == "idle" else 0):
        assert not session_ends.end_own_session(**{**own, **changes[wrong]})
    assert Session.objects.get().revoked_at is None
    assert session_ends.end_own_session(**own)
    assert not session_ends.end_own_session(**own)


def test_live_sessions(account: Account, opened_session: OpenedSession) -> None:
    """The list holds the live sessions of the user, the most recently used first."""
    with clock.shifted(60):
        newer = sessions.store_first_party(account=account, context=ClientContext())
        ended = sessions.store_first_party(account=account, context=ClientContext())
        sessions.end_session(session_id=ended.session_id, reason=Session.RevokeReason.SIGNED_OUT)
        assert [s.id for s in session_queries.live_sessions(user_id=account.id)] == [
            newer.session_id,
            opened_session.session_id,
        ]
    with clock.shifted(120):
        successor(opened_session.refresh_token)
        assert [s.id for s in session_queries.live_sessions(user_id=account.id)] == [
            opened_session.session_id,
            newer.session_id,
        ]
    user = User.objects.get(pk=account.id)
    user.session_epoch += 1
    user.save()
    assert session_queries.live_sessions(user_id=account.id) == []


def test_session_of(opened_session: OpenedSession) -> None:
    """A genuine token names its session in whatever state it is; a forged one names none."""
    old = refresh_token.parse(opened_session.refresh_token)
    assert old is not None
    use(opened_session.refresh_token)
    found = refresh_queries.session_of(parsed=old)
    assert found is not None
    assert (found.id, found.account.id) == (opened_session.session_id, opened_session.account.id)
    assert refresh_queries.session_of(parsed=old._replace(mac=bytes(32))) is None


def test_query_counts(account: Account) -> None:
    """Opening costs 1 query, rotating 2, the grace 2, confirming 1, ending 3: frozen.

    One of the three looks for what began in the session: it is an SSO session for all one knows. One of the grace looks
    for another browser that has gone on from it.
    """
    with queries() as opened:
        opened_session = sessions.store_first_party(account=account, context=ClientContext())
    with queries() as rotated:
        use(opened_session.refresh_token)
    with queries() as graced:
        use(opened_session.refresh_token)
    with queries() as confirmed:
        session_queries.live_account(session_id=opened_session.session_id, user_id=account.id, epoch=0)
    with queries() as ended:
        sessions.end_session(session_id=opened_session.session_id, reason=Session.RevokeReason.SIGNED_OUT)
    counts = [len(statements(captured)) for captured in (opened, rotated, graced, confirmed, ended)]
    assert counts == [1, 2, 2, 1, 3]


def test_writes_outside_units_are_published(opened_session: OpenedSession) -> None:
    """Saving or deleting a session by hand publishes it too, so that no worker trusts it any longer."""
    tag = sid_tag(opened_session.session_id)
    Session.objects.get().save()
    assert Invalidation.objects.filter(tag=tag).count() == 1
    Session.objects.all().delete()
    assert Invalidation.objects.filter(tag=tag).count() == 2
