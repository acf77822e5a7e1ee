"""Every worker hears of a change, in the transaction of the change, whatever route it takes."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core import serializers
from django.db import transaction

from accounts.conftest import MakeUser
from accounts.users.invariants import sub_tag
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.models import Invalidation

pytestmark = [pytest.mark.django_db, pytest.mark.storage]


def _told(*users: User) -> bool:
    """Tell whether exactly these users were announced since the last call."""
    tags = set(Invalidation.objects.values_list("tag", flat=True))
    Invalidation.objects.all().delete()
    return tags == {sub_tag(user.pk) for user in users}


def _save(**fields: Any) -> Callable[[User, Group], None]:
    def change(user: User, _: Group) -> None:
        for name, value in fields.items():
            setattr(user, name, value)
        user.save()

    return change


def _load_fixture(user: User, _: Group) -> None:
    text = serializers.serialize("json", [user]).replace('"is_active": true', '"is_active": false')
    for loaded in serializers.deserialize("json", text):
        loaded.save()


def _rename_through_role(user: User, role: Group) -> None:
    user.groups.add(role)
    role.user_set.update(name="New")


ROUTES: dict[str, Callable[[User, Group], Any]] = {
    "name": _save(name="New"),
    "email": _save(email="new@example.com"),
    "staff": _save(is_staff=True),
    "superuser": _save(is_superuser=True),
    "deactivated": _save(is_active=False),
    "epoch": _save(session_epoch=7),
    "verified": _save(email_verified_at=datetime(2026, 1, 1, tzinfo=UTC)),
    "one field": lambda user, _: user.save(update_fields=["is_staff"]),
    "queryset": lambda user, _: User.objects.filter(pk=user.pk).update(is_staff=True),
    "related queryset": _rename_through_role,
    "groups.add": lambda user, role: user.groups.add(role),
    "groups.set": lambda user, role: user.groups.set([role]),
    "user_set.add": lambda user, role: role.user_set.add(user),
    "delete": lambda user, _: user.delete(),
    "queryset delete": lambda user, _: User.objects.filter(pk=user.pk).delete(),
    "fixture": _load_fixture,
}


@pytest.mark.live
@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES.keys())
def test_every_route_of_a_change_is_announced(route: Callable[[User, Group], Any], make_user: MakeUser) -> None:
    """Whatever changes about a person, by whatever code, that person and nobody else is announced."""
    user, _bystander, role = make_user(), make_user(), Group.objects.create(name="editors")
    assert _told()  # neither a new user nor a new role concerns anybody
    reference = User(pk=user.pk)
    route(User.objects.get(pk=user.pk), role)
    assert _told(reference)


@pytest.mark.parametrize(
    "route", ["remove", "clear", "set none", "reverse remove", "reverse clear", "rename", "delete", "deletes"]
)
def test_lost_and_renamed_roles_are_announced_to_all_members(route: str, make_user: MakeUser) -> None:
    """Members of a role hear of its loss, its new name and its end; others do not."""
    member, _bystander, role = make_user(), make_user(), Group.objects.create(name="editors")
    member.groups.add(role)
    _told()
    match route:
        case "remove":
            member.groups.remove(role)
        case "clear":
            member.groups.clear()
        case "set none":
            member.groups.set([])
        case "reverse remove":
            role.user_set.remove(member)
        case "reverse clear":
            role.user_set.clear()
        case "rename":
            role.name = "writers"
            role.save()
        case "delete":
            role.delete()
        case "deletes":
            Group.objects.all().delete()
    assert _told(member)


def test_a_login_and_an_unchanged_role_are_not_announced(make_user: MakeUser) -> None:
    """What nobody can see does not make every worker forget."""
    user, role = make_user(), Group.objects.create(name="editors")
    user.groups.add(role)
    _told()
    user.last_login = clock.now()
    user.save(update_fields=["last_login"])
    role.save()
    User.objects.filter(pk=user.pk).update(last_login=clock.now())
    assert _told()


def test_announcement_is_part_of_the_change(make_user: MakeUser) -> None:
    """A change that is rolled back is not announced; neither exists without the other."""
    user = make_user()
    with transaction.atomic():
        user.is_active = False
        user.save()
        user.groups.add(Group.objects.create(name="editors"))
        transaction.set_rollback(True)
    assert _told()
    assert User.objects.get(pk=user.pk).is_active
