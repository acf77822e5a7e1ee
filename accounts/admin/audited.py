"""How acts of staff in Django's admin, and requests refused to them, get into the audit trail.

An act is recorded in the transaction in which the admin does it.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.audit import recording as audit
from accounts.audit.recording import Details, Event, Outcome
from accounts.staff import units as staff_units
from accounts.users.models import User

if TYPE_CHECKING:
    Admin = ModelAdmin[Any]
else:
    Admin = object


class Audited(Admin):
    """Mixin of admin pages: records what is added, changed and deleted, with the names of the fields that changed."""

    #: What adding, changing and deleting a row are called in the trail.
    audit_events: ClassVar[tuple[Event, Event, Event]]

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Record the row, saved by now with all that belongs to it; a form that changed nothing leaves no event."""
        super().save_related(request, form, formsets, change)
        created, changed, _ = self.audit_events
        if form.changed_data or not change:
            details = {"fields": sorted(form.changed_data), **_believed(form)} if change else {}
            self._record(changed if change else created, request, form.instance, details)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Record what is deleted, before it has no id any more."""
        with transaction.atomic():
            self._record(self.audit_events[2], request, obj, {})
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Record each row that is deleted with others."""
        with transaction.atomic():
            for row in queryset:
                self._record(self.audit_events[2], request, row, {})
            super().delete_queryset(request, queryset)

    def _record(self, event: Event, request: HttpRequest, row: Any, details: Details) -> None:
        caller: Any = request.user
        is_user = isinstance(row, User)
        named = {} if is_user else {"role": row.name}
        user_id: uuid.UUID | None = row.pk if is_user else None
        audit.record(event, actor_id=caller.pk, user_id=user_id, details={**named, **details})


def _believed(form: Any) -> dict[str, object]:
    """Return the values on which others rely that a person's form changed: flags, roles, and single permissions."""
    if not isinstance(form.instance, User):
        return {}
    found: dict[str, object] = {**staff_units.believed_values(form.instance, form.changed_data)}
    for field, word, name in (("groups", "roles", _role), ("user_permissions", "permissions", _permission)):
        if field in form.changed_data:
            before, after = ({name(one) for one in rows} for rows in (form.initial[field], form.cleaned_data[field]))
            moved = {f"{word}_given": after - before, f"{word}_taken": before - after}
            found |= {key: sorted(names) for key, names in moved.items() if names}
    return found


def _role(role: Group) -> str:
    return role.name


def _permission(permission: Permission) -> str:
    return f"{permission.content_type.app_label}.{permission.codename}"


def record_denial(request: HttpRequest) -> None:
    """Leave in the trail that somebody signed in asked for a page, or an act, they have no right to."""
    caller: Any = request.user
    details = {"method": request.method or "", "path": request.path}
    audit.record(Event.ACCESS_DENIED, outcome=Outcome.REFUSED, actor_id=caller.pk, details=details)
