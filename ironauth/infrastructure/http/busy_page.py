"""The admin lane's answer when a bounded resource is full: a page with a way back, not a server error."""

from typing import Final

from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from ironauth.infrastructure.core.errors import DomainError, Overloaded, Unavailable
from ironauth.infrastructure.db.faults import Fault, classify
from ironauth.infrastructure.db.outage import outages

#: Where the admin lane leaves, in the ASGI scope, the refusal that it has found out before Django began.
BUSY: Final = "ironauth.busy"
RETRY_AFTER_S: Final = 1  # of a database that fails while a page is made; as the database pool says


class BusyPageMiddleware(MiddlewareMixin):
    """Answers ``Overloaded``, ``Unavailable`` and a lost database with 503 and ``Retry-After`` (RFC 9110 §15.6.4).

    Forms that can say it beside what was typed do so themselves; this is for every other page.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Return the page when it is known already that there is nothing to be had."""
        refused = getattr(request, "scope", {}).get(BUSY)
        return busy_page(request, refused) if refused is not None else None

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return the page, or nothing for any other exception."""
        if isinstance(exception, Error) and (fault := classify(exception, reader=False)) is not Fault.OTHER:
            outages.report(fault, cause=str(exception).partition("\n")[0], lane="admin")
            exception = Unavailable(retry_after_s=RETRY_AFTER_S)
        if not isinstance(exception, Overloaded | Unavailable):
            return None
        return busy_page(request, exception)


def busy_page(request: HttpRequest, refused: DomainError) -> HttpResponse:
    """Return the page that says when to try again."""
    response = render(request, "503.html", {"retry_after_s": refused.retry_after_s}, status=refused.status)
    for name, value in refused.headers.items():
        response.headers[name] = value
    return response
