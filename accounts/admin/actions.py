"""Actions on many users at once: each takes effect with the click, in every worker, and leaves an entry in the log."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from itertools import batched
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Permission
from django.db import transaction
from django.db.models import Count
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse

from accounts.access.rights import CHANGE_USERS, REMOVE_FACTORS, held_by, potential_permissions, rights_of_user
from accounts.acts.change import Change
from accounts.users.models import User, UserQuerySet
from ironauth.infrastructure.admin.actions import CONFIRMED, SHOWN, admin_action, ask
from ironauth.infrastructure.telemetry.logs import get_logger

#: The field by which a button on a person's page says where to return to.
PAGE: Final = "page"


def asked_of_admin(change: Change) -> str:
    """Return the word for the right that ``change`` needs: the ``…`` in ``has_…_permission`` of the admin of users."""
    return {CHANGE_USERS: "change", REMOVE_FACTORS: "reset_mfa"}[change.right]


def as_action(change: Change) -> Callable[..., TemplateResponse | None]:
    """Return what a list of users offers for ``change``."""

    @admin_action(change.choice, permission=asked_of_admin(change), danger=change.danger, step_up=change.step_up)
    def act(
        model_admin: admin.ModelAdmin[User], request: HttpRequest, queryset: UserQuerySet
    ) -> TemplateResponse | None:
        return perform(change, model_admin, request, queryset)

    act.__name__ = change.name  # by which Django knows it
    return act


def perform(
    change: Change, model_admin: admin.ModelAdmin[User], request: HttpRequest, chosen: UserQuerySet
) -> TemplateResponse | None:
    """Carry ``change`` out, and ask first where it has a warning.

    Superusers are spared unless the caller is one. The caller is spared where the action would lock them out, which
    also keeps the last superuser. The work is done in short transactions: a single one for a long list would keep
    SQLite's other writers waiting.

    Args:
        change: What is done, and its words.
        model_admin: Shows the messages, and the question.
        request: Of the member of staff; it carries ``CONFIRMED`` once they have answered the question.
        chosen: The people who were ticked, also those who will be spared.
    """
    caller: Any = request.user
    targets = _targets(change, caller, chosen)
    spared = chosen.count() - targets.count()
    if spared and not targets:
        model_admin.message_user(
            request, f"Nothing to do. Left as they are: {_count(spared)} ({change.excluded_note}).", messages.WARNING
        )
        return None
    if change.warning and CONFIRMED not in request.POST:
        return _ask(change, model_admin, request, chosen=targets, spared=spared)
    ids = list(targets.order_by("pk").values_list("pk", flat=True))
    for batch in batched(ids, change.batch):
        with transaction.atomic():
            # By id: the list may be filtered by the very field that changes.
            change.carry_out(batch, caller.pk)
            users = User.objects.filter(pk__in=batch)
            LogEntry.objects.log_actions(caller.pk, users, CHANGE, change_message=f"{change.done}.")
        for user_id in batch:
            get_logger().info("admin_action", action=change.name, user_id=str(user_id), by=str(caller.pk))
    model_admin.message_user(
        request, f"{change.done}: {_count(len(ids))}.", messages.SUCCESS if ids else messages.WARNING
    )
    if spared:
        model_admin.message_user(
            request, f"Left as they were: {_count(spared)} ({change.excluded_note}).", messages.WARNING
        )
    return None


def person_page(request: HttpRequest) -> str:
    """Return the address of the person's page on which a button was pressed; "" for what was sent from elsewhere."""
    chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
    if PAGE not in request.POST or len(chosen) != 1:
        return ""
    try:
        return reverse("admin:accounts_user_change", args=[uuid.UUID(chosen[0])])
    except ValueError:
        return ""


def offered(changes: Collection[Change], caller: User, user: User) -> list[Change]:
    """Return those of ``changes`` by which ``caller`` would change something about ``user``. Three queries at most.

    Args:
        changes: The acts to choose from.
        caller: The member of staff who sees the page.
        user: The person whose page it is.
    """
    rights = rights_of_user(caller)
    if user.is_superuser and not rights.is_superuser:
        return []
    concerned = User.objects.filter(pk=user.pk).aggregate(
        **{change.name: Count("pk", filter=change.concerns) for change in changes}
    )
    above = rights.is_superuser or rights.permissions >= potential_permissions(user)
    return [
        change
        for change in changes
        if concerned[change.name]
        and (above or not change.takes_over)
        and not (change.spares_oneself and user.pk == caller.pk)
    ]


def _targets(change: Change, caller: User, chosen: UserQuerySet) -> UserQuerySet:
    """Return those of ``chosen`` to which the caller may do this, and which it concerns."""
    targets = chosen.filter(change.concerns)
    if change.spares_oneself:
        targets = targets.exclude(pk=caller.pk)
    if change.spared is not None:
        targets = targets.exclude(pk__in=change.spared(targets).values("pk"))
    if rights_of_user(caller).is_superuser:
        return targets
    targets = targets.filter(is_superuser=False)
    if change.takes_over:
        beyond = Permission.objects.exclude(pk__in=held_by(caller))
        targets = targets.exclude(user_permissions__in=beyond).exclude(groups__permissions__in=beyond)
    return targets


def _ask(
    change: Change, model_admin: admin.ModelAdmin[User], request: HttpRequest, *, chosen: UserQuerySet, spared: int
) -> TemplateResponse:
    """Return the page that asks before an action, naming those it would be carried out on."""
    total = chosen.count()
    named = chosen.select_related(None).only("email", "name").prefetch_related(None)[:SHOWN]
    return ask(
        model_admin,
        request,
        action=change.name,
        title=change.title,
        question=f"{change.title}: {_count(total)}?",
        warning=" ".join(filter(None, (change.warning, change.warning_of(chosen) if change.warning_of else ""))),
        shown=[f"{user} ({user.name})" if user.name else str(user) for user in named],
        danger=change.danger,
        unshown=max(0, total - SHOWN),
        spared=f"Left as they are: {_count(spared)} ({change.excluded_note})." if spared else "",
    )


def _count(number: int) -> str:
    """Return e.g. "1 user" or "3 users"."""
    return f"{number} user" if number == 1 else f"{number} users"
