"""What staff may change is decided and locked in as few queries as their rights need, and in the same order for all."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import transaction

from accounts.access.rights import Rights, rights_of_user, target_of
from accounts.users import queries as user_queries
from accounts.users.models import User
from ironauth.infrastructure.core.errors import NotAuthenticated, PermissionDenied

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

CHANGE = "accounts.change_user"


def someone(email: str, **flags: Any) -> User:
    """Return a person with these flags and, unless a superuser, the right to change users."""
    user = User.objects.create_user(email, **flags)
    if not user.is_superuser:
        user.user_permissions.add(Permission.objects.get(codename="change_user"))
    return user


@transaction.atomic
def asked(actor: User, user_id: uuid.UUID, permission: str = CHANGE) -> tuple[Rights, User | None]:
    """Ask for a target inside a transaction, as units of work do."""
    return target_of(actor.pk, user_id, permission)


@pytest.mark.parametrize(
    ("flags", "queries", "without"),
    [({"is_superuser": True}, 1, 3), ({"is_staff": True}, 4, 5), ({}, 5, 5)],
    ids=["superuser", "staff", "no staff"],
)
def test_rights_and_target_come_together(
    flags: dict[str, bool], queries: int, without: int, django_assert_num_queries: Callable[..., Any]
) -> None:
    """What was two questions is one for a superuser, and no more than before for other staff."""
    actor, target = someone("actor@example.com", **flags), User.objects.create_user("target@example.com")
    with transaction.atomic():
        with django_assert_num_queries(queries):
            rights, found = target_of(actor.pk, target.pk, CHANGE)
        assert found is not None
        assert (found, found.email, rights.user_id) == (target, "target@example.com", actor.pk)
        assert rights.is_superuser == actor.is_superuser
        assert rights.holds(CHANGE)
        with django_assert_num_queries(without):
            assert target_of(actor.pk, uuid.uuid4(), CHANGE)[1] is None


@pytest.mark.parametrize("flags", [{"is_superuser": True}, {"is_staff": True}, {}])
def test_a_deactivated_actor_may_nothing(flags: dict[str, bool]) -> None:
    """Whatever they were; who has never existed neither."""
    actor, target = someone("actor@example.com", **flags), User.objects.create_user("target@example.com")
    assert asked(actor, target.pk)[1] == target
    User.objects.filter(pk=actor.pk).update(is_active=False)
    for nobody in (actor, User(pk=uuid.uuid4())):
        with pytest.raises(NotAuthenticated):
            asked(nobody, target.pk)


@pytest.mark.parametrize("is_staff", [True, False])
def test_without_the_right_nobody_hears_who_exists(is_staff: bool) -> None:
    """The same refusal for a user there is and one there is not."""
    actor, target = someone("actor@example.com", is_staff=is_staff), User.objects.create_user("target@example.com")
    for user_id in (target.pk, uuid.uuid4()):
        with pytest.raises(PermissionDenied, match=r"accounts\.delete_user"):
            asked(actor, user_id, "accounts.delete_user")


def test_nobody_locks_by_asking_for_what_only_staff_may() -> None:
    """Before the rights are known a row is locked for staff alone."""
    actor, target = someone("actor@example.com"), User.objects.create_user("target@example.com")
    with transaction.atomic():
        assert user_queries.lock_by_staff(target.pk, actor_id=actor.pk) is None
        User.objects.filter(pk=actor.pk).update(is_staff=True)
        assert user_queries.lock_by_staff(target.pk, actor_id=actor.pk) == (target, False)


def test_each_of_several_rights_is_needed() -> None:
    """Who holds one of two holds not both; a superuser holds all, and is told of no missing one."""
    one = Rights(user_id=uuid.uuid4(), is_superuser=False, permissions=frozenset({CHANGE}))
    assert one.holds(CHANGE)
    assert not one.holds(CHANGE, "accounts.delete_user")
    with pytest.raises(PermissionDenied, match=r"accounts\.delete_user"):
        one.require(CHANGE, "accounts.delete_user")
    assert Rights(user_id=uuid.uuid4(), is_superuser=True, permissions=frozenset()).holds(
        CHANGE, "accounts.delete_user"
    )


@pytest.mark.parametrize("flags", [{"is_superuser": True, "is_staff": True}, {"is_staff": True}])
def test_somebody_deactivated_holds_nothing(flags: dict[str, bool]) -> None:
    """A loaded user who is inactive has no rights, as a superuser either: the admin asks without the database."""
    user = someone("actor@example.com", **flags)
    assert rights_of_user(User.objects.get(pk=user.pk)).holds(CHANGE)
    User.objects.filter(pk=user.pk).update(is_active=False)
    found = rights_of_user(User.objects.get(pk=user.pk))
    assert (found.is_superuser, found.permissions, found.holds(CHANGE)) == (False, frozenset(), False)
