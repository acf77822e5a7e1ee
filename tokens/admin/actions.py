"""What the admin's acts on sessions and keys have in common: the question before, and the trace they leave."""

from collections.abc import Iterable
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.http import HttpRequest

from ironauth.infrastructure.telemetry.logs import get_logger


def note(request: HttpRequest, rows: Iterable[Any], message: str, *, action: str) -> None:
    """Leave an entry in Django's admin log and a line in ours for each row; call it in the act's transaction."""
    chosen, caller = list(rows), request.user.pk
    LogEntry.objects.log_actions(str(caller), chosen, CHANGE, change_message=message)
    for row in chosen:
        get_logger().info("admin_action", action=action, target=str(row.pk), by=str(caller))
