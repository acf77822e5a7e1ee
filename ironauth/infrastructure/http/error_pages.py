"""Pages that people get instead of an error document: nothing at this address, or a bounded resource that is full."""

from typing import Final

from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.deprecation import MiddlewareMixin

from ironauth.infrastructure.api.problem import MEDIA_TYPE, exception_handler
from ironauth.infrastructure.core.errors import DomainError, Overloaded, Unavailable
from ironauth.infrastructure.db.faults import Fault, classify, outages
from ironauth.infrastructure.http import language
from ironauth.infrastructure.http.cookies import AmbiguousCookies
from ironauth.infrastructure.telemetry.logs import get_logger

#: Where the admin lane leaves, in the ASGI scope, the refusal that it has found out before Django began.
BUSY: Final = "ironauth.busy"
RETRY_AFTER_S: Final = 1  # of a database that fails while a page is made; as the database pool says
_program_paths: tuple[str, ...] = ("/api/", "/.well-known/")  # see `register_program_paths`
#: For a page without scripts and forms, whose style and icon are this server's.
PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LONGEST_ACCEPT: Final = 512  # characters, browsers send 150; one of 8,000 would keep the event loop for 30 ms
_HTML: Final = "text/html"
#: In the order in which we would choose: who accepts anything is a program.
_OFFERED: Final = (MEDIA_TYPE, "application/json", _HTML)


def register_program_paths(*prefixes: str) -> None:
    """Declare paths where programs ask, whatever they accept: below them each error is a problem document.

    Args:
        prefixes: Of the path, between slashes. The application that answers them registers them when it starts.
    """
    global _program_paths  # noqa: PLW0603 - grows while applications start, before the first request
    _program_paths = tuple(dict.fromkeys((*_program_paths, *prefixes)))


def wants_page(request: HttpRequest) -> bool:
    """Tell whether somebody looks at the answer in a browser, and not where programs ask."""
    return not f"{request.path_info}/".startswith(_program_paths) and prefers_page(request)


def prefers_page(request: HttpRequest) -> bool:
    """Tell whether the client says that it would rather have a page (Accept)."""
    accept = request.META.get("HTTP_ACCEPT", "")
    if _HTML not in accept or len(accept) > LONGEST_ACCEPT:
        return False
    return request.get_preferred_type(_OFFERED) == _HTML  # RFC 9110 §12.5.1


def page(template: str = "404.html", status: int = 404) -> HttpResponse:
    """Return the page, which a deployment may replace; nothing of the request is in it.

    Args:
        template: A template that needs no context.
        status: The status of the response.
    """
    return HttpResponse(
        render_to_string(template),
        status=status,
        headers={
            "Cache-Control": "no-store",
            "Content-Security-Policy": PAGE_POLICY,
            "Cross-Origin-Opener-Policy": "same-origin",
        },
    )


def page_for(request: HttpRequest, template: str = "404.html", status: int = 404) -> HttpResponse:
    """Return the page, for a path that nothing is at unless said otherwise, in the language of the reader.

    Args:
        request: Chooses the language.
        template: A template that needs no context.
        status: The status of the response.
    """
    with language.spoken(request) as code:
        response = page(template, status)
    language.declare(request, response, code)
    return response


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
    """Return the page that says when to try again.

    Args:
        request: Chooses the language.
        refused: The error, with its status and the seconds to wait.
    """
    response = render(request, "503.html", {"retry_after_s": refused.retry_after_s}, status=refused.status)
    for name, value in refused.headers.items():
        response.headers[name] = value
    return response


def for_ambiguous_cookies(request: HttpRequest, error: AmbiguousCookies) -> HttpResponse:
    """Return the answer to a request with ambiguous cookies, and log it.

    Args:
        request: The request that brings them.
        error: What reading them raised.
    """
    get_logger().warning("cookies_refused", path=request.path)
    if prefers_page(request):
        return page_for(request, "400_cookies.html", error.status)
    return exception_handler(error, {})


class CookieMiddleware(MiddlewareMixin):
    """Refuses such a request in the admin lane, before Django looks for a session."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Return the refusal, or nothing."""
        try:
            _ = request.COOKIES
        except AmbiguousCookies as error:
            return for_ambiguous_cookies(request, error)
        return None
