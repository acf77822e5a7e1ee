"""What this room registers elsewhere: what a sign-in asks, which addresses are remembered, and the pool's end."""

from collections.abc import Iterable
from uuid import UUID

from django.db.models.signals import pre_delete

from accounts.lazy_migration import asking, services
from accounts.passwords import old_system
from accounts.transfer import queries
from accounts.users import invariants
from accounts.users.models import User
from ironauth.infrastructure.core.lifecycle import on_shutdown


def register() -> None:
    """Register all of it; called once, when the application is ready."""
    old_system.register(services.find)
    invariants.address_left.connect(_moved, dispatch_uid="accounts.lazy_migration.moved")
    pre_delete.connect(_deleted, sender=User, dispatch_uid="accounts.lazy_migration.deleted")
    on_shutdown(asking.close)


def _moved(user_ids: Iterable[UUID], **_: object) -> None:
    """Remember the addresses that these accounts are about to lose."""
    if old_system.is_before_its_end():
        queries.note_left(user_ids)


def _deleted(instance: User, **_: object) -> None:
    """Remember the address of an account that is about to go."""
    if old_system.is_before_its_end():
        queries.note_left([instance.pk])
