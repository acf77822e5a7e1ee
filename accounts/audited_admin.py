"""How what staff do in Django's admin, and are refused, gets into the audit trail.

What is done, in the transaction in which the admin does it.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib.admin import ModelAdmin
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts import audit
from accounts.audit import Details, Event, Outcome
from accounts.models import User

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
            fields = {} if not change else {"fields": sorted(form.changed_data)}
            self._record(changed if change else created, request, form.instance, fields)

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


def record_denial(request: HttpRequest) -> None:
    """Leave in the trail that somebody signed in asked for a page, or an act, they have no right to."""
    caller: Any = request.user
    details = {"method": request.method or "", "path": request.path}
    audit.record(Event.ACCESS_DENIED, outcome=Outcome.REFUSED, actor_id=caller.pk, details=details)
