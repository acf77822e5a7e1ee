"""Admin pages of rows that only units of work may write: their columns, and the trace that acts on them leave."""

from collections.abc import Iterable
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.http import HttpRequest

from ironauth.infrastructure.admin import read_only as read_only_admin
from ironauth.infrastructure.telemetry.logs import get_logger


class ReadOnly(read_only_admin.ReadOnly):
    """Mixin of the pages of sessions and keys."""

    class Media:
        css = {"all": ["tokens/admin.css"]}


def note(request: HttpRequest, rows: Iterable[Any], message: str, *, action: str) -> None:
    """Leave an entry in Django's admin log and a line in ours for each row; call it in the act's transaction.

    Args:
        request: Of the member of staff.
        rows: The rows that were acted upon.
        message: What Django's admin log shows.
        action: The act's name in our log.
    """
    chosen, caller = list(rows), request.user.pk
    LogEntry.objects.log_actions(str(caller), chosen, CHANGE, change_message=message)
    for row in chosen:
        get_logger().info("admin_action", action=action, target=str(row.pk), by=str(caller))
