"""The page of the admin that asks before an action on chosen rows is carried out."""

from collections.abc import Sequence
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import HttpRequest
from django.template.response import TemplateResponse

CONFIRMED: Final = "confirmed"  # the field that says the question has been answered with yes
SHOWN: Final = 50  # rows named in the question


def render(
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

    Args:
        model_admin: The admin that offers the action.
        request: The request with the selection.
        action: The name that the form sends.
        title: The action as its list shows it.
        question: The heading of the page.
        warning: What the action entails.
        shown: One line for each row to name.
        unshown: How many more rows there are.
        spared: A sentence about rows that stay as they are.
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
    return TemplateResponse(request, "admin/confirm_action.html", context)
