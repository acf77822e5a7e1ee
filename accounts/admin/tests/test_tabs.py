"""A person's page: what is asked daily in one order, forms behind tabs, and a form that changes its own tab alone."""

import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group
from django.test import Client

from accounts.admin.users import UserAdmin
from accounts.audit.models import AuditEvent
from accounts.conftest import MakeUser
from accounts.mfa.kept_devices.models import KeptDevice
from accounts.profile import FIELDS
from accounts.users.models import User

pytestmark = pytest.mark.django_db

TABS = ("overview", "profile", "rights", "record")


@pytest.fixture
def root(client: Client, make_user: MakeUser) -> User:
    """A superuser, signed in."""
    user = make_user(email="root@example.com", is_superuser=True, is_staff=True)
    client.force_login(user)
    return user


def page(user: User, tab: str = "") -> str:
    return f"/admin/accounts/user/{user.pk}/change/{f'?tab={tab}' if tab else ''}"


def names(text: str) -> set[str]:
    """Return the fields that a page's own form has, but for those of every form."""
    form = text[text.index('id="user_form"') :]
    found = set(re.findall(r'<(?:input|select|textarea)[^>]* name="(\w+)"', form[: form.index("</form>")]))
    return found - {"csrfmiddlewaretoken", "usable_password"}


def test_what_is_asked_comes_first(client: Client, root: User, make_user: MakeUser) -> None:
    """Verdict, tabs, status, ways in, sessions, events, acts; no form to save is between them."""
    text = client.get(page(make_user())).content.decode()
    order = [
        'class="verdict', '<nav class="tabs"', ">Status</h2>", ">Ways in</h2>", ">Live sessions<", 'id="trail-heading"',
        'id="acts-heading"', 'value="End all sessions"', ">Delete…</a>",
    ]  # fmt: skip
    places = [text.index(one) for one in order]
    assert places == sorted(places)
    for name in ("_save", "_continue", "email", "is_active", "user_permissions"):
        assert f'name="{name}"' not in text, name


def test_each_tab_has_its_fields_and_is_named(client: Client, root: User, make_user: MakeUser) -> None:
    """One link is the current page, in a navigation with a name; an unknown tab is the first."""
    user = make_user()
    fields = {
        "profile": {"email", "name", *FIELDS},
        "rights": {"is_active", "is_staff", "is_superuser", "groups", "user_permissions"},
        "overview": set(), "record": set(), "nothing": set(),
    }  # fmt: skip
    for tab, expected in fields.items():
        text = client.get(page(user, tab)).content.decode()
        saves = {"_save", "_continue", "_addanother"} if expected else set()
        found = {name for name in names(text) if "FORMS" not in name}
        assert found == expected | saves, tab
        (current,) = re.findall(r'<a href="\?tab=(\w+)" aria-current="page">', text)
        assert current == (tab if tab in TABS else "overview")
        assert re.findall(r'<a href="\?tab=(\w+)"', text) == list(TABS)
        assert 'class="verdict' in text


def test_a_tab_changes_its_own_fields_alone(client: Client, root: User, make_user: MakeUser) -> None:
    """What another tab has stays, also a tick that is not sent; what another tab's form would set is not set."""
    user, role = make_user(is_staff=True), Group.objects.create(name="editors")
    user.groups.add(role)
    sent: dict[str, Any] = {"email": user.email, "name": "New", "is_superuser": "on", "_continue": "1"}
    answer = client.post(page(user, "profile"), sent)
    assert (answer.status_code, answer.headers["location"]) == (302, page(user, "profile"))
    user.refresh_from_db()
    assert (user.name, user.is_active, user.is_staff, user.is_superuser) == ("New", True, True, False)
    assert list(user.groups.all()) == [role]
    assert client.post(page(user, "rights"), {"is_active": "on", "name": "Other"}).status_code == 302
    user.refresh_from_db()
    assert (user.name, user.is_active, user.is_staff) == ("New", True, False)
    assert not user.groups.exists()
    for tab in ("overview", "record"):
        client.post(page(user, tab), {"name": "Other", "is_superuser": "on"})
    user.refresh_from_db()
    assert (user.name, user.is_active, user.is_superuser) == ("New", True, False)
    changed = [one.details["fields"] for one in AuditEvent.objects.filter(event="user_changed").order_by("id")]
    assert changed == [["name"], ["groups", "is_staff"]]


def test_an_error_stays_on_its_tab(client: Client, root: User, make_user: MakeUser) -> None:
    """With what was typed, next to its field."""
    answer = client.post(page(make_user(), "profile"), {"email": "no address", "name": "Pia"})
    text = answer.content.decode()
    assert answer.status_code == 200
    assert 'value="no address"' in text
    assert 'value="Pia"' in text
    assert re.search(r'errorlist" id="id_email_error"', text)
    assert 'tab=profile" aria-current="page"' in text


def test_oneself_is_not_locked_out_by_a_tab(client: Client, root: User) -> None:
    """The rules of the whole form hold for the one of a tab."""
    answer = client.post(page(root, "rights"), {"is_staff": "on", "is_superuser": "on"})
    assert answer.status_code == 200
    assert User.objects.get(pk=root.pk).is_active


def test_rows_of_other_applications(
    client: Client, root: User, make_user: MakeUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can be changed is on the first tab with a form, and not lost beside what is only shown."""

    class Devices(admin.TabularInline):  # type: ignore[type-arg] # Django's is not generic at run time
        model = KeptDevice
        fields = ("user_agent",)
        verbose_name_plural = "Things of another application"

    monkeypatch.setattr(UserAdmin, "inlines", [*UserAdmin.inlines, Devices])
    user = make_user()
    seen = [tab for tab in TABS if "Things of another application" in client.get(page(user, tab)).content.decode()]
    assert seen == ["profile"]
