"""The admin's forms: busy without losing what was typed, reasons where they belong, nothing taken away unseen."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client

from accounts.admin.forms import UserEditForm
from accounts.admin.roles import RoleForm
from accounts.conftest import PASSWORD, MakeUser
from accounts.users.models import Role, User
from ironauth.infrastructure.hashing.pool import hash_pool

pytestmark = [pytest.mark.django_db, pytest.mark.storage]
ADD, OWN = "/admin/accounts/user/add/", "/admin/password_change/"
NEW_PASSWORD = "another otter rides 7 trams"
NEW = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
OWN_NEW = {"old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}


def test_a_busy_add_page_keeps_what_was_typed(client: Client, root: User, full_pool: None) -> None:
    """The form comes back with the address and the name, and with the reason beside the password."""
    answer = client.post(ADD, NEW | {"email": "mia@example.com", "name": "Mia"})
    assert answer.status_code == 200
    page = answer.content.decode()
    assert 'value="mia@example.com"' in page
    assert 'value="Mia"' in page
    assert "The server is busy" in answer.context["adminform"].form.errors["password1"][0]
    assert User.objects.count() == 1


def test_busy_own_password_page_says_so(client: Client, root: User, full_pool: None) -> None:
    """Changing one's own password while the pool is full is an error of the form and changes nothing."""
    answer = client.post(OWN, OWN_NEW)
    assert answer.status_code == 200
    assert "The server is busy" in answer.context["form"].errors["old_password"][0]
    assert User.objects.get(pk=root.pk).password == root.password


def test_own_password_page_hashes_twice_and_keeps_the_session(client: Client, root: User) -> None:
    """The old password is checked and the new one hashed, once each; the page afterwards is still open."""
    jobs = hash_pool().stats().completed
    weak = client.post(OWN, OWN_NEW | {"new_password1": "short", "new_password2": "short"})
    assert "at least 15" in weak.context["form"].errors["new_password1"][0]
    assert hash_pool().stats().completed == jobs + 1
    assert client.post(OWN, OWN_NEW).status_code == 302
    assert hash_pool().stats().completed == jobs + 3
    assert User.objects.get(pk=root.pk).check_password(NEW_PASSWORD)
    assert client.get("/admin/").status_code == 200


def test_a_refused_form_hashes_nothing(client: Client, root: User) -> None:
    """A bad address, a mismatch or a weak password costs no hash, and the reason of the last is at the first field."""
    jobs = hash_pool().stats().completed
    for changes, field in (
        ({"email": "no"}, "email"),
        ({"password2": "different words here 5"}, "password2"),
        ({"password1": "short", "password2": "short"}, "password1"),
    ):
        errors = client.post(ADD, NEW | {"email": "a@example.com", "name": ""} | changes).context["adminform"].form
        assert list(errors.errors) == [field]
    assert hash_pool().stats().completed == jobs


@pytest.mark.parametrize("boss", [True, False])
def test_nobody_deactivates_themselves_on_their_page(
    client: Client, make_user: MakeUser, root: User, manager: User, boss: bool
) -> None:
    """Unticking one's own "active" is refused, also while other superusers remain; other people's is not."""
    me = make_user(email="second@example.com", is_superuser=True, is_staff=True) if boss else manager
    other = make_user()
    client.force_login(me)
    inlines = {f"sessions-{name}": 0 for name in ("TOTAL_FORMS", "INITIAL_FORMS", "MIN_NUM_FORMS", "MAX_NUM_FORMS")}
    rights = {"is_staff": "on"} | ({"is_superuser": "on"} if boss else {})
    page = f"/admin/accounts/user/{me.pk}/change/"
    answer = client.post(page, inlines | rights | {"email": me.email, "name": ""})
    assert "lock yourself out" in answer.context["adminform"].form.errors["is_active"][0]
    assert User.objects.get(pk=me.pk).is_active
    page = f"/admin/accounts/user/{other.pk}/change/"
    assert client.post(page, inlines | {"email": other.email, "name": ""}).status_code == 302
    assert not User.objects.get(pk=other.pk).is_active


def _restricted(form: Any, field: str, kept: Any) -> Any:
    form.fields[field].queryset = kept
    return form


def test_saving_takes_nothing_away_that_was_not_offered(make_user: MakeUser) -> None:
    """Roles and permissions outside the choices of a form stay; what was offered and not chosen goes."""
    hidden, shown = Group.objects.create(name="hidden"), Group.objects.create(name="shown")
    user = make_user()
    user.groups.set([hidden, shown])
    data = {"email": user.email, "name": "New", "is_active": "on", "groups": []}
    form = _restricted(UserEditForm(data, instance=user), "groups", Group.objects.filter(pk=shown.pk))
    form.full_clean()  # the admin leaves out the fields that are read-only there and missing here
    assert form.cleaned_data["groups"] == [hidden]
    first, second = Permission.objects.order_by("pk")[:2]
    role = Role.objects.create(name="r")
    role.permissions.set([first, second])
    one = Permission.objects.filter(pk=second.pk)
    form = _restricted(RoleForm({"name": "r", "permissions": []}, instance=role), "permissions", one)
    assert form.is_valid(), form.errors
    form.save()
    assert list(role.permissions.all()) == [first]


def test_words_fit_this_product(client: Client, root: User, make_user: MakeUser) -> None:
    """No other product's sign-in systems, no case-sensitive address, roles instead of groups, and no stock labels."""
    role = Group.objects.create(name="editors")
    user = make_user()
    user.groups.add(role)
    listing, page = client.get("/admin/accounts/user/"), client.get(f"/admin/accounts/user/{user.pk}/change/")
    rights = client.get(f"/admin/accounts/user/{user.pk}/change/?tab=rights")
    pages = [
        *(answer.content.decode() for answer in (listing, rights, page, client.get(ADD))),
        client.get(f"/admin/accounts/user/{user.pk}/password/").content.decode(),
        Client().post("/admin/login/", {"username": "a@example.com", "password": "x"}).content.decode(),
    ]
    for word in ("LDAP", "Single Sign-On", "may be case-sensitive", "Last login", "uperuser status", "Not empty"):
        assert not [text for text in pages if word in text], word
    assert "Available groups" not in pages[1]
    assert "Their names travel" in pages[1]
    assert "Show counts" not in pages[0]
    (verified,) = (spec for spec in listing.context["cl"].filter_specs if spec.title == "verified")
    choices = {choice["display"]: choice["query_string"] for choice in verified.choices(listing.context["cl"])}
    assert choices == {"All": "?", "Yes": "?email_verified_at__isempty=0", "No": "?email_verified_at__isempty=1"}
