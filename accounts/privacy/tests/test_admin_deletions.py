"""Accounts being deleted, in the admin: found, shown, restored; by those who may."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.db import transaction
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from accounts.audit import recording as audit
from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event
from accounts.conftest import MakeUser
from accounts.errors import DeletionPending
from accounts.mfa.totp.models import TotpFactor
from accounts.privacy import units as deletions
from accounts.staff import units as staff_units
from accounts.users.models import User
from ironauth.infrastructure.core import clock

pytestmark = [pytest.mark.django_db, pytest.mark.storage]

LIST = "/admin/accounts/user/"


@pytest.fixture
def leaving(make_user: MakeUser) -> User:
    """Make somebody who has deleted their account."""
    return deleted(make_user(email="leaving@example.com"))


def deleted(user: User) -> User:
    """Delete the account as its owner does."""
    with transaction.atomic():
        deletions.request(user_id=user.pk, old=user.password, session_id=None)
    return user


def act(client: Client, action: str, *users: User, path: str = LIST) -> str:
    """Do ``action`` to these users and return the page that follows."""
    chosen = {"action": action, "_selected_action": [str(user.pk) for user in users], "confirmed": "yes"}
    page: str = client.post(path, chosen, follow=True).content.decode()
    return page


def offers(client: Client, user: User) -> set[str]:
    """Return the actions the person's page offers."""
    return set(re.findall(r'name="action" value="(\w+)"', client.get(f"{LIST}{user.pk}/change/").content.decode()))


def test_they_are_found_and_shown(client: Client, root: User, leaving: User) -> None:
    """The filter parts them from the others, their former address finds them there, and the page tells it."""
    for query, found in (
        ({"being_deleted": "yes"}, [leaving]),
        ({"being_deleted": "no"}, [root]),
        ({"being_deleted": "yes", "q": "LEAVING@ex"}, [leaving]),
        ({"being_deleted": "yes", "q": "somebody"}, []),
        ({"q": "leaving@ex"}, [leaving]),
        ({"q": "example.com leaving@ex"}, [leaving]),
        ({"q": "example.org leaving@ex"}, []),
        ({"being_deleted": "no", "q": "leaving@ex"}, []),
        ({"q": "root@ex"}, [root]),
    ):
        assert list(client.get(LIST, query).context["cl"].result_list) == found, query
    page = client.get(f"{LIST}{leaving.pk}/change/").content.decode()
    assert "leaving@example.com" in page
    assert 'name="_save"' not in page
    assert "Being deleted" not in client.get(f"{LIST}{root.pk}/change/").content.decode()


def test_staff_restore(client: Client, root: User, leaving: User, make_user: MakeUser) -> None:
    """The account is as it was, its address no better proved than before; trail and log say who did it."""
    page = act(client, "restore", leaving, make_user(), path=f"{LIST}?being_deleted=yes")
    assert "Restored: 1 user." in page
    assert "Left as they were" not in page  # the other one is not on this list
    leaving.refresh_from_db()
    assert (leaving.email, leaving.is_active, leaving.email_verified_at) == ("leaving@example.com", True, None)
    event = AuditEvent.objects.get(event="account_restored")
    assert (event.actor_id, event.user_id) == (root.pk, leaving.pk)
    assert LogEntry.objects.get().object_id == str(leaving.pk)
    assert "Left as they were: 1 user (not being deleted" in act(client, "restore", leaving)


def test_staff_restore_from_the_persons_page(client: Client, root: User, leaving: User) -> None:
    """The one thing the page offers; it leads back there, where the usual ones are offered again."""
    page = f"{LIST}{leaving.pk}/change/"
    assert offers(client, leaving) == {"restore"}
    chosen = {"action": "restore", "_selected_action": [str(leaving.pk)], "page": "yes"}
    answer = client.post(LIST, chosen, follow=True)
    assert answer.redirect_chain[-1][0] == page
    assert "Restored: 1 user." in answer.content.decode()
    leaving.refresh_from_db()
    assert (leaving.email, leaving.is_active) == ("leaving@example.com", True)
    assert AuditEvent.objects.get(event="account_restored").actor_id == root.pk
    assert {"send_reset", "require_password_change", "end_all_sessions", "deactivate"} <= offers(client, leaving)
    assert "restore" not in offers(client, leaving)


def test_who_may_not_restore_is_not_offered_it(client: Client, manager: User, make_user: MakeUser) -> None:
    """Neither who may only look, nor for a person with rights the caller lacks."""
    boss, leaving = make_user("accounts.reset_mfa", is_staff=True), deleted(make_user())
    deleted(boss)
    assert offers(client, leaving) == {"restore"}
    assert offers(client, boss) == set()
    client.force_login(make_user("accounts.view_user", is_staff=True))
    assert offers(client, leaving) == set()


@pytest.mark.parametrize("action", ["require_password_change", "accept_password", "end_all_sessions", "send_reset"])
def test_nothing_else_is_done_to_them(client: Client, root: User, leaving: User, action: str) -> None:
    """Not from the list either; anybody who has to choose another password when they leave, has when they come back."""
    User.objects.filter(pk=leaving.pk).update(must_change_password=action == "accept_password")
    before = User.objects.values().get(pk=leaving.pk)
    assert "Left as they are: 1 user" in act(client, action, leaving)
    assert User.objects.values().get(pk=leaving.pk) == before
    with pytest.raises(DeletionPending), transaction.atomic():
        staff_units.require_password_change([leaving.pk], root.pk)


def test_what_staff_cannot_restore(client: Client, manager: User, make_user: MakeUser) -> None:
    """Neither who holds more rights, nor who would come back to an address that is taken."""
    boss, moved = make_user(is_superuser=True), make_user(email="moved@example.com")
    make_user(is_superuser=True)
    deleted(boss)
    deleted(moved)
    make_user(email="MOVED@example.com")
    assert "Left as they were: 2 users" in act(client, "restore", boss, moved)
    assert not User.objects.filter(pk__in=[boss.pk, moved.pk], is_active=True).exists()


def test_activating_is_no_way_back(client: Client, root: User, leaving: User) -> None:
    """Active under the stand-in, the account would have no owner: it is left as it is."""
    assert "Left as they are: 1 user" in act(client, "activate", leaving)
    leaving.refresh_from_db()
    assert not leaving.is_active


def test_the_viewer_cannot_restore(client: Client, leaving: User, make_user: MakeUser) -> None:
    """It takes the right to change users."""
    client.force_login(make_user("accounts.view_user", is_staff=True))
    act(client, "restore", leaving)
    leaving.refresh_from_db()
    assert not leaving.is_active


def test_second_factors_stay(client: Client, root: User, leaving: User) -> None:
    """Taken away now, nobody would hear of it, and after the link's click the password alone would sign in."""
    TotpFactor.objects.create(user=leaving, sealed=b"", master_key_id="t1", confirmed_at=clock.now())
    assert "Left as they are: 1 user" in act(client, "reset_mfa", leaving)
    assert TotpFactor.objects.exists()
    assert "Remove second factors" not in client.get(f"{LIST}{leaving.pk}/change/").content.decode()


def test_the_stand_in_is_on_no_page(client: Client, root: User, leaving: User) -> None:
    """Staff read since when the account is being deleted: as heading, in lists, in trails, in questions."""
    since = f"Deleted account, since {clock.now():%Y-%m-%d}"
    audit.record(Event.SIGN_IN, user_id=root.pk, actor_id=leaving.pk)
    pages = {
        "list": client.get(LIST),
        "page": client.get(f"{LIST}{leaving.pk}/change/"),
        "trail": client.get("/admin/accounts/auditevent/"),
        "another's trail": client.get(f"{LIST}{root.pk}/change/"),
        "deletion": client.get(f"{LIST}{leaving.pk}/delete/"),
        "deletions": client.post(LIST, {"action": "delete_selected", "_selected_action": [str(leaving.pk)]}),
    }
    for name, answer in pages.items():
        page = answer.content.decode()
        assert answer.status_code == 200, name
        assert "deleted.invalid" not in page.replace("<wbr>", ""), name
        assert since in page, name
    assert pages["page"].content.decode().count(since) >= 3  # title, breadcrumb, heading
    assert "root@example.com" in pages["list"].content.decode()
    assert (
        'name="email" value="root@example.com"' in client.get(f"{LIST}{root.pk}/change/?tab=profile").content.decode()
    )


def test_a_deleted_account_describes_itself_without_a_query(
    root: User, leaving: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """Since when, where that has been fetched with the account."""
    plain, joined = User.objects.get(pk=leaving.pk), User.objects.select_related("pending_deletion").get(pk=leaving.pk)
    with django_assert_num_queries(0):
        assert (str(plain), str(root)) == ("Deleted account", "root@example.com")
        assert str(joined) == f"Deleted account, since {clock.now():%Y-%m-%d}"
        assert plain.get_short_name() == "Deleted account"
