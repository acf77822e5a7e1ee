"""Deleting in the admin where the database may refuse: the page explains it, and nothing is deleted or logged.

Django's own pages know about rows that Django's models protect. A foreign key of another program, or a row added after
the page was shown, is found by the database only when the transaction ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from accounts.errors import UserProtected
from ironauth.infrastructure.telemetry.logs import get_logger

if TYPE_CHECKING:  # Django's class takes its model in brackets for type checkers only
    Admin = ModelAdmin[Any]
else:
    Admin = object


class ProtectedDeleteMixin(Admin):
    """Mixin of an admin whose rows other programs may refer to."""

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        """Delete one row, which may be refused."""
        try:
            return super().delete_view(request, object_id, extra_context)
        except IntegrityError as error:
            return self._refused(request, error)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Carry actions out; of many that are to be deleted all go, or none."""
        if request.POST.get("action") != "delete_selected":
            return super().changelist_view(request, extra_context)
        try:
            with transaction.atomic():
                return super().changelist_view(request, extra_context)
        except IntegrityError as error:
            return self._refused(request, error)

    def _refused(self, request: HttpRequest, error: IntegrityError) -> HttpResponse:
        get_logger().warning("deletion_refused", by=str(request.user.pk), cause=type(error).__name__)
        self.message_user(request, f"Nothing was deleted. {UserProtected.detail}", messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())
