"""Actions on many users at once: each takes effect with the click, in every worker, and leaves an entry in the log."""

from __future__ import annotations

from collections.abc import Callable
from itertools import batched
from typing import Any, Final, NamedTuple

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Permission
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest
from django.template.response import TemplateResponse

from accounts import audit
from accounts.audit import Event
from accounts.managers import UserQuerySet
from accounts.models import User
from accounts.rights import held_by, rights_of_user
from ironauth.infrastructure.confirmation import CONFIRMED, SHOWN, ask
from ironauth.infrastructure.logs import get_logger

BATCH: Final = 500  # users in one statement; SQLite as first shipped takes 999 variables


class Change(NamedTuple):
    """What an action does to each user, and the words for it, good for one and for many."""

    name: str
    title: str
    done: str
    warning: str
    spares: str
    changes: Callable[[], dict[str, Any]]
    spares_oneself: bool
    event: Event = Event.USER_CHANGED
    lets_in: bool = False


END_SESSIONS: Final = Change(
    name="end_all_sessions",
    title="End all sessions",
    done="All sessions ended",
    warning="Every session ends, on this site too. Signing in again is possible.",
    spares="superusers",
    changes=lambda: {"session_epoch": F("session_epoch") + 1},
    spares_oneself=False,
    event=Event.SESSIONS_ENDED,
)
DEACTIVATE: Final = Change(
    name="deactivate",
    title="Deactivate",
    done="Deactivated",
    warning="Every session ends at once. Signing in is impossible until the account is activated again.",
    spares="you, or superusers",
    changes=lambda: {"is_active": False},
    spares_oneself=True,
)
ACTIVATE: Final = Change(
    name="activate",
    title="Activate",
    done="Activated",
    warning="",
    spares="people with rights you do not hold, or who are being deleted",
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
    targets = _targets(change, caller, chosen)
    spared = chosen.count() - targets.count()
    if spared and not targets:
        model_admin.message_user(
            request, f"Nothing to do. Left as they are: {_count(spared)} ({change.spares}).", messages.WARNING
        )
        return None
    if change.warning and CONFIRMED not in request.POST:
        return _ask(change, model_admin, request, chosen, spared=spared)
    with transaction.atomic():
        ids = list(targets.values_list("pk", flat=True))
        for batch in batched(ids, BATCH):
            # By id: the list may be filtered by the very field that changes.
            users = User.objects.filter(pk__in=batch)
            users.update(**change.changes())
            LogEntry.objects.log_actions(caller.pk, users.all(), CHANGE, change_message=f"{change.done}.")
            fields = {"fields": sorted(change.changes())} if change.event is Event.USER_CHANGED else {}
            audit.record_each(change.event, ((one, None) for one in batch), actor_id=caller.pk, details=fields)
    for user_id in ids:
        get_logger().info("admin_action", action=change.name, user_id=str(user_id), by=str(caller.pk))
    model_admin.message_user(
        request, f"{change.done}: {_count(len(ids))}.", messages.SUCCESS if ids else messages.WARNING
    )
    if spared:
        model_admin.message_user(request, f"Left as they were: {_count(spared)} ({change.spares}).", messages.WARNING)
    return None


def _targets(change: Change, caller: User, chosen: UserQuerySet) -> UserQuerySet:
    """Return those of ``chosen`` whom the caller may do this to."""
    targets = chosen.exclude(pk=caller.pk) if change.spares_oneself else chosen
    if change.lets_in:
        targets = targets.filter(pending_deletion__isnull=True)  # active under the stand-in, nobody could sign in
    if rights_of_user(caller).is_superuser:
        return targets
    targets = targets.filter(is_superuser=False)
    if change.lets_in:
        # Waking up somebody with rights the caller lacks would hand these rights to whoever knows the new password.
        beyond = Permission.objects.exclude(pk__in=held_by(caller))
        targets = targets.exclude(user_permissions__in=beyond).exclude(groups__permissions__in=beyond)
    return targets


def _ask(
    change: Change, model_admin: admin.ModelAdmin[User], request: HttpRequest, chosen: UserQuerySet, spared: int
) -> TemplateResponse:
    """Return the page that asks before a destructive action."""
    total = chosen.count()
    named = chosen.only("email", "name").prefetch_related(None)[:SHOWN]
    return ask(
        model_admin,
        request,
        action=change.name,
        title=change.title,
        question=f"{change.title}: {_count(total)}?",
        warning=change.warning,
        shown=[f"{user.email} ({user.name})" if user.name else user.email for user in named],
        unshown=max(0, total - SHOWN),
        spared=f"Left as they are: {_count(spared)} ({change.spares})." if spared else "",
    )


def _count(number: int) -> str:
    """Return e.g. "1 user" or "3 users"."""
    return f"{number} user" if number == 1 else f"{number} users"
