"""Invitations to an organisation whose makers are deactivated: they end, revive with nobody, and take no place."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.hashers import make_password
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.invitations import queries as invitation_queries
from accounts.invitations import units as invitations
from accounts.invitations.models import Invitation
from accounts.organizations import rules, units
from accounts.organizations.models import Membership
from accounts.organizations.offers import queries as offers
from accounts.organizations.tests.conftest import INVITED, Acme
from accounts.organizations.tests.test_organization_invitations import deactivate_unheard, do, link, sign_up
from accounts.privacy import units as deletions
from accounts.staff import units as staff
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import NotFound

pytestmark = [pytest.mark.django_db, pytest.mark.storage]


def _by_save(acme: Acme, boss: User) -> None:
    user = User.objects.get(pk=acme.admin.pk)
    user.is_active = False
    user.save()


def _by_update(acme: Acme, boss: User) -> None:
    User.objects.filter(pk=acme.admin.pk).update(is_active=False)


def _by_staff(acme: Acme, boss: User) -> None:
    do(staff.update_user, actor_id=boss.pk, user_id=acme.admin.pk, values={"is_active": False})


def _by_owner(acme: Acme, boss: User) -> None:
    do(deletions.request, user_id=acme.admin.pk, old=acme.admin.password, session_id=None)


@pytest.mark.parametrize("end", [_by_save, _by_update, _by_staff, _by_owner])
def test_nothing_revives_with_who_made_it(
    acme: Acme, make_acme: Callable[..., Acme], root: User, settings: Settings, end: Callable[[Acme, User], None]
) -> None:
    """By whatever hand they go: their unanswered invitations end, as the trail says, those of others and of staff stay.

    So does one that they had made and somebody has accepted.
    """
    settings.IRONAUTH_DELETION_GRACE_DAYS = 7
    other = make_acme("Other")
    Membership.objects.create(organization_id=other.id, user=acme.admin, role="admin")
    used = link(acme, by=acme.admin, address="used@example.com")
    user = sign_up(used)
    theirs = [link(one, by=acme.admin) for one in (acme, other)]
    owners = link(acme, address="two@example.com")
    values = {"email": INVITED, "name": "", "language": "", "roles": []}
    of_staff = do(invitations.invite, actor_id=root.pk, values=values).id
    Invitation.objects.filter(pk=of_staff).update(invited_by=acme.admin)
    ended = Invitation.objects.filter(invited_by=acme.admin, accepted_at=None, organization__isnull=False)
    ids = {str(one) for one in ended.values_list("pk", flat=True)}
    end(acme, root)
    assert not ended.filter(withdrawn_at=None).exists()
    events = AuditEvent.objects.filter(event="member_invitation_withdrawn").values_list("details", flat=True)
    assert {one["invitation"] for one in events} == ids
    assert {one["organization"] for one in events} == {str(acme.id), str(other.id)}
    assert {one["invited_by"] for one in events} == {str(acme.admin.pk)}
    User.objects.filter(pk=acme.admin.pk).update(is_active=True)
    assert [invitations.find(token) for token in theirs] == [None, None]
    assert invitations.find(owners) is not None
    assert Invitation.objects.get(pk=of_staff).withdrawn_at is None
    assert Invitation.objects.get(user=user).withdrawn_at is None


def test_what_ends_no_account_ends_no_invitation(acme: Acme) -> None:
    """A new name, a new password, another activation, and another person's end."""
    token = link(acme, by=acme.admin)
    user = User.objects.get(pk=acme.admin.pk)
    user.name, user.password = "Ada", make_password("another")
    user.save()
    User.objects.filter(pk=user.pk).update(is_active=True, session_epoch=9)
    User.objects.filter(pk=acme.member.pk).update(is_active=False)
    assert invitations.find(token) is not None
    assert not AuditEvent.objects.filter(event="member_invitation_withdrawn").exists()


@pytest.mark.parametrize("by_staff", [False, True])
def test_a_dead_one_can_be_withdrawn(acme: Acme, make_user: MakeUser, by_staff: bool) -> None:
    """By members and by staff, so that it does not revive; to be sent again it is as one that was never made."""
    boss = make_user("accounts.add_invitation", "accounts.delete_invitation")
    token = link(acme, by=acme.admin)
    row = Invitation.objects.get()
    deactivate_unheard(acme)
    assert units.waiting_invitations(actor_id=acme.owner.pk, organization_id=acme.id) == []
    with pytest.raises(NotFound):
        do(invitations.send_again, actor_id=boss.pk, invitation_id=row.pk)
    if by_staff:
        do(invitations.withdraw, actor_id=boss.pk, invitation_id=row.pk)
    else:
        do(units.withdraw, actor_id=acme.owner.pk, organization_id=acme.id, invitation_id=row.pk)
    User.objects.filter(pk=acme.admin.pk).update(is_active=True)
    assert invitations.find(token) is None


def test_the_admins_filter_agrees_with_its_column(acme: Acme, root: User, client: Client) -> None:
    """One whose maker may not invite so any more is withdrawn in both, also when it has expired."""
    for name in ("dead", "over"):
        link(acme, by=acme.admin, address=f"{name}-one@example.com")
    link(acme, address="alive-one@example.com")
    Invitation.objects.filter(email_key="over-one@example.com").update(expires_at=clock.now() - timedelta(days=1))

    def listed(state: str) -> set[str]:
        page = client.get("/admin/accounts/invitation/", {"state": state}).content.decode().replace("<wbr>", "")
        return {name for name in ("dead", "over", "alive") if f"{name}-one@" in page}

    assert [listed(one) for one in ("waiting", "expired", "withdrawn")] == [{"dead", "alive"}, {"over"}, set()]
    deactivate_unheard(acme)
    assert [listed(one) for one in ("waiting", "expired", "withdrawn")] == [{"alive"}, set(), {"dead", "over"}]


def test_the_list_of_staff_costs_the_same_at_any_size(acme: Acme, root: User, client: Client) -> None:
    """No query a row: the list itself knows whether their makers may still invite so."""
    sizes = []
    for rows in (2, 12):
        for number in range(Invitation.objects.count(), rows):
            link(acme, by=acme.admin, address=f"guest{number}@example.com")
        with CaptureQueriesContext(connection) as asked:
            page = client.get("/admin/accounts/invitation/").content.decode()
        assert page.count("Waiting</td>") == rows
        sizes.append(len(asked))
    assert sizes[0] == sizes[1]


def test_the_list_of_offers_is_bounded(
    acme: Acme, make_acme: Callable[..., Acme], make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the database, and dead ones take no place in it; the oldest living one lets a stranger sign up."""
    ida = make_user(email="ida@example.com", email_verified_at=clock.now())
    for one in [make_acme(f"More {number}") for number in range(3)]:
        link(one)
    link(acme, by=acme.admin)
    deactivate_unheard(acme)
    monkeypatch.setattr(rules, "MOST_OF_A_PERSON", 2)
    with CaptureQueriesContext(connection) as asked:
        assert [one.name for one in offers.waiting_for(ida.pk)] == ["More 2", "More 1"]
    assert [one["sql"].endswith("LIMIT 2") for one in asked.captured_queries] == [False, True]
    with CaptureQueriesContext(connection) as asked:
        assert invitation_queries.waits_for(ida.email_key)
    assert [one["sql"].endswith("LIMIT 1") for one in asked.captured_queries] == [True, True]
    Invitation.objects.exclude(invited_by=acme.admin).delete()
    assert not invitation_queries.waits_for(ida.email_key)
