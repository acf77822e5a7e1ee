"""Acts at the same moment, in threads with connections of their own: the rules hold for what is left in the end."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.db import connection, transaction

from accounts.conftest import MakeUser
from accounts.invitations import units as sign_ups
from accounts.invitations.models import Invitation
from accounts.organizations import changes, queries, rules, units
from accounts.organizations.administration import units as administration
from accounts.organizations.models import Membership, Organization
from accounts.organizations.tests.conftest import Acme, roles_in
from accounts.outbox import tokens as email_tokens
from accounts.privacy import units as deletions
from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.tests.at_once import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]
WAIT_S = 0.3  # until the other one waits for a lock, too


def outcomes_of(*acts: Callable[[], Any]) -> list[str]:
    """Return what each came to."""
    return sorted(getattr(one, "code", repr(one)) if isinstance(one, Exception) else "done" for one in at_once(*acts))


@pytest.fixture
def two_owners(make_acme: Callable[..., Acme]) -> Callable[[], Acme]:
    """Give a maker of organisations whose admin is an owner too."""

    def make() -> Acme:
        acme = make_acme()
        Membership.objects.filter(user=acme.admin).update(role="owner")
        return acme

    return make


def _leave(acme: Acme, user: Any) -> None:
    units.leave(user_id=user.pk, organization_id=acme.id)


def _step_down(acme: Acme, user: Any) -> None:
    units.set_role(actor_id=user.pk, organization_id=acme.id, user_id=user.pk, role="member")


def _delete_account(acme: Acme, user: Any) -> None:
    deletions.request(user_id=user.pk, old=user.password, session_id=None)


@pytest.mark.each_case
@pytest.mark.parametrize("first", [_leave, _step_down, _delete_account])
@pytest.mark.parametrize("second", [_leave, _step_down, _delete_account])
def test_of_two_owners_who_go_at_once_one_stays(two_owners: Callable[[], Acme], first: Any, second: Any) -> None:
    """Whichever way each of them goes."""
    acme = two_owners()
    outcomes = outcomes_of(partial(first, acme, acme.owner), partial(second, acme, acme.admin))
    assert outcomes in (["done", "last_owner"], ["done", "sole_owner"])
    active = Membership.objects.filter(organization_id=acme.id, role="owner", user__is_active=True)
    assert active.count() == 1


def test_of_two_owners_who_remove_each_other_one_stays(two_owners: Callable[[], Acme]) -> None:
    """Who comes second is no member any more, and to them there is no organisation."""
    acme = two_owners()
    remove = partial(units.remove_member, organization_id=acme.id)
    outcomes = outcomes_of(
        partial(remove, actor_id=acme.owner.pk, user_id=acme.admin.pk),
        partial(remove, actor_id=acme.admin.pk, user_id=acme.owner.pk),
    )
    assert outcomes == ["done", "not_found"]
    assert sorted(roles_in(acme.id).values()) == ["member", "owner"]


def test_nobody_makes_more_than_allowed(make_user: MakeUser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four at once, where one is left."""
    monkeypatch.setattr(rules, "MOST_OWNED", 1)
    user = make_user()
    make = partial(units.create_organization, user_id=user.pk, name="Acme")
    assert outcomes_of(*[make] * 4) == ["done", *["too_many_organizations"] * 3]
    assert len(units.memberships_of(user.pk)) == 1


def test_nobody_joins_more_than_there_is_room_for(
    acme: Acme, make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four at once, where one place is left."""
    monkeypatch.setattr(rules, "MOST_MEMBERS", 4)
    people = [make_user() for _ in range(4)]
    join = [partial(changes.join, user_id=one.pk, organization_id=acme.id, role="member") for one in people]
    assert outcomes_of(*join) == ["done", *["too_many_members"] * 3]
    assert len(roles_in(acme.id)) == 4


def test_who_joins_while_the_organization_goes(acme: Acme, make_user: MakeUser) -> None:
    """Is a member of nothing in either order, and nothing is left of it."""
    user = make_user()
    outcomes = outcomes_of(
        partial(units.delete_organization, actor_id=acme.owner.pk, organization_id=acme.id),
        partial(changes.join, user_id=user.pk, organization_id=acme.id, role="member"),
    )
    assert outcomes in (["done", "done"], ["done", "not_found"])
    assert not Membership.objects.exists()


def deadlocks() -> int:
    """Return how many transactions PostgreSQL has ended to let another pass, or 0 elsewhere."""
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def in_between(first: Callable[[], Any], then: Callable[[], Any], other: Callable[[], Any]) -> str:
    """Begin ``other`` between two parts of one transaction, and return what it came to; nobody waits in a circle.

    On SQLite there is one writer at a time: ``other`` comes after both.
    """
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first()
            outcome = pool.submit(outcomes_of, other)
            time.sleep(WAIT_S)
            then()
        return outcome.result(timeout=30)[0]


def _invited(acme: Acme, email: str = "ida@example.com") -> str:
    """Invite somebody; return the token of the link."""
    with transaction.atomic():
        made = units.invite(actor_id=acme.owner.pk, organization_id=acme.id, address=email, role="member")
    token = Invitation.objects.select_related("token").get(pk=made.id).token
    assert token is not None
    return email_tokens.text(token)


@pytest.mark.parametrize("by_staff", [False, True])
def test_an_invitation_is_accepted_while_the_organization_is_deleted(
    acme: Acme, make_user: MakeUser, by_staff: bool
) -> None:
    """The person waits for the organisation before the invitation is touched, and is told as of any stale one."""
    before, ida = deadlocks(), make_user(email="ida@example.com", email_verified_at=clock.now())
    root, token = make_user(is_superuser=True, is_staff=True), _invited(acme)
    actor = root if by_staff else acme.owner
    delete = administration.delete if by_staff else units.delete_organization
    outcome = in_between(
        lambda: queries.lock(acme.id),
        partial(delete, actor_id=actor.pk, organization_id=acme.id),
        partial(units.accept, user_id=ida.pk, token=token),
    )
    assert outcome == "invalid_invitation"
    assert (Organization.objects.count(), Membership.objects.count()) == (0, 0)
    assert deadlocks() == before


def test_somebody_new_accepts_while_the_organization_is_deleted(acme: Acme) -> None:
    """No account is left over."""
    before, found = deadlocks(), sign_ups.find(_invited(acme))
    assert found is not None
    outcome = in_between(
        lambda: queries.lock(acme.id),
        partial(units.delete_organization, actor_id=acme.owner.pk, organization_id=acme.id),
        partial(sign_ups.accept, invited=found, encoded=make_password(None), name="Ida"),
    )
    assert outcome == "invalid_invitation"
    assert not User.objects.filter(email_key="ida@example.com").exists()
    assert deadlocks() == before


def test_somebody_invites_while_they_are_deactivated(acme: Acme) -> None:
    """Who invites waits for their own row before the organisation is locked."""
    before = deadlocks()
    outcome = in_between(
        lambda: user_queries.lock(acme.admin.pk),
        lambda: queries.lock(acme.id),
        partial(units.invite, actor_id=acme.admin.pk, organization_id=acme.id, address="a@example.com", role="member"),
    )
    assert outcome == "done"
    assert deadlocks() == before


def _deactivate(acme: Acme) -> None:
    User.objects.filter(pk=acme.admin.pk).update(is_active=False)


def _deactivate_by_save(acme: Acme) -> None:
    user = User.objects.get(pk=acme.admin.pk)
    user.is_active = False
    user.save()


@pytest.mark.parametrize("deactivate", [_deactivate, _deactivate_by_save])
def test_a_person_is_deactivated_while_the_organization_is_deleted(
    acme: Acme, deactivate: Callable[[Acme], None]
) -> None:
    """Their invitations are withdrawn under the lock of the organisation, and nobody waits in a circle."""
    before = deadlocks()
    _invited(acme)
    Invitation.objects.update(invited_by=acme.admin)
    outcome = in_between(
        lambda: queries.lock(acme.id),
        partial(units.delete_organization, actor_id=acme.owner.pk, organization_id=acme.id),
        partial(deactivate, acme),
    )
    assert outcome == "done"
    assert not User.objects.filter(pk=acme.admin.pk, is_active=True).exists()
    assert deadlocks() == before


@pytest.mark.parametrize("deactivate", [_deactivate, _deactivate_by_save])
def test_of_who_invites_while_they_are_deactivated_nothing_is_left(
    acme: Acme, deactivate: Callable[[Acme], None]
) -> None:
    """The invitation that was made at that moment ends too, or is not made."""
    before = deadlocks()
    outcome = in_between(
        lambda: queries.lock_people(acme.admin.pk),
        partial(units.invite, actor_id=acme.admin.pk, organization_id=acme.id, address="a@example.com", role="member"),
        partial(deactivate, acme),
    )
    assert outcome == "done"
    assert Invitation.objects.get().withdrawn_at is not None
    assert deadlocks() == before


def test_a_person_is_deleted_while_the_organization_is(acme: Acme) -> None:
    """The database takes memberships and invitations along in an order of its own: the organisation is locked first."""
    before, gone = deadlocks(), acme.admin
    _invited(acme)
    Invitation.objects.update(invited_by=gone)
    outcome = in_between(
        lambda: queries.lock(acme.id),
        partial(units.delete_organization, actor_id=acme.owner.pk, organization_id=acme.id),
        gone.delete,
    )
    assert outcome == "done"
    assert not User.objects.filter(pk=gone.pk).exists()
    assert deadlocks() == before
