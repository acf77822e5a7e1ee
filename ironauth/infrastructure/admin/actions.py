"""How an act in the admin is declared: its words, who may do it, and whether it asks for a recent proof of identity."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.http import HttpRequest


def admin_action[**P, T](
    description: str, *, permission: str, step_up: bool = True
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Declare an action on rows of a list.

    Args:
        description: What the list calls it.
        permission: Asked of ``has_<permission>_permission`` of the model's admin.
        step_up: Whether a session that was proved too long ago is asked for another proof first. False is for
            actions that gain nobody anything.
    """

    def declare(act: Callable[P, T]) -> Callable[P, T]:
        declared: Any = admin.action(description=description, permissions=[permission])(act)
        declared.step_up = step_up
        found: Callable[P, T] = declared
        return found

    return declare


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
