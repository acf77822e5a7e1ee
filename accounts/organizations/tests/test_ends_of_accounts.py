"""What becomes of organisations when an account ends: a sole owner stays until another one is named."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.email import first_proof
from accounts.organizations import queries, units
from accounts.organizations.errors import SoleOwner
from accounts.organizations.models import Membership, Organization
from accounts.organizations.tests.conftest import Acme, roles_in
from accounts.privacy import export
from accounts.privacy import units as deletions
from accounts.staff import units as staff
from accounts.users.models import User

pytestmark = [pytest.mark.django_db, pytest.mark.storage]


def end(user: User) -> None:
    """End an account as its owner does."""
    with transaction.atomic():
        deletions.request(user_id=user.pk, old=user.password, session_id=None)


@pytest.mark.parametrize("days", [0, 7])
def test_the_only_owner_of_others_does_not_go(acme: Acme, settings: Settings, days: int) -> None:
    """At once or in some days: they are told why, and nothing has changed. With another owner they go."""
    settings.IRONAUTH_DELETION_GRACE_DAYS = days
    with pytest.raises(SoleOwner):
        end(acme.owner)
    assert User.objects.get(pk=acme.owner.pk).is_active
    Membership.objects.filter(user=acme.admin).update(role="owner")
    end(acme.owner)
    assert not User.objects.filter(pk=acme.owner.pk, is_active=True).exists()


def test_nor_do_staff_delete_them(acme: Acme, make_user: MakeUser) -> None:
    """Staff may name another owner first, or delete the organisation."""
    boss = make_user("accounts.delete_user")
    with pytest.raises(SoleOwner), transaction.atomic():
        staff.delete_user(actor_id=boss.pk, user_id=acme.owner.pk)
    with transaction.atomic():
        staff.delete_user(actor_id=boss.pk, user_id=acme.member.pk)
    assert set(roles_in(acme.id)) == {acme.owner.pk, acme.admin.pk}


def test_an_owner_who_is_inactive_is_no_other_owner(acme: Acme) -> None:
    """Nobody is left who could do anything."""
    Membership.objects.filter(user=acme.admin).update(role="owner")
    User.objects.filter(pk=acme.admin.pk).update(is_active=False)
    with pytest.raises(SoleOwner):
        end(acme.owner)


def test_an_organization_of_one_goes_with_them(make_user: MakeUser, settings: Settings, acme: Acme) -> None:
    """With days of grace when these are over, and not before; those of others stay."""
    settings.IRONAUTH_DELETION_GRACE_DAYS = 7
    user = make_user()
    with transaction.atomic():
        alone = units.create_organization(user_id=user.pk, name="Alone").organization_id
    Membership.objects.create(organization_id=acme.id, user=user, role="member")
    end(user)
    assert Organization.objects.filter(pk=alone).exists()
    assert units.memberships_of(user.pk) == []
    User.objects.get(pk=user.pk).delete()
    assert list(Organization.objects.values_list("pk", flat=True)) == [acme.id]
    assert user.pk not in roles_in(acme.id)
    event = AuditEvent.objects.get(event="organization_deleted")
    assert (event.actor_id, event.details) == (None, {"organization": str(alone), "members": 1})


def test_two_accounts_that_go_together_leave_nobody_behind(acme: Acme, root: User, client: Any) -> None:
    """The admin deletes a selection: owner and others at once is no reason to refuse, owner alone is."""
    path = "/admin/accounts/user/"
    body = {"action": "delete_selected", "post": "yes"}
    client.post(path, body | {"_selected_action": [str(acme.owner.pk)]})
    assert User.objects.filter(pk=acme.owner.pk).exists()
    client.post(path, body | {"_selected_action": [str(one.pk) for one in (acme.owner, acme.admin, acme.member)]})
    assert list(User.objects.values_list("pk", flat=True)) == [root.pk]


def test_without_organizations_an_end_asks_nothing_more(make_user: MakeUser, settings: Settings) -> None:
    """No query of an account's end is about them."""
    settings.IRONAUTH_ORGANIZATIONS, settings.IRONAUTH_DELETION_GRACE_DAYS = "off", 0
    user = make_user()
    with CaptureQueriesContext(connection) as asked:
        end(user)
    assert not [one for one in asked.captured_queries if "organization" in one["sql"] or "membership" in one["sql"]]


def test_the_export_names_them(acme: Acme) -> None:
    """With the role; nothing of other members."""
    with transaction.atomic():
        found = export.collect(acme.member.pk).sections["organizations"]
    ((name, role),) = [(one["name"], one["role"]) for one in found]
    assert (name, role) == ("Acme", "member")
    assert acme.owner.email not in str(found)


@pytest.mark.parametrize("role", ["owner", "admin", "member"])
def test_the_first_proof_of_an_address_keeps_memberships(make_acme: Callable[..., Acme], role: str) -> None:
    """Staff have given it, as to everybody they import: no owner is lost, and no colleagues are left alone."""
    acme = make_acme()
    user = User.objects.get(pk=getattr(acme, role).pk)
    User.objects.filter(pk=user.pk).update(email_verified_at=None)
    user.refresh_from_db()
    with transaction.atomic():
        first_proof.start_clean(user, encoded=user.password)
    assert roles_in(acme.id) == {acme.owner.pk: "owner", acme.admin.pk: "admin", acme.member.pk: "member"}


def test_what_nobody_is_left_of_is_purged(acme: Acme) -> None:
    """And nothing that has a member, in whatever role and however inactive."""
    User.objects.filter(pk=acme.member.pk).update(is_active=False)
    Membership.objects.exclude(user=acme.member).delete()
    for number in range(3):
        Organization.objects.create(name="Left", slug=f"left-{number}")
    assert [queries.purge(batch=2) for _ in range(3)] == [2, 1, 0]
    assert list(Organization.objects.values_list("pk", flat=True)) == [acme.id]
