"""Acts in the admin: how one is declared (words, who may do it, whether it asks for a recent proof), and its question.

A recent proof is asked for before the question; see ``needs_step_up``.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import HttpRequest
from django.template.response import TemplateResponse

CONFIRMED: Final = "confirmed"  # the field that says the question has been answered with yes
TYPED: Final = "typed"  # the field in which a phrase is typed, of an act that nobody may press by mistake
SHOWN: Final = 50  # rows named in the question


def admin_action[**P, T](
    description: str, *, permission: str, danger: bool, step_up: bool = True
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Declare an action on rows of a list.

    Args:
        description: What the list calls it.
        permission: Asked of ``has_<permission>_permission`` of the model's admin.
        danger: Whether something is lost by it; its button then has the class ``danger``, and no other has.
        step_up: Whether a session that was proved too long ago is asked for another proof first. False is for
            actions that gain nobody anything.
    """

    def declare(act: Callable[P, T]) -> Callable[P, T]:
        declared: Any = admin.action(description=description, permissions=[permission])(act)
        declared.step_up = step_up
        declared.danger = danger
        found: Callable[P, T] = declared
        return found

    return declare


def page_act[**P, T](*, danger: bool) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Declare the view behind a button of a row's page, or of a list's.

    Args:
        danger: As of ``admin_action``.
    """

    def declare(act: Callable[P, T]) -> Callable[P, T]:
        declared: Any = act
        declared.danger = danger
        return act

    return declare


def is_danger(act: Callable[..., object]) -> bool:
    """Tell whether something is lost by an act, as it declares.

    Args:
        act: What carries it out.

    Raises:
        AttributeError: It declares nothing.
    """
    declared: Any = act
    return bool(declared.danger)


def holds(permission: str) -> Callable[..., bool]:
    """Return a ``has_…_permission`` of a model's admin: who holds ``permission`` (``app_label.codename``) may."""

    def has_permission(_: Any, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG001 - Django's signature
        return request.user.has_perm(permission)

    return has_permission


def needs_step_up(model_admin: Any, action: str) -> bool:
    """Tell whether the action of this name asks for a recent proof: all do that do not declare otherwise.

    Args:
        model_admin: The admin that offers the action.
        action: The name that the form sends.
    """
    for one in model_admin.actions or ():
        act = getattr(model_admin, one, None) if isinstance(one, str) else one
        if (one if isinstance(one, str) else getattr(one, "__name__", "")) == action:
            return bool(getattr(act, "step_up", True))
    return True


def is_typed(request: HttpRequest, phrase: str) -> bool:
    """Tell whether the answer to a question has the phrase that it asks for; blanks around it do not matter.

    Args:
        request: The answer.
        phrase: As given to ``ask``.
    """
    return CONFIRMED in request.POST and request.POST.get(TYPED, "").strip() == phrase


def ask(
    model_admin: "admin.ModelAdmin[Any]",
    request: HttpRequest,
    *,
    action: str,
    title: str,
    question: str,
    warning: str,
    shown: Sequence[str],
    danger: bool,
    unshown: int = 0,
    spared: str = "",
    phrase: str = "",
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
        danger: As the act declares.
        unshown: How many more rows there are.
        spared: A sentence about rows that stay as they are.
        phrase: What has to be typed (``is_typed``); "" where pressing the button is enough.
    """
    context = {
        **model_admin.admin_site.each_context(request),
        "title": question,
        "opts": model_admin.opts,
        "change": {"name": action, "title": title, "warning": warning, "danger": danger},
        "shown": shown,
        "unshown": unshown,
        "spared": spared,
        "selected": request.POST.getlist(ACTION_CHECKBOX_NAME),
        "action_checkbox_name": ACTION_CHECKBOX_NAME,
        "confirmed": CONFIRMED,
        "phrase": phrase,
        "typed": TYPED,
        "mistyped": CONFIRMED in request.POST,
        "media": model_admin.media,
    }
    request.current_app = model_admin.admin_site.name  # Django's own convention
    return TemplateResponse(request, "admin/confirm_action.html", context)
