"""Deleting a user by fixed queries is deleting a user."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.db import models, transaction
from django.db.models.signals import post_delete, pre_delete

from accounts.privacy import queries as deletion_queries
from accounts.users.invariants import sub_tag
from accounts.users.models import User
from ironauth.infrastructure.models import Invalidation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage]


@pytest.fixture
def heard() -> Iterator[list[Any]]:
    """Collect what the deletion signals say of users."""
    said: list[Any] = []

    def note(signal: models.signals.ModelSignal, instance: User, using: str, origin: object, **_: object) -> None:
        said.append((signal, instance.pk, using, origin))

    for signal in (pre_delete, post_delete):
        signal.connect(note, sender=User)
    yield said
    for signal in (pre_delete, post_delete):
        signal.disconnect(note, sender=User)


def someone(email: str) -> User:
    """Return a person that a row of every kind refers to."""
    user = User.objects.create_user(email)
    user.groups.add(Group.objects.get_or_create(name="support")[0])
    user.user_permissions.add(Permission.objects.all()[0])
    LogEntry.objects.create(user=user, content_type=ContentType.objects.all()[0], action_flag=1)
    return user


def left() -> dict[str, int]:
    """Return how many rows refer to users, by table."""
    fields = User._meta.get_fields(include_hidden=True)
    relations: list[Any] = [
        field for field in fields if field.auto_created and not field.concrete and field.one_to_many
    ]
    return {relation.related_model.__name__: relation.related_model.objects.count() for relation in relations}


def test_everything_of_the_user_goes_and_nothing_else(heard: list[Any]) -> None:
    """Rows of every kind that refer to the user go with them, those of others stay, and the workers are told."""
    gone, stays = someone("gone@example.com"), someone("stays@example.com")
    held = left()
    assert {kind: count for kind, count in held.items() if count} == {
        "LogEntry": 2, "User_groups": 2, "User_user_permissions": 2,
    }  # fmt: skip
    before = Invalidation.objects.count()
    with transaction.atomic():
        deletion_queries.delete(gone)
    assert left() == {kind: count // 2 for kind, count in held.items()}
    assert list(User.objects.all()) == [stays]
    assert [row.tag for row in Invalidation.objects.order_by("pk")[before:]] == [sub_tag(gone.pk)]
    assert [said[1:] for said in heard] == [(gone.pk, "default", gone)] * 2
    assert [said[0] for said in heard] == [pre_delete, post_delete]


def test_it_is_compiled_for_the_models_there_are() -> None:
    """None of today's relations needs Django to load what is deleted; a new one that does falls back to it."""
    assert deletion_queries._dependents() is not None


def test_what_cannot_be_compiled_is_left_to_django(heard: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With a relation that Django must look at row by row, its own ``delete`` runs, with the same effect."""
    gone = someone("gone@example.com")
    monkeypatch.setattr(deletion_queries, "_dependents", lambda: None)
    key = gone.pk
    with transaction.atomic():
        deletion_queries.delete(gone)
    assert not any(left().values())
    assert [said[1] for said in heard] == [key, key]


def test_the_admins_log_forgets_the_address() -> None:
    """What others did to the user stays without a name; what the user did goes, also to the own account."""
    gone, stays = someone("gone@example.com"), someone("stays@example.com")
    kind = ContentType.objects.get_for_model(User)
    for by in (gone, stays):
        LogEntry.objects.create(
            user=by, content_type=kind, object_id=str(gone.pk), object_repr=gone.email, action_flag=2
        )
    with transaction.atomic():
        deletion_queries.delete(gone)
    about = LogEntry.objects.filter(content_type=kind)
    assert list(about.values_list("user_id", "object_repr")) == [(stays.pk, "deleted user")]
