"""How an async view asks DRF permissions, sync ones and ``&``/``|``/``~`` compositions included."""

import inspect
from functools import lru_cache
from typing import Any

from rest_framework import permissions

from ironauth.infrastructure.request_threads import request_threads

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
_ON_LOOP, _AWAITED, _IN_THREAD = "on loop", "awaited", "in thread"


@lru_cache(maxsize=512)  # two entries per permission class of the project
def _manner(kind: type, method: str) -> str:
    """Decide once per class how ``method`` is called; ``on_loop = True`` on a class vouches for no I/O."""
    function = getattr(kind, method)
    if inspect.iscoroutinefunction(function):
        return _AWAITED
    inherited = function is getattr(permissions.BasePermission, method)
    return _ON_LOOP if inherited or kind in _IN_MEMORY or getattr(kind, "on_loop", False) else _IN_THREAD


async def _ask(permission: Any, method: str, *args: Any) -> bool:
    manner = _manner(type(permission), method)
    if manner is _AWAITED:
        return bool(await getattr(permission, method)(*args))
    if manner is _ON_LOOP:
        return bool(getattr(permission, method)(*args))
    return bool(await request_threads.run(getattr(permission, method), *args))


async def holds(permission: Any, request: Any, view: Any) -> bool:
    """Tell whether ``permission`` (or a composition) lets the request through; short-circuits left to right."""
    if isinstance(permission, permissions.AND):
        return await holds(permission.op1, request, view) and await holds(permission.op2, request, view)
    if isinstance(permission, permissions.OR):
        return await holds(permission.op1, request, view) or await holds(permission.op2, request, view)
    if isinstance(permission, permissions.NOT):
        return not await holds(permission.op1, request, view)
    return await _ask(permission, "has_permission", request, view)


async def holds_for_object(permission: Any, request: Any, view: Any, obj: object) -> bool:
    """Tell whether ``permission`` (or a composition) lets the request through for ``obj``."""
    if isinstance(permission, permissions.AND):
        return await holds_for_object(permission.op1, request, view, obj) and await holds_for_object(
            permission.op2, request, view, obj
        )
    if isinstance(permission, permissions.OR):
        # As DRF does: an operand counts for the object only if it also held for the request (DRF#7117).
        for operand in (permission.op1, permission.op2):
            if await holds(operand, request, view) and await holds_for_object(operand, request, view, obj):
                return True
        return False
    if isinstance(permission, permissions.NOT):
        return not await holds_for_object(permission.op1, request, view, obj)
    return await _ask(permission, "has_object_permission", request, view, obj)
