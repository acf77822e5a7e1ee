"""What this application adds to the export of everything held about a person: their sessions."""

import uuid
from typing import Any

from django.db.models import QuerySet

from accounts import export
from tokens.models import Session


def register() -> None:
    """Add the sessions, those over and not yet purged too; called once, when the application is ready."""
    export.register("sessions", _sessions, Session)


def _sessions(user_id: uuid.UUID) -> QuerySet[Any, Any]:
    return Session.objects.filter(user_id=user_id).order_by("-created_at", "-pk").values(
        "id", "client_id", "scope", "created_at", "last_used_at", "idle_expires_at", "absolute_expires_at",
        "revoked_at", "revoke_reason", "ip", "user_agent",
    )  # fmt: skip
