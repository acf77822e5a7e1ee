"""Actions on many users at once: each takes effect with the click, in every worker, and leaves an entry in the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Permission
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest
from django.template.response import TemplateResponse

from accounts.managers import UserQuerySet
from accounts.models import User
from accounts.rights import held_by, rights_of_user
from ironauth.infrastructure.logs import get_logger

CONFIRMED: Final = "confirmed"


class Change(NamedTuple):
    """What an action does to each user, and the words for it."""

    name: str
    title: str
    done: str
    warning: str
    changes: Callable[[], dict[str, Any]]
    spares_oneself: bool
    lets_in: bool = False


END_SESSIONS: Final = Change(
    name="end_all_sessions",
    title="End all sessions",
    done="All sessions ended",
    warning="They are signed out everywhere, from this site too, and have to sign in again.",
    changes=lambda: {"session_epoch": F("session_epoch") + 1},
    spares_oneself=False,
)
DEACTIVATE: Final = Change(
    name="deactivate",
    title="Deactivate",
    done="Deactivated",
    warning="They are signed out everywhere at once and cannot sign in until they are activated again.",
    changes=lambda: {"is_active": False},
    spares_oneself=True,
)
ACTIVATE: Final = Change(
    name="activate",
    title="Activate",
    done="Activated",
    warning="",
    changes=lambda: {"is_active": True},
    spares_oneself=False,
    lets_in=True,
)


def perform(
    change: Change, model_admin: admin.ModelAdmin[User], request: HttpRequest, chosen: UserQuerySet
) -> TemplateResponse | None:
    """Carry ``change`` out, asking first where it has a warning; superusers are spared unless the caller is one.

    Oneself is spared where the action would lock the caller out, which also keeps the last superuser.
    """
    caller: Any = request.user
    rights = rights_of_user(caller)
    targets = chosen if rights.is_superuser else chosen.filter(is_superuser=False)
    if change.lets_in and not rights.is_superuser:
        # Waking up somebody with rights the caller lacks would hand these rights to whoever knows the new password.
        beyond = Permission.objects.exclude(pk__in=held_by(caller))
        targets = targets.exclude(user_permissions__in=beyond).exclude(groups__permissions__in=beyond)
    if change.spares_oneself:
        targets = targets.exclude(pk=caller.pk)
    if change.warning and CONFIRMED not in request.POST:
        return _ask(change, model_admin, request, chosen, spared=chosen.count() - targets.count())
    spared = chosen.count() - targets.count()
    with transaction.atomic():
        ids = list(targets.values_list("pk", flat=True))
        # By id: the list may be filtered by the very field that changes.
        User.objects.filter(pk__in=ids).update(**change.changes())
        LogEntry.objects.log_actions(
            caller.pk, User.objects.filter(pk__in=ids), CHANGE, change_message=f"{change.done}."
        )
    for user_id in ids:
        get_logger().info("admin_action", action=change.name, user_id=str(user_id), by=str(caller.pk))
    model_admin.message_user(
        request, f"{change.done}: {_count(len(ids))}.", messages.SUCCESS if ids else messages.WARNING
    )
    if spared:
        model_admin.message_user(
            request, f"Left as they were: {_count(spared)} (you, or people with more rights).", messages.WARNING
        )
    return None


def _ask(
    change: Change, model_admin: admin.ModelAdmin[User], request: HttpRequest, chosen: UserQuerySet, spared: int
) -> TemplateResponse:
    """Return the page that asks before a destructive action."""
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"{change.title}?",
        "opts": model_admin.opts,
        "change": change,
        "users": chosen,
        "spared": spared,
        "action_checkbox_name": ACTION_CHECKBOX_NAME,
        "confirmed": CONFIRMED,
        "media": model_admin.media,
    }
    request.current_app = model_admin.admin_site.name  # Django's own convention
    return TemplateResponse(request, "admin/accounts/user/confirm_action.html", context)


def _count(number: int) -> str:
    """Return e.g. "1 user" or "3 users"."""
    return f"{number} user" if number == 1 else f"{number} users"
