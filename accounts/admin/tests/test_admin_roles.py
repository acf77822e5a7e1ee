"""Roles in the admin: one word for them, Django's permissions over groups, and members hear of a change."""

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client

from accounts.conftest import MakeUser
from accounts.users.invariants import sub_tag
from accounts.users.models import Role, User
from ironauth.infrastructure.models import Invalidation

pytestmark = [pytest.mark.django_db, pytest.mark.storage]
ROLES = "/admin/accounts/role/"


def test_they_are_called_roles_everywhere(client: Client, root: User) -> None:
    """The index has roles beside users, and no groups; the form says what a role's name does."""
    index = client.get("/admin/").content.decode()
    assert f'href="{ROLES}"' in index
    assert "Groups" not in index
    page = client.get(f"{ROLES}add/").content.decode()
    assert "Add role" in page
    assert "Travels in the tokens" in page
    assert not Permission.objects.filter(codename__endswith="_role").exists()


@pytest.mark.parametrize(
    ("right", "path", "opens"),
    [
        ("auth.view_group", "", True),
        ("auth.view_group", "add/", False),
        ("auth.change_group", "{pk}/change/", True),
        ("auth.change_group", "{pk}/delete/", False),
        ("auth.add_group", "add/", True),
        ("auth.add_group", "", False),
        ("auth.delete_group", "{pk}/delete/", True),
        ("accounts.view_user", "", False),
    ],
)
def test_rights_over_groups_are_rights_over_roles(
    client: Client, make_user: MakeUser, right: str, path: str, opens: bool
) -> None:
    """Each page opens with Django's own permission over groups, and with nothing else."""
    role = Group.objects.create(name="editors")
    client.force_login(make_user(right, is_staff=True))
    answer = client.get(ROLES + path.format(pk=role.pk))
    assert answer.status_code == (200 if opens else 403)


def test_members_hear_of_a_renamed_and_of_a_deleted_role(client: Client, root: User, make_user: MakeUser) -> None:
    """What every worker holds about the members goes, whichever class the change was made through."""
    user, role = make_user(), Role.objects.create(name="editors")
    user.groups.add(role)
    for path, data in (("change/", {"name": "writers", "permissions": []}), ("delete/", {"post": "yes"})):
        Invalidation.objects.all().delete()
        assert client.post(f"{ROLES}{role.pk}/{path}", data).status_code == 302
        assert sub_tag(user.pk) in Invalidation.objects.values_list("tag", flat=True)
    assert not Group.objects.exists()


@pytest.mark.parametrize("field", ["permissions", "user_permissions"])
def test_only_permissions_that_open_something_are_offered(client: Client, root: User, field: str) -> None:
    """Those over groups are called what groups are called; one of Django's own rows is not offered, and stays."""
    inward = Permission.objects.get(codename="view_session", content_type__app_label="sessions")
    shown = Permission.objects.get(codename="view_session", content_type__app_label="tokens")
    held = Role.objects.create(name="r") if field == "permissions" else User.objects.create_user("a@example.com")
    getattr(held, field).set([inward, shown])
    page = f"/admin/accounts/{'role' if field == 'permissions' else 'user'}/{held.pk}/change/?tab=rights"
    form = client.get(page).context["adminform"].form
    choices = {value.instance.pk: label for value, label in form.fields[field].choices}
    assert shown.pk in choices
    assert choices[Permission.objects.get(codename="add_group").pk] == "People and roles | role | Can add role"
    assert {one.content_type.app_label for one in Permission.objects.filter(pk__in=choices)} == {
        "accounts", "auth", "tokens",
    }  # fmt: skip
    data = {
        "name": "r",
        "email": "a@example.com",
        "is_active": "on",
        "sessions-TOTAL_FORMS": 0,
        "sessions-INITIAL_FORMS": 0,
    }
    assert client.post(page, data).status_code == 302
    assert list(getattr(held, field).all()) == [inward]
