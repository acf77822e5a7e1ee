"""Tells every worker, in the transaction of the change, when what it may hold about a person is no longer true.

Covers writes outside the services as well: the admin, the shell, fixtures, ``groups.add``, a renamed or deleted role.
"""

from collections.abc import Iterable
from typing import Any, Final

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.db.models import IntegerField, TextField, UUIDField
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save

from accounts.users import invariants
from accounts.users.invariants import sub_tag
from accounts.users.models import Role, User
from ironauth.infrastructure.cache.invalidation import invalidate
from ironauth.infrastructure.db.compiled import CompiledUpdate, Param

#: What the admin's log calls somebody who is gone.
DELETED: Final = "deleted user"
_UNNAME: Final = CompiledUpdate(
    # Without their own entries, which go with them: it may be one statement with what deletes those.
    lambda: LogEntry.objects.filter(
        content_type_id=Param("kind", IntegerField()), object_id=Param("id", TextField())
    ).exclude(user_id=Param("user_id", UUIDField())),
    object_repr=DELETED,
)


def connect() -> None:
    """Connect the receivers; connecting twice is harmless."""
    post_save.connect(_user_saved, sender=User, dispatch_uid="accounts.user_saved")
    pre_delete.connect(_user_deleted, sender=User, dispatch_uid="accounts.user_deleted")
    m2m_changed.connect(_roles_changed, sender=User.groups.through, dispatch_uid="accounts.roles_changed")
    for model in (Group, Role):  # a proxy is a sender of its own
        pre_save.connect(_role_renamed, sender=model, dispatch_uid="accounts.role_renamed")
        pre_delete.connect(_role_deleted, sender=model, dispatch_uid="accounts.role_deleted")


def _user_saved(instance: User, created: bool, update_fields: frozenset[str] | None, **_: object) -> None:
    """Invalidate a changed user; of a new one nobody holds anything."""
    if not created and (update_fields is None or update_fields & invariants.VISIBLE):
        invalidate(sub_tag(instance.pk))


def _user_deleted(instance: User, **_: object) -> None:
    """Invalidate a user that is about to go, end their sessions, and take their address out of the admin's log.

    ``delete()`` runs in one transaction with this, no matter who calls it. The trail has the same acts, by id.
    """
    invariants.sessions_end.send(sender=User, user_ids=[instance.pk])
    invalidate(sub_tag(instance.pk))
    _UNNAME.run(kind=ContentType.objects.get_for_model(User).pk, id=str(instance.pk), user_id=instance.pk)


def _roles_changed(
    instance: User | Group,
    action: str,
    reverse: bool,
    pk_set: Iterable[Any] | None,
    **_: object,
) -> None:
    """Invalidate everyone whose roles change, from either side of the relation."""
    if action not in ("post_add", "post_remove", "pre_clear"):
        return
    if not reverse:
        _invalidate_users([instance.pk])
    elif action == "pre_clear":  # afterwards nobody could say who the members were
        _invalidate_members(instance)
    else:
        _invalidate_users(pk_set or ())


def _role_renamed(instance: Group, **_: object) -> None:
    """Invalidate every member of a role that gets another name: the name is part of what ``/me`` and tokens say."""
    if instance.pk and not Group.objects.filter(pk=instance.pk, name=instance.name).exists():
        _invalidate_members(instance)


def _role_deleted(instance: Group, **_: object) -> None:
    """Invalidate every member of a role that is about to go."""
    _invalidate_members(instance)


def _invalidate_members(group: Any) -> None:
    """Invalidate every member of ``group``."""
    _invalidate_users(User.objects.filter(groups__pk=group.pk).values_list("pk", flat=True))


def _invalidate_users(user_ids: Iterable[Any]) -> None:
    """Invalidate these users; nothing is written for none."""
    tags = [sub_tag(user_id) for user_id in user_ids]
    if tags:
        invalidate(*tags)
