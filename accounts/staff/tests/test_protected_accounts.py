"""Accounts that rows of another program refer to: deleting one fails with the reason, changes nothing, and is no fault.

The rows are in a table that Django knows nothing of, so that the database alone objects, when a transaction ends.
"""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.db.models import ProtectedError
from django.test import Client
from pytest_django import Settings
from structlog.testing import capture_logs

from accounts.audit.models import AuditEvent
from accounts.conftest import PASSWORD, MakeUser, SignIn
from accounts.privacy import queries as deletion_queries
from accounts.privacy import units as deletions
from accounts.privacy.models import PendingDeletion
from accounts.users.models import User
from ironauth.infrastructure.core import clock

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]

DAY = 86_400
LIST = "/admin/accounts/user/"
SAID = "Rows of another application refer to this account"

Refer = Callable[[User], None]


@pytest.fixture
def refer() -> Iterator[Refer]:
    """Give a way to send somebody an invoice, in a table of another program."""
    kind = User._meta.pk.db_type(connection)
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE invoice (owner {kind} REFERENCES {User._meta.db_table} (id) DEFERRABLE INITIALLY DEFERRED)"
        )

    def insert(user: User) -> None:
        with connection.cursor() as cursor:
            owner = User._meta.pk.get_db_prep_value(user.pk, connection)
            cursor.execute("INSERT INTO invoice (owner) VALUES (%s)", [owner])

    yield insert
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE invoice")


def is_there(user: User) -> bool:
    """Tell whether the account is as it was, and no event says that it is gone."""
    gone = AuditEvent.objects.filter(user_id=user.pk, event__in=("user_deleted", "account_deleted", "account_purged"))
    return User.objects.filter(pk=user.pk, is_active=True).exists() and not gone.exists()


async def test_staff_hear_of_it(
    api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn, refer: Refer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """409 by the API, whether the database objects or a model of Django's; others are deleted."""
    root, kept, free = [await sync_to_async(make_user)(is_superuser=one) for one in (True, False, False)]
    await sync_to_async(refer)(kept)
    headers = await sign_in(root)
    assert (await api.delete(f"/api/v1/users/{free.pk}", headers=headers)).status_code == 204
    for _ in range(2):
        answer = await api.delete(f"/api/v1/users/{kept.pk}", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "user_protected")
        assert answer.json()["detail"].startswith(SAID)
        assert await sync_to_async(is_there)(kept)
        monkeypatch.setattr(deletion_queries, "delete", protect)


def protect(user: User, **_: object) -> None:
    """Refuse as a foreign key with ``on_delete=PROTECT`` does."""
    raise ProtectedError("An invoice is about this person.", set())


@pytest.mark.parametrize("days", [0, 7])
async def test_the_owner_hears_of_it(
    api: httpx.AsyncClient, make_user: MakeUser, sign_in: SignIn, refer: Refer, settings: Settings, days: int
) -> None:
    """409 without days of grace; with them the account ends as any other, and the purge finds out."""
    settings.IRONAUTH_DELETION_GRACE_DAYS = days
    user = await sync_to_async(make_user)()
    await sync_to_async(refer)(user)
    headers = await sign_in(user)
    answer = await api.request("DELETE", "/api/v1/access/me", json={"password": PASSWORD}, headers=headers)
    assert answer.status_code == (204 if days else 409)
    if not days:
        assert answer.json()["code"] == "user_protected"
        assert await sync_to_async(is_there)(user)
        assert (await api.get("/api/v1/access/me", headers=headers)).status_code == 200


def test_the_purge_goes_on_with_the_others(make_user: MakeUser, refer: Refer) -> None:
    """The one referred to is told of, tried again the next day, and holds up nobody, whatever the order."""
    people = [make_user() for _ in range(3)]
    for person in people:
        with transaction.atomic():
            deletions.request(user_id=person.pk, old=person.password, session_id=None)
    refer(people[0])
    with clock.shifted(8 * DAY), capture_logs() as logs:
        assert [deletions.purge_due(2), deletions.purge_due(2), deletions.purge_due(2)] == [
            (1, 1, 0),
            (1, 0, 0),
            (0, 0, 0),
        ]
    (line,) = (line for line in logs if line["event"] == "account_not_purged")
    assert (line["user_id"], line["cause"]) == (str(people[0].pk), "IntegrityError")
    assert [row.pk for row in PendingDeletion.objects.all()] == [people[0].pk]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM invoice")
    with clock.shifted(9 * DAY - 60):
        assert deletions.purge_due(2) == (0, 0, 0)
    with clock.shifted(9 * DAY + 60):
        assert deletions.purge_due(2) == (1, 0, 0)


def test_the_admin_says_so(client: Client, root: User, make_user: MakeUser, refer: Refer) -> None:
    """On the person's page and on the list, where all or none go; nothing is logged of what was not done."""
    kept, free = make_user(), make_user()
    refer(kept)
    pages = [
        client.post(f"{LIST}{kept.pk}/delete/", {"post": "yes"}, follow=True),
        client.post(
            LIST,
            {"action": "delete_selected", "_selected_action": [str(kept.pk), str(free.pk)], "post": "yes"},
            follow=True,
        ),
    ]
    for page in pages:
        assert page.status_code == 200
        assert f"Nothing was deleted. {SAID}" in page.content.decode()
    assert is_there(kept)
    assert is_there(free)
    assert not LogEntry.objects.exists()
    page = client.post(f"{LIST}{free.pk}/delete/", {"post": "yes"}, follow=True)
    assert "was deleted successfully" in page.content.decode()


def by_admin(client: Client, user: User) -> None:
    client.post(f"{LIST}{user.pk}/delete/", {"post": "yes"})


def by_list(client: Client, user: User) -> None:
    client.post(LIST, {"action": "delete_selected", "_selected_action": [str(user.pk)], "post": "yes"})


def by_purge(client: Client, user: User) -> None:
    with transaction.atomic():
        deletions.request(user_id=user.pk, old=user.password, session_id=None)
    with clock.shifted(8 * DAY):
        deletions.purge_due(1)


def in_a_shell(client: Client, user: User) -> None:
    user.delete()


@pytest.mark.parametrize("way", [by_admin, by_list, by_purge, in_a_shell], ids=lambda way: str(way.__name__))
def test_the_admins_log_forgets_the_address(
    client: Client, root: User, make_user: MakeUser, way: Callable[[Client, User], None]
) -> None:
    """Every entry about somebody who is gone stays, the last one too, and names nobody; others are left alone."""
    gone, stays = make_user(email="gone@example.com"), make_user(email="stays@example.com")
    LogEntry.objects.log_actions(root.pk, [gone, stays], ADDITION, change_message="Added.")
    other: Any = {"content_type": ContentType.objects.get_for_model(LogEntry), "object_id": str(gone.pk)}
    LogEntry.objects.create(user=root, action_flag=ADDITION, object_repr="gone@example.com?", **other)
    key = str(gone.pk)
    way(client, gone)
    assert not User.objects.filter(pk=key).exists()
    entries = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(User))
    about = [entry.object_repr for entry in entries.filter(object_id=key)]
    assert set(about) == {"deleted user"}
    assert len(about) == (2 if way in (by_admin, by_list) else 1)
    assert entries.get(object_id=str(stays.pk)).object_repr == "stays@example.com"
    assert LogEntry.objects.get(object_repr="gone@example.com?").object_id == key
