"""What people get at an address nobody serves: a page with ways on. Programs get the problem document."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from ironauth.infrastructure.api.problem import MEDIA_TYPE

#: Where programs ask, whatever they accept; below each of these everything that fails is a problem document.
PROGRAMS: Final = ("/api/", "/oauth/", "/.well-known/")
#: For a page without scripts and forms, whose style and icon are this server's.
PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LONGEST_ACCEPT: Final = 512  # characters, browsers send 150; one of 8,000 would keep the event loop for 30 ms
_HTML: Final = "text/html"
#: In the order in which we would choose: who accepts anything is a program.
_OFFERED: Final = (MEDIA_TYPE, "application/json", _HTML)


def wants_page(request: HttpRequest) -> bool:
    """Tell whether somebody looks at the answer in a browser, and not where programs ask."""
    return not f"{request.path_info}/".startswith(PROGRAMS) and prefers_page(request)


def prefers_page(request: HttpRequest) -> bool:
    """Tell whether the client says that it would rather have a page (Accept)."""
    accept = request.META.get("HTTP_ACCEPT", "")
    if _HTML not in accept or len(accept) > LONGEST_ACCEPT:
        return False
    return request.get_preferred_type(_OFFERED) == _HTML  # RFC 9110 §12.5.1


def page(template: str = "404.html", status: int = 404) -> HttpResponse:
    """Return the page, which a deployment may replace; nothing of the request is in it."""
    return HttpResponse(
        render_to_string(template),
        status=status,
        headers={
            "Cache-Control": "no-store",
            "Content-Security-Policy": PAGE_POLICY,
            "Cross-Origin-Opener-Policy": "same-origin",
        },
    )
