"""What the admin's acts on sessions and keys have in common: the question before, and the trace they leave."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.http import HttpRequest
from django.template.response import TemplateResponse

from accounts.admin_actions import CONFIRMED
from ironauth.infrastructure.logs import get_logger


def note(request: HttpRequest, rows: Iterable[Any], message: str, *, action: str) -> None:
    """Leave an entry in Django's admin log and a line in ours for each row; call it in the act's transaction."""
    chosen, caller = list(rows), request.user.pk
    LogEntry.objects.log_actions(str(caller), chosen, CHANGE, change_message=message)
    for row in chosen:
        get_logger().info("admin_action", action=action, target=str(row.pk), by=str(caller))


def ask(
    model_admin: "admin.ModelAdmin[Any]",
    request: HttpRequest,
    *,
    action: str,
    title: str,
    question: str,
    warning: str,
    shown: Sequence[str],
    unshown: int = 0,
    spared: str = "",
) -> TemplateResponse:
    """Return the page that asks before ``action``; its answer comes with the same selection and ``CONFIRMED``.

    ``shown``: one line for each row to name; ``unshown``: how many more there are.
    """
    context = {
        **model_admin.admin_site.each_context(request),
        "title": question,
        "opts": model_admin.opts,
        "change": {"name": action, "title": title, "warning": warning},
        "shown": shown,
        "unshown": unshown,
        "spared": spared,
        "selected": request.POST.getlist(ACTION_CHECKBOX_NAME),
        "action_checkbox_name": ACTION_CHECKBOX_NAME,
        "confirmed": CONFIRMED,
        "media": model_admin.media,
    }
    request.current_app = model_admin.admin_site.name  # Django's own convention
    return TemplateResponse(request, "admin/tokens/confirm_action.html", context)
