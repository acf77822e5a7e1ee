"""How an async view asks DRF permissions, sync ones and ``&``/``|``/``~`` compositions included."""

# Permissions, requests and views are duck-typed in DRF.

import inspect
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, cast

from rest_framework import permissions

from ironauth.infrastructure.threads.request_threads import request_threads

#: DRF's own classes that only look at attributes already in memory: no thread is worth that.
_IN_MEMORY = frozenset(
    {
        permissions.AllowAny,
        permissions.BasePermission,
        permissions.IsAdminUser,
        permissions.IsAuthenticated,
        permissions.IsAuthenticatedOrReadOnly,
    }
)
_COMPOSITIONS = (permissions.AND, permissions.OR, permissions.NOT)
_ON_LOOP, _AWAITED, _IN_THREAD = "on loop", "awaited", "in thread"


@lru_cache(maxsize=512)  # two entries per permission class of the project
def _manner(kind: Hashable, method: str) -> str:
    """Decide once per class how ``method`` is called; ``on_loop = True`` on a class vouches for no I/O."""
    function = getattr(kind, method)
    if inspect.iscoroutinefunction(function):
        return _AWAITED
    inherited = function is getattr(permissions.BasePermission, method)
    return _ON_LOOP if inherited or kind in _IN_MEMORY or getattr(kind, "on_loop", False) else _IN_THREAD


def answers_at_once(permission: object) -> bool:
    """Tell whether ``has_permission`` may be called as it is: neither awaited nor in a thread."""
    return _manner(cast("Hashable", type(permission)), "has_permission") is _ON_LOOP


async def _ask(permission: Any, method: str, *args: Any) -> bool:
    kind = cast("Hashable", type(permission))
    manner = _manner(kind, method)
    if manner is _AWAITED:
        return bool(await getattr(permission, method)(*args))
    if manner is _ON_LOOP:
        return bool(getattr(permission, method)(*args))
    return bool(await request_threads.run(getattr(permission, method), *args))


def _operands(composition: Any) -> tuple[Any, Any]:
    """Return the operands of DRF's AND, OR or NOT (the second one is None)."""
    return composition.op1, getattr(composition, "op2", None)


async def holds(permission: Any, request: Any, view: Any) -> bool:
    """Tell whether ``permission`` (or a composition) lets the request through; short-circuits left to right.

    Args:
        permission: An instance of a DRF permission, or of ``AND``, ``OR``, ``NOT``.
        request: DRF's request, or ours.
        view: The view that the request is for.
    """
    if not isinstance(permission, _COMPOSITIONS):
        return await _ask(permission, "has_permission", request, view)
    first, second = _operands(permission)
    if isinstance(permission, permissions.AND):
        return await holds(first, request, view) and await holds(second, request, view)
    if isinstance(permission, permissions.OR):
        return await holds(first, request, view) or await holds(second, request, view)
    return not await holds(first, request, view)


async def holds_for_object(permission: Any, request: Any, view: Any, obj: object) -> bool:
    """Tell whether ``permission`` (or a composition) lets the request through for ``obj``.

    Args:
        permission: An instance of a DRF permission, or of ``AND``, ``OR``, ``NOT``.
        request: DRF's request, or ours.
        view: The view that the request is for.
        obj: What the view is about to answer with, or to change.
    """
    if not isinstance(permission, _COMPOSITIONS):
        return await _ask(permission, "has_object_permission", request, view, obj)
    first, second = _operands(permission)
    if isinstance(permission, permissions.AND):
        return await holds_for_object(first, request, view, obj) and await holds_for_object(second, request, view, obj)
    if isinstance(permission, permissions.OR):
        # As DRF does: an operand counts for the object only if it also held for the request.
        for operand in (first, second):
            if await holds(operand, request, view) and await holds_for_object(operand, request, view, obj):
                return True
        return False
    return not await holds_for_object(first, request, view, obj)
