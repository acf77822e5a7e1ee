"""Accounts their owners have deleted, in the admin: to find among the users, and to restore while there is time."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.access.rights import Rights, rights_of_request
from accounts.privacy import units as deletions
from accounts.privacy.models import PendingDeletion
from accounts.users.models import User
from ironauth.infrastructure.admin.actions import admin_action, is_danger
from ironauth.infrastructure.admin.lists import KnownValues
from ironauth.infrastructure.admin.read_only import ReadOnly
from ironauth.infrastructure.core.errors import PermissionDenied
from ironauth.infrastructure.telemetry.logs import get_logger


class PendingFilter(KnownValues):
    """Accounts being deleted, or all others."""

    title = "being deleted"
    parameter_name = "being_deleted"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Offer the two."""
        return [("yes", "Yes"), ("no", "No")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> QuerySet[User]:
        """Return the users of the chosen kind."""
        if self.value() is None:
            return queryset
        return queryset.filter(pending_deletion__isnull=self.value() == "no")


class PendingInline(ReadOnly, admin.TabularInline):  # type: ignore[type-arg] # Django's is not generic at run time
    """What the address was and until when the account can be restored, on the person's page."""

    model = PendingDeletion
    verbose_name_plural = "Being deleted"
    fields = readonly_fields = ("former_address", "requested_at", "due_at")
    extra = 0

    @admin.display(description="former address")
    def former_address(self, pending: PendingDeletion) -> str:
        """Return the address that the account has again when it is restored."""
        return pending.email

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Anybody who sees the person sees this, where there is anything to see."""
        return obj is None or (isinstance(obj, User) and obj.is_being_deleted)


class Button(NamedTuple):
    """An action on a person's page."""

    name: str
    title: str
    danger: bool


def buttons(request: HttpRequest, user: User) -> list[Button]:
    """Return how the caller, who may change users, may end a person's deletion; three queries for one being deleted.

    Args:
        request: Of the member of staff who sees the page.
        user: The person whose page it is.
    """
    if not user.is_being_deleted:
        return []
    try:
        rights_of_request(request).require_all_of(user)
    except PermissionDenied:
        return []
    return [Button("restore", "Restore", is_danger(restore))]


@admin_action("Restore selected users who are being deleted", permission="change", danger=False)
def restore(model_admin: Any, request: HttpRequest, queryset: QuerySet[User]) -> None:
    """Let people in again as they were, but those the caller may not let in, or whose address is taken.

    Args:
        model_admin: Shows the messages.
        request: Of the member of staff.
        queryset: The people who were ticked.
    """
    rights = rights_of_request(request)
    chosen = queryset.count()  # before: the list may be filtered by what changes
    outcomes = [_restore(rights, user) for user in list(queryset.filter(pending_deletion__isnull=False))]
    restored = [user_id for user_id in outcomes if user_id is not None]
    LogEntry.objects.log_actions(
        rights.user_id, User.objects.filter(pk__in=restored), CHANGE, change_message="Restored."
    )
    for user_id in restored:
        get_logger().info("account_restored", user_id=str(user_id), by=str(rights.user_id))
    level = messages.SUCCESS if restored else messages.WARNING
    model_admin.message_user(request, f"Restored: {_count(len(restored))}.", level)
    if left := chosen - len(restored):
        reason = "not being deleted, the address taken by now, or rights you do not hold"
        model_admin.message_user(request, f"Left as they were: {_count(left)} ({reason}).", messages.WARNING)


def _restore(rights: Rights, user: User) -> uuid.UUID | None:
    """Restore one account in a transaction of its own; return its id if that was done."""
    try:
        rights.require_all_of(user)
        with transaction.atomic():
            done = deletions.restore_by_staff(user_id=user.pk, actor_id=rights.user_id)
    except (PermissionDenied, IntegrityError):
        return None
    return user.pk if done else None


def _count(number: int) -> str:
    """Return e.g. "1 user" or "3 users"."""
    return f"{number} user" if number == 1 else f"{number} users"
