"""Which URL pattern a request fits: the handler that finds it tells the code that counts or traces the request.

Not by a key of the scope: a layer between the two may hand on a copy.
"""

from typing import Final, Protocol

from django.core.handlers.base import BaseHandler
from django.http import HttpRequest
from django.urls import ResolverMatch

from ironauth.infrastructure.core.asgi_types import Scope
from ironauth.infrastructure.http.handler import LeanHandler
from ironauth.infrastructure.http.lanes import PageHandler
from ironauth.infrastructure.http.middleware import STATIC_PREFIX

#: RFC 9110's methods that are served. All others share one name in metrics and spans, lest anybody made many.
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
STATIC_ROUTE: Final = f"{STATIC_PREFIX}…"
_KEY: Final = "ironauth.route_wanted_by"


class Listener(Protocol):
    """What learns the route; it stays None where no pattern fits, or nobody looked for one."""

    route: str | None


def listen(scope: Scope, listener: Listener) -> None:
    """Have ``listener`` told the route of a request.

    Args:
        scope: of the request.
        listener: its ``route`` is set when a pattern fits.
    """
    scope.setdefault(_KEY, []).append(listener)


class _NotesRoute(BaseHandler):
    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        """Find the view, and tell its pattern.

        Raises:
            Resolver404: no pattern fits.
        """
        match = super().resolve_request(request)
        listeners: list[Listener] = request.scope.get(_KEY, [])  # type: ignore[attr-defined] # ASGIRequest has it
        for listener in listeners:
            listener.route = f"/{match.route}"
        return match


class RouteLabelHandler(_NotesRoute, LeanHandler):
    """The API lane's handler, with traces on."""


class NotingPageHandler(_NotesRoute, PageHandler):
    """The admin lane's handler."""
