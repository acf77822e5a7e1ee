"""Django's admin: what staff can do, what they cannot, and that it takes effect at once."""

import re
import time
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from accounts.admin import forms as admin_forms
from accounts.conftest import PASSWORD, MakeUser
from accounts.users.invariants import sub_tag
from accounts.users.models import User
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.constant_time import REFUSAL_STEP_S
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.models import Invalidation

pytestmark = [pytest.mark.django_db, pytest.mark.storage]
LIST, ADD = "/admin/accounts/user/", "/admin/accounts/user/add/"
VIEW, ADD_USER, CHANGE, DELETE = (f"accounts.{verb}_user" for verb in ("view", "add", "change", "delete"))
NEW_PASSWORD = "another otter rides 7 trams"


def _page(user: User) -> str:
    return f"{LIST}{user.pk}/change/"


def _form(user: User, **changes: Any) -> dict[str, Any]:
    """Return what the browser would send for this user's page; inline management forms included."""
    user = User.objects.get(pk=user.pk)
    fields = {"email": user.email, "name": user.name, "groups": [group.pk for group in user.groups.all()]}
    flags = {name: "on" for name in ("is_active", "is_staff", "is_superuser") if getattr(user, name)}
    inlines = {f"sessions-{name}": 0 for name in ("TOTAL_FORMS", "INITIAL_FORMS", "MIN_NUM_FORMS", "MAX_NUM_FORMS")}
    return {name: value for name, value in (fields | flags | inlines | changes).items() if value is not None}


def _act(client: Client, action: str, *users: User, confirmed: bool = True) -> Any:
    """Run a list action, as the browser does after the question."""
    data = {"action": action, "_selected_action": [str(user.pk) for user in users]}
    return client.post(LIST, data | ({"confirmed": "yes"} if confirmed else {}), follow=True)


def test_sign_in_by_any_case_of_the_address(client: Client, make_user: MakeUser) -> None:
    """Staff sign in through the pool; the session starts, and ordinary people stay out."""
    make_user(email="Mia@example.com", is_staff=True)
    make_user(email="plain@example.com")
    login = reverse("admin:login")
    assert b"E-mail address" in client.get(login).content
    answer = client.post(login, {"username": "MIA@example.com", "password": PASSWORD, "next": "/admin/"})
    assert (answer.status_code, answer.headers["location"]) == (302, "/admin/")
    assert Client().post(login, {"username": "plain@example.com", "password": PASSWORD}).status_code == 200


@pytest.mark.parametrize("email", ["mia@example.com", "nobody@example.com", "gone@example.com", "m\u0131a@example.com"])
def test_refused_sign_ins_look_the_same_and_hash_once(
    client: Client, make_user: MakeUser, email: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known, unknown, inactive and look-alike get the same words, one hash each, and leave at an even time."""
    waits: list[float] = []

    def noted(began_ns: int, step_s: float) -> None:
        assert 0 <= time.monotonic_ns() - began_ns < 10e9
        waits.append(step_s)

    monkeypatch.setattr(admin_forms, "wait_for_step_blocking", noted)
    make_user(email="mia@example.com", is_staff=True)
    make_user(email="gone@example.com", is_staff=True, is_active=False)
    jobs = hash_pool().stats().completed
    answer = client.post(reverse("admin:login"), {"username": email, "password": "wrong"})
    assert hash_pool().stats().completed == jobs + 1
    (error,) = answer.context["form"].non_field_errors()
    assert error.startswith("Please enter the correct e-mail address and password for a staff account")
    assert waits == [REFUSAL_STEP_S]
    right = client.post(reverse("admin:login"), {"username": "mia@example.com", "password": PASSWORD})
    assert right.status_code == 302
    assert waits == [REFUSAL_STEP_S]  # who is let in does not wait


def test_overlong_password_at_sign_in_is_an_error_of_the_form(client: Client) -> None:
    """More than 1,024 characters are refused before any hashing, for known and unknown addresses alike."""
    jobs = hash_pool().stats().completed
    answer = client.post(reverse("admin:login"), {"username": "a@example.com", "password": "x" * 1025})
    assert answer.status_code == 200
    assert hash_pool().stats().completed == jobs


def test_busy_hash_pool_is_said_in_the_admin(client: Client, manager: User, root: User, full_pool: None) -> None:
    """Sign-in, adding a user and setting a password say "busy" and change nothing, instead of failing with a 500."""
    answer = Client().post(reverse("admin:login"), {"username": root.email, "password": PASSWORD})
    assert answer.status_code == 200
    assert b"The server is busy" in answer.content
    passwords = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
    for path, data in (
        (ADD, {"email": "a@example.com", "name": ""}),
        (f"{LIST}{manager.pk}/password/", {"set-password": ""}),
    ):
        answer = client.post(path, passwords | data, follow=True)
        assert b"The server is busy" in answer.content, path
    assert User.objects.count() == 2


def test_list_searches_filters_and_costs_a_fixed_number_of_queries(
    client: Client, root: User, make_user: MakeUser, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """Part of the address or of the name, any case; the list does not query once for each row."""
    role = Group.objects.create(name="editors")
    alice = make_user(email="Alice@Example.com", name="Alice Liddell")
    alice.groups.add(role)

    def shown(query: str) -> set[str]:
        return {user.email for user in client.get(f"{LIST}?{query}").context["cl"].result_list}

    assert shown("q=ALICE@ex") == shown("q=liddell") == shown("q=LIDD") == {alice.email}
    assert shown("q=lice%40ex") == {alice.email}
    assert shown("q=example.com") == {alice.email, root.email}
    assert shown("q=example.com+liddell") == {alice.email}
    assert shown("q=%25") == shown("q=example_com") == set()
    assert shown("is_superuser__exact=1") == {root.email}
    assert shown(f"groups__id__exact={role.pk}") == {alice.email}
    assert shown("email_verified_at__isempty=1") == {alice.email, root.email}
    with django_assert_num_queries(6):  # session, its user, roles of the filter, count, page, roles of the page
        client.get(LIST)
    for n in range(10):
        make_user(name=f"n{n}").groups.add(role)
    with django_assert_num_queries(6):
        client.get(LIST)


def test_add_user_applies_address_and_password_rules(client: Client, root: User) -> None:
    """Policy, folding and uniqueness hold on the add page; a user without password is possible."""
    passwords = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
    assert client.get(ADD).status_code == 200
    for changes, field in (
        ({"email": "ROOT@example.com"}, "email"),
        ({"email": "\u212aate@example.com"}, "email"),
        ({"email": "liddell@example.com", "password1": "liddell18521862", "password2": "liddell18521862"}, "password1"),
        ({"email": "a@example.com", "name": "a\x00b"}, "name"),
    ):
        answer = client.post(ADD, passwords | {"name": ""} | changes)
        assert field in answer.context["adminform"].form.errors, changes
    answer = client.post(ADD, passwords | {"email": "Mia@Example.com", "name": "Mia"})
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    mia = User.objects.get_by_natural_key("mia@example.com")
    assert answer.headers["location"].startswith(_page(mia))
    assert mia.check_password(NEW_PASSWORD)
    client.post(ADD, {"email": "bare@example.com", "name": "", "usable_password": "false"})
    assert not User.objects.get_by_natural_key("bare@example.com").has_usable_password()


def test_user_page_edits_and_shows(client: Client, root: User, make_user: MakeUser) -> None:
    """Epoch and times are shown and cannot be edited; the hash is masked; edits are saved and announced."""
    user, role = make_user(), Group.objects.create(name="editors")
    tabs = ("overview", "profile", "rights", "record")
    page = "".join(client.get(f"{_page(user)}?tab={tab}").content.decode() for tab in tabs)
    assert "Session epoch" in page
    assert user.password.split("$")[-1] not in page
    assert not re.search(r'name="(session_epoch|created_at|last_login|email_verified_at|password)"', page)
    Invalidation.objects.all().delete()
    changes = {"name": "New", "email": "New@example.com", "groups": [role.pk], "session_epoch": 9}
    assert client.post(_page(user), _form(user, **changes)).status_code == 302
    after = User.objects.get(pk=user.pk)
    assert (after.name, after.email_key, after.session_epoch) == ("New", "new@example.com", 0)
    assert list(after.groups.all()) == [role]
    assert sub_tag(user.pk) in Invalidation.objects.values_list("tag", flat=True)
    assert client.post(_page(user), _form(user, email="ROOT@example.com")).status_code == 200


def test_deactivation_and_password_on_the_page_end_all_sessions(
    client: Client, root: User, make_user: MakeUser
) -> None:
    """Unticking "active", setting a password and taking it away each raise the epoch."""
    user = make_user()
    assert client.post(_page(user), _form(user, is_active=None)).status_code == 302
    assert User.objects.get(pk=user.pk).session_epoch == 1
    path = f"{LIST}{user.pk}/password/"
    weak = {"password1": "short", "password2": "short", "usable_password": "true", "set-password": ""}
    assert client.post(path, weak).status_code == 200
    strong = weak | {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    assert client.post(path, strong).status_code == 302
    assert User.objects.get(pk=user.pk).session_epoch == 2
    assert client.post(path, {"usable_password": "false", "unset-password": ""}).status_code == 302
    after = User.objects.get(pk=user.pk)
    assert (after.session_epoch, after.has_usable_password()) == (3, False)


def test_actions_take_effect_and_say_so(client: Client, root: User, make_user: MakeUser) -> None:
    """End sessions and deactivate ask first; all three act, announce, report, and leave a log entry."""
    one, other = make_user(), make_user()
    for action in ("end_all_sessions", "deactivate"):
        question = _act(client, action, one, other, confirmed=False)
        assert one.email in question.content.decode()
        assert User.objects.get(pk=one.pk).session_epoch == 0
    Invalidation.objects.all().delete()
    assert b"All sessions ended: 2 users." in _act(client, "end_all_sessions", one, other).content
    assert {user.session_epoch for user in User.objects.filter(pk__in=[one.pk, other.pk])} == {1}
    assert set(Invalidation.objects.values_list("tag", flat=True)) == {sub_tag(one.pk), sub_tag(other.pk)}
    assert b"Deactivated: 1 user." in _act(client, "deactivate", one).content
    after = User.objects.get(pk=one.pk)
    assert (after.is_active, after.session_epoch) == (False, 2)
    assert b"Activated: 1 user." in _act(client, "activate", one, confirmed=False).content
    assert User.objects.get(pk=one.pk).is_active
    history = client.get(f"{LIST}{one.pk}/history/").content
    assert b"Deactivated." in history
    assert b"All sessions ended." in history


def test_ending_ones_own_sessions_ends_the_admin_session_too(client: Client, root: User) -> None:
    """Everywhere includes this site."""
    client.post(LIST, {"action": "end_all_sessions", "_selected_action": [str(root.pk)], "confirmed": "yes"})
    assert client.get(LIST).status_code == 302


def test_nobody_deactivates_themselves_by_the_list(client: Client, root: User, make_user: MakeUser) -> None:
    """The action leaves out anybody who runs it, with a message."""
    user = make_user()
    answer = _act(client, "deactivate", root, user)
    assert b"Left as they were: 1 user" in answer.content
    assert User.objects.get(pk=root.pk).is_active
    assert not User.objects.get(pk=user.pk).is_active


@pytest.mark.parametrize("changes", [{"is_active": None}, {"is_superuser": None}])
def test_last_superuser_cannot_be_disabled(client: Client, root: User, changes: dict[str, None]) -> None:
    """The page refuses to leave nobody in charge."""
    answer = client.post(_page(root), _form(root, **changes))
    assert answer.status_code == 200
    assert b"last active superuser" in answer.content
    assert User.objects.filter(is_active=True, is_superuser=True).exists()


def test_last_superuser_cannot_be_deleted(client: Client, root: User, make_user: MakeUser) -> None:
    """Neither on the user's page nor in the list, alone or among others."""
    user = make_user()
    assert b"last active superuser" in client.post(f"{LIST}{root.pk}/delete/", {"post": "yes"}).content
    selected = {"action": "delete_selected", "_selected_action": [str(root.pk), str(user.pk)], "post": "yes"}
    assert b"last active superuser" in client.post(LIST, selected).content
    assert User.objects.count() == 2


def test_nobody_deletes_themselves(client: Client, root: User, make_user: MakeUser) -> None:
    """As nobody deactivates themselves: a slip would lock the caller out; a colleague can do it."""
    colleague = make_user(is_superuser=True)
    assert b"this is you; ask a colleague" in client.post(f"{LIST}{root.pk}/delete/", {"post": "yes"}).content
    selected = {"action": "delete_selected", "_selected_action": [str(root.pk)], "post": "yes"}
    assert b"this is you; ask a colleague" in client.post(LIST, selected).content
    assert client.post(f"{LIST}{colleague.pk}/delete/", {"post": "yes"}).status_code == 302
    assert list(User.objects.all()) == [root]


def test_deleting_users_works(client: Client, root: User, make_user: MakeUser) -> None:
    """Ordinary users can be deleted one by one and together, and are announced."""
    one, two, three = make_user(), make_user(), make_user()
    Invalidation.objects.all().delete()
    assert client.post(f"{LIST}{one.pk}/delete/", {"post": "yes"}).status_code == 302
    selected = {"action": "delete_selected", "_selected_action": [str(two.pk), str(three.pk)], "post": "yes"}
    assert client.post(LIST, selected).status_code == 302
    assert list(User.objects.all()) == [root]
    assert Invalidation.objects.count() == 3


def test_managers_cannot_gain_rights(client: Client, manager: User, make_user: MakeUser) -> None:
    """Without being a superuser: no staff or superuser tick, no single permission, no role beyond one's own."""
    user, mighty, modest = make_user(), Group.objects.create(name="mighty"), Group.objects.create(name="modest")
    mighty.permissions.set(Permission.objects.filter(codename="view_signingkey"))
    modest.permissions.set(Permission.objects.filter(codename="view_user"))
    page = client.get(f"{_page(user)}?tab=rights").content.decode()
    assert not re.search(r'name="(is_staff|is_superuser|user_permissions)"', page)
    assert "modest" in page
    assert "mighty" not in page
    everything = [permission.pk for permission in Permission.objects.all()]
    ticks = {"is_staff": "on", "is_superuser": "on", "user_permissions": everything, "groups": [modest.pk]}
    for target in (user, manager):
        assert client.post(_page(target), _form(target, **ticks)).status_code == 302
    assert client.post(_page(user), _form(user, groups=[mighty.pk])).status_code == 200
    assert not User.objects.filter(is_superuser=True).exists()
    assert not User.objects.get(pk=user.pk).is_staff
    assert not user.user_permissions.exists()
    assert list(user.groups.all()) == [modest]


def test_managers_cannot_take_over_mightier_accounts(client: Client, manager: User, make_user: MakeUser) -> None:
    """People with rights the manager lacks are shown read-only: no new address or password, no deleted superuser."""
    boss = make_user(email="boss@example.com", is_superuser=True, is_staff=True)
    keeper = make_user("tokens.view_signingkey", email="keeper@example.com")
    for user in (boss, keeper):
        assert client.get(_page(user)).status_code == 200
        assert client.post(_page(user), _form(user, email="mine@example.com")).status_code == 403
        data = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true", "set-password": ""}
        assert client.post(f"{LIST}{user.pk}/password/", data).status_code == 403
    assert client.post(f"{LIST}{boss.pk}/delete/", {"post": "yes"}).status_code == 403
    client.post(LIST, {"action": "delete_selected", "_selected_action": [str(boss.pk)], "post": "yes"})
    for action in ("deactivate", "end_all_sessions"):
        assert b"Nothing to do. Left as they are: 1 user" in _act(client, action, boss).content
    after = User.objects.get(pk=boss.pk)
    assert (after.is_active, after.session_epoch) == (True, 0)
    assert _act(client, "deactivate", keeper).status_code == 200
    assert not User.objects.get(pk=keeper.pk).is_active, "stopping somebody is no escalation"


def test_a_deactivated_mightier_account_cannot_be_taken_over(
    client: Client, manager: User, make_user: MakeUser
) -> None:
    """Deactivating gains nothing: address, password, activation, roles and deletion stay out of the manager's reach."""
    keeper = make_user("tokens.view_signingkey", email="keeper@example.com")
    role = Group.objects.create(name="keys")
    role.permissions.add(Permission.objects.get(codename="view_signingkey"))
    keeper.groups.add(role)
    _act(client, "deactivate", keeper)
    data = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true", "set-password": ""}
    assert client.post(f"{LIST}{keeper.pk}/password/", data).status_code == 403
    assert client.post(_page(keeper), _form(keeper, is_active="on")).status_code == 403
    assert client.post(f"{LIST}{keeper.pk}/delete/", {"post": "yes"}).status_code == 403
    client.post(LIST, {"action": "delete_selected", "_selected_action": [str(keeper.pk)], "post": "yes"})
    assert b"Nothing to do. Left as they are: 1 user" in _act(client, "activate", keeper).content
    after = User.objects.get(pk=keeper.pk)
    assert not after.is_active
    assert after.check_password(PASSWORD)
    assert list(after.groups.all()) == [role]


def test_roles_cannot_be_made_mightier_than_their_maker(client: Client, manager: User) -> None:
    """Permissions the manager lacks are not offered, and a role that has them is read-only."""
    mighty = Group.objects.create(name="mighty")
    forbidden = Permission.objects.get(codename="view_signingkey")
    allowed = Permission.objects.get(codename="view_user")
    mighty.permissions.add(forbidden)
    add, change = "/admin/accounts/role/add/", f"/admin/accounts/role/{mighty.pk}/change/"
    assert client.post(add, {"name": "r", "permissions": [forbidden.pk]}).status_code == 200
    assert client.post(add, {"name": "r", "permissions": [allowed.pk]}).status_code == 302
    assert client.post(change, {"name": "mighty", "permissions": []}).status_code == 403
    assert client.post(f"/admin/accounts/role/{mighty.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Group.objects.count() == 2


def test_roles_page_counts_and_checks_names(client: Client, root: User, make_user: MakeUser) -> None:
    """The list shows members and permissions; a name that could not stand in a path or header is refused."""
    role = Group.objects.create(name="editors")
    role.permissions.set(Permission.objects.all()[:3])
    role.user_set.set([make_user(), make_user()])
    page = re.sub(r"\s+", "", client.get("/admin/accounts/role/").content.decode())
    assert 'field-members">2<' in page
    assert 'field-granted">3<' in page
    assert client.post("/admin/accounts/role/add/", {"name": "a,b"}).status_code == 200
    assert Group.objects.count() == 1


def test_views_only_staff_see_no_buttons(client: Client, make_user: MakeUser) -> None:
    """With the right to view users only, nothing can be changed by page, action or password form."""
    viewer, user = make_user(VIEW, is_staff=True), make_user(email_verified_at=clock.now())
    client.force_login(viewer)
    assert client.get(LIST).status_code == 200
    assert client.get(_page(user)).status_code == 200
    assert client.post(_page(user), _form(user, name="x")).status_code == 403
    assert client.get(f"{LIST}{user.pk}/password/").status_code == 403
    _act(client, "deactivate", user)
    assert User.objects.get(pk=user.pk).is_active


def test_names_read_well(client: Client, root: User) -> None:
    """The index speaks of people and roles, and the pages render with their whole content."""
    index = client.get("/admin/").content.decode()
    assert "People and roles" in index
    assert "Users" in index


def test_inlines_are_open_to_other_applications() -> None:
    """Tokens append the sessions of a user without accounts knowing of them."""
    from accounts.admin.users import UserAdmin  # noqa: PLC0415 - after the registry is complete

    assert [inline.__name__ for inline in UserAdmin.inlines] == ["PendingInline", "SessionInline"]
