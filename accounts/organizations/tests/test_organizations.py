"""Units of work on organisations: which role may do what to which members, both sides of each rule."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.organizations import queries, rules, units
from accounts.organizations.errors import LastOwner, OrganizationsByStaff, TooManyOrganizations
from accounts.organizations.models import Membership, Organization
from accounts.organizations.signals import membership_changed
from accounts.organizations.tests.conftest import Acme, roles_in
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotFound, PermissionDenied

pytestmark = [pytest.mark.django_db, pytest.mark.storage]
PAGE = {"cursor": "", "page_size": 50}


def do(unit: Callable[..., Any], **given: Any) -> Any:
    """Run a unit of work as the pool does."""
    with transaction.atomic():
        return unit(**given)


def test_who_makes_an_organization_owns_it(make_user: MakeUser) -> None:
    """With a short name that begins like its name and ends at random."""
    user = make_user()
    made = do(units.create_organization, user_id=user.pk, name="Äcme & Sons")
    assert made == units.memberships_of(user.pk)[0] == units.membership(user.pk, made.organization_id)
    assert (made.name, made.role) == ("Äcme & Sons", "owner")
    assert made.slug.startswith("acme-sons-")
    assert len(made.slug) == len("acme-sons-") + 6


@pytest.mark.parametrize("name", ["---", "日本", "_", "a" * 150])
def test_every_name_has_a_short_name(make_user: MakeUser, name: str) -> None:
    """Also one without a letter of ASCII; it fits the column and its rule."""
    made = do(units.create_organization, user_id=make_user().pk, name=name)
    Organization.objects.get(pk=made.organization_id).full_clean()


def test_two_of_one_name_are_two(make_user: MakeUser) -> None:
    """The second maker learns nothing of the first one."""
    first, second = (do(units.create_organization, user_id=make_user().pk, name="Acme") for _ in range(2))
    assert first.organization_id != second.organization_id
    assert first.slug != second.slug


@pytest.mark.parametrize(("mode", "error"), [("staff", OrganizationsByStaff), ("off", NotFound)])
def test_people_make_none_unless_the_setting_says_so(
    make_user: MakeUser, settings: Settings, mode: str, error: type[Exception]
) -> None:
    """With ``staff`` they are told who does; with ``off`` there is nothing."""
    settings.IRONAUTH_ORGANIZATIONS = mode
    with pytest.raises(error):
        do(units.create_organization, user_id=make_user().pk, name="Acme")
    assert not Organization.objects.exists()


def test_somebody_may_own_so_many(make_user: MakeUser, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not one more."""
    monkeypatch.setattr(rules, "MOST_OWNED", 2)
    user = make_user()
    for _ in range(2):
        do(units.create_organization, user_id=user.pk, name="Acme")
    with pytest.raises(TooManyOrganizations):
        do(units.create_organization, user_id=user.pk, name="Acme")
    assert len(units.memberships_of(user.pk)) == 2


def test_somebody_may_be_a_member_of_so_many(make_user: MakeUser, acme: Acme, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their role is there."""
    monkeypatch.setattr(rules, "MOST_OF_A_PERSON", 1)
    with pytest.raises(TooManyOrganizations):
        do(units.create_organization, user_id=acme.member.pk, name="Another")
    assert do(units.create_organization, user_id=make_user().pk, name="Another")


def test_with_off_nobody_has_a_membership(acme: Acme, settings: Settings, django_assert_num_queries: Any) -> None:
    """The rows stay, and no query asks for them."""
    settings.IRONAUTH_ORGANIZATIONS = "off"
    with django_assert_num_queries(0):
        assert units.memberships_of(acme.owner.pk) == []
        assert units.membership(acme.owner.pk, acme.id) is None
    with pytest.raises(NotFound):
        do(units.leave, user_id=acme.member.pk, organization_id=acme.id)
    assert len(roles_in(acme.id)) == 3


def test_an_inactive_person_is_a_member_of_nothing(acme: Acme, django_assert_num_queries: Any) -> None:
    """Their row stays for when they come back; either question is one query."""
    User.objects.filter(pk=acme.admin.pk).update(is_active=False)
    with django_assert_num_queries(2):
        assert units.memberships_of(acme.admin.pk) == []
        assert units.membership(acme.admin.pk, acme.id) is None
    assert roles_in(acme.id)[acme.admin.pk] == "admin"


#: What each unit needs beside the caller and the organisation, and the roles that may do it to a plain member.
ACTS: dict[Callable[..., Any], tuple[dict[str, Any], set[str]]] = {
    units.members: ({"filters": PAGE}, {"owner", "admin"}),
    units.rename_organization: ({"name": "New"}, {"owner"}),
    units.delete_organization: ({}, {"owner"}),
    units.set_role: ({"user_id": "member", "role": "admin"}, {"owner", "admin"}),
    units.remove_member: ({"user_id": "member"}, {"owner", "admin"}),
    units.invite: ({"address": "new@example.com", "role": "member"}, {"owner", "admin"}),
    units.waiting_invitations: ({}, {"owner", "admin"}),
}


@pytest.mark.parametrize("role", ["owner", "admin", "member", None])
@pytest.mark.parametrize("unit", ACTS, ids=lambda unit: unit.__name__)
def test_each_act_is_for_its_roles(
    acme: Acme, make_acme: Callable[..., Acme], unit: Callable[..., Any], role: str | None
) -> None:
    """Who has another role is told so; to who has none there is no such organisation, nor to owners of another one."""
    given, allowed = ACTS[unit]
    if "user_id" in given:
        given = given | {"user_id": acme.member.pk}
    actor = getattr(acme, role) if role else make_acme("Other").owner
    act = {"actor_id": actor.pk, "organization_id": acme.id, **given}
    if role in allowed:
        do(unit, **act)
        return
    before = roles_in(acme.id)
    with pytest.raises(PermissionDenied if role else NotFound):
        do(unit, **act)
    assert roles_in(acme.id) == before
    assert Organization.objects.get(pk=acme.id).name == "Acme"
    if role is None:  # word for word as for an id that was never given
        with pytest.raises(NotFound) as unknown:
            do(unit, **act | {"organization_id": uuid.uuid4()})
        with pytest.raises(NotFound) as foreign:
            do(unit, **act)
        assert unknown.value.detail == foreign.value.detail


@pytest.mark.parametrize(
    ("actor", "target", "role", "allowed"),
    [
        ("owner", "admin", "owner", True),
        ("owner", "admin", "member", True),
        ("owner", "member", "owner", True),
        ("admin", "member", "admin", True),
        ("admin", "member", "owner", False),
        ("admin", "admin", "member", True),
        ("admin", "admin", "owner", False),
        ("admin", "owner", "member", False),
        ("admin", "owner", "owner", False),
        ("member", "member", "admin", False),
    ],
)
def test_who_gives_which_role(acme: Acme, told: Any, actor: str, target: str, role: str, allowed: bool) -> None:
    """An admin neither touches owners nor makes any, and what changes others hear of."""
    target_id = getattr(acme, target).pk
    act = {"actor_id": getattr(acme, actor).pk, "organization_id": acme.id, "user_id": target_id, "role": role}
    if allowed:
        do(units.set_role, **act)
        assert roles_in(acme.id)[target_id] == role
        assert told == [(acme.id, [target_id], role)]
        return
    with pytest.raises(PermissionDenied):
        do(units.set_role, **act)
    assert roles_in(acme.id)[target_id] == target
    assert told == []


def test_an_admin_does_not_remove_an_owner(acme: Acme, told: Any) -> None:
    """Even where there are two."""
    do(units.set_role, actor_id=acme.owner.pk, organization_id=acme.id, user_id=acme.member.pk, role="owner")
    told.clear()
    with pytest.raises(PermissionDenied):
        do(units.remove_member, actor_id=acme.admin.pk, organization_id=acme.id, user_id=acme.member.pk)
    do(units.remove_member, actor_id=acme.owner.pk, organization_id=acme.id, user_id=acme.member.pk)
    assert told == [(acme.id, [acme.member.pk], None)]


def test_the_same_role_again_is_no_change(acme: Acme, told: Any) -> None:
    """Nobody hears of it, and the trail has nothing; the last owner may keep theirs."""
    for user in (acme.owner, acme.member):
        role = roles_in(acme.id)[user.pk]
        do(units.set_role, actor_id=acme.owner.pk, organization_id=acme.id, user_id=user.pk, role=role)
    assert told == []
    assert not AuditEvent.objects.filter(event="member_role_changed").exists()


def test_the_last_owner_stays(acme: Acme, told: Any) -> None:
    """They neither leave nor lose the role until there is another one, who is active."""
    acts: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (units.leave, {"user_id": acme.owner.pk}),
        (units.set_role, {"actor_id": acme.owner.pk, "user_id": acme.owner.pk, "role": "member"}),
        (units.remove_member, {"actor_id": acme.owner.pk, "user_id": acme.owner.pk}),
    ]
    for unit, given in acts:
        with pytest.raises(LastOwner):
            do(unit, organization_id=acme.id, **given)
    do(units.set_role, actor_id=acme.owner.pk, organization_id=acme.id, user_id=acme.admin.pk, role="owner")
    User.objects.filter(pk=acme.admin.pk).update(is_active=False)
    with pytest.raises(LastOwner):
        do(units.leave, user_id=acme.owner.pk, organization_id=acme.id)
    User.objects.filter(pk=acme.admin.pk).update(is_active=True)
    told.clear()
    do(units.leave, user_id=acme.owner.pk, organization_id=acme.id)
    assert roles_in(acme.id) == {acme.admin.pk: "owner", acme.member.pk: "member"}
    assert told == [(acme.id, [acme.owner.pk], None)]


def test_somebody_who_is_no_member_cannot_be_changed(acme: Acme, make_user: MakeUser) -> None:
    """An owner learns nothing of people outside: an account and none are one answer."""
    details = set()
    for user_id in (make_user().pk, uuid.uuid4()):
        for unit, more in ((units.remove_member, {}), (units.set_role, {"role": "admin"})):
            with pytest.raises(NotFound) as refused:
                do(unit, actor_id=acme.owner.pk, organization_id=acme.id, user_id=user_id, **more)
            details.add(refused.value.detail)
    assert details == {queries.NO_MEMBER}


def test_an_organization_goes_with_all_that_hangs_on_it(acme: Acme, told: Any) -> None:
    """Its members are none any more, which others hear in the same transaction."""
    do(units.invite, actor_id=acme.owner.pk, organization_id=acme.id, address="new@example.com", role="member")
    do(units.delete_organization, actor_id=acme.owner.pk, organization_id=acme.id)
    assert not Organization.objects.exists()
    assert not Membership.objects.exists()
    assert told == [(acme.id, sorted([acme.owner.pk, acme.admin.pk, acme.member.pk]), None)]


def test_what_fails_changes_nothing_and_tells_nobody(acme: Acme, told: Any) -> None:
    """A receiver that raises undoes the act: no membership ends without its sessions."""

    def fail(**_: object) -> None:
        raise RuntimeError

    membership_changed.connect(fail)
    try:
        with pytest.raises(RuntimeError):
            do(units.leave, user_id=acme.member.pk, organization_id=acme.id)
    finally:
        membership_changed.disconnect(fail)
    assert acme.member.pk in roles_in(acme.id)


def test_members_are_listed_in_pages(acme: Acme) -> None:
    """The newest first, each once, with what a colleague may know."""
    first = do(units.members, actor_id=acme.owner.pk, organization_id=acme.id, filters=PAGE | {"page_size": 2})
    assert first.next
    rest = do(units.members, actor_id=acme.owner.pk, organization_id=acme.id, filters=PAGE | {"cursor": first.next})
    assert [one.id for one in (*first.rows, *rest.rows)] == [acme.member.pk, acme.admin.pk, acme.owner.pk]
    assert rest.next is None
    assert (first.rows[0].email, first.rows[0].role) == (acme.member.email, "member")


def test_each_act_is_one_event(acme: Acme) -> None:
    """With who did it, about which person, and ids: no name and no address."""
    whose = {"organization_id": acme.id}
    do(units.rename_organization, actor_id=acme.owner.pk, **whose, name="New")
    do(units.set_role, actor_id=acme.owner.pk, **whose, user_id=acme.member.pk, role="admin")
    made = do(units.invite, actor_id=acme.admin.pk, **whose, address="new@example.com", role="member")
    do(units.withdraw, actor_id=acme.admin.pk, **whose, invitation_id=made.id)
    do(units.remove_member, actor_id=acme.owner.pk, **whose, user_id=acme.member.pk)
    do(units.leave, user_id=acme.admin.pk, **whose)
    do(units.delete_organization, actor_id=acme.owner.pk, **whose)
    org, invitation = str(acme.id), str(made.id)
    owner, admin, member = acme.owner.pk, acme.admin.pk, acme.member.pk
    events = AuditEvent.objects.order_by("pk").values_list("event", "actor_id", "user_id", "details")
    assert list(events) == [
        ("organization_created", owner, owner, {"organization": org, "role": "owner"}),
        ("organization_renamed", owner, None, {"organization": org}),
        ("member_role_changed", owner, member, {"organization": org, "role": "admin", "role_before": "member"}),
        ("member_invited", admin, None, {"organization": org, "invitation": invitation, "role": "member"}),
        ("member_invitation_withdrawn", admin, None, {"organization": org, "invitation": invitation}),
        ("member_removed", owner, member, {"organization": org, "role": "admin"}),
        ("organization_left", admin, admin, {"organization": org, "role": "admin"}),
        ("organization_deleted", owner, None, {"organization": org, "members": 1}),
    ]
