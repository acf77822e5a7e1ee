"""The answer to a request whose cookies are ambiguous, in both lanes: a page for people, a problem for programs."""

from django.http import HttpRequest, HttpResponse
from django.utils.deprecation import MiddlewareMixin

from ironauth.infrastructure.api.problem import exception_handler
from ironauth.infrastructure.http import error_pages
from ironauth.infrastructure.http.cookies.reader import AmbiguousCookies
from ironauth.infrastructure.telemetry.logs import get_logger

log = get_logger()


def refused(request: HttpRequest) -> HttpResponse | None:
    """Return the answer to a request with ambiguous cookies, None to any other one."""
    if "HTTP_COOKIE" not in request.META:
        return None
    try:
        _ = request.COOKIES
    except AmbiguousCookies as error:
        log.warning("cookies_refused", path=request.path)
        if error_pages.prefers_page(request):
            return error_pages.page("400_cookies.html", error.status)
        return exception_handler(error, {})
    return None


class CookieMiddleware(MiddlewareMixin):
    """Refuses such a request in the admin lane, before Django looks for a session."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Return the refusal, or nothing."""
        return refused(request)
