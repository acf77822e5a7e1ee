"""Accounts being deleted, in the admin: found, shown, restored; by those who may."""

import pytest
from django.contrib.admin.models import LogEntry
from django.db import transaction
from django.test import Client

from accounts import deletions
from accounts.audit_models import AuditEvent
from accounts.mfa.models import TotpFactor
from accounts.models import User
from accounts.tests.conftest import MakeUser
from ironauth.infrastructure import clock

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


def test_they_are_found_and_shown(client: Client, root: User, leaving: User) -> None:
    """The filter parts them from the others, their former address finds them there, and the page tells it."""
    for query, found in (
        ({"being_deleted": "yes"}, [leaving]),
        ({"being_deleted": "no"}, [root]),
        ({"being_deleted": "yes", "q": "LEAVING@ex"}, [leaving]),
        ({"being_deleted": "yes", "q": "somebody"}, []),
        ({"q": "leaving@ex"}, []),
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
    """Active under the stand-in, the account would be nobody's: it is left as it is."""
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
