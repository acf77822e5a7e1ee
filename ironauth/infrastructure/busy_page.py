"""The admin lane's answer when a bounded resource is full: a page with a way back, not a server error."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from ironauth.infrastructure.errors import DomainError, Overloaded, Unavailable


class BusyPageMiddleware(MiddlewareMixin):
    """Answers ``Overloaded`` and ``Unavailable`` of any view with 503 and ``Retry-After`` (RFC 9110 §15.6.4).

    Forms that can say it beside what was typed do so themselves; this is for every other page.
    """

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return the page, or nothing for any other exception."""
        if not isinstance(exception, Overloaded | Unavailable):
            return None
        return busy_page(request, exception)


def busy_page(request: HttpRequest, refused: DomainError) -> HttpResponse:
    """Return the page that says when to try again."""
    response = render(request, "503.html", {"retry_after_s": refused.retry_after_s}, status=refused.status)
    for name, value in refused.headers.items():
        response.headers[name] = value
    return response
