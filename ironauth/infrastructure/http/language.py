"""The language of a page: chosen for each request, for pages only. The API and staff have stable English texts.

In this order: ``ui_locales`` of the request (OpenID Connect Core §3.1.2.1), the language that the person has chosen, of
which the browser has a cookie, the cookie that remembers ``ui_locales`` through the forms that follow,
``Accept-Language``. A page renders under ``spoken``; what a service says meanwhile is in the same
language, because threads of the pools get the context.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.utils.translation import get_supported_language_variant
from django.utils.translation import gettext_noop as _
from django.utils.translation.trans_real import parse_accept_lang_header

from ironauth.config.cookies import LANGUAGE, OWN_LANGUAGE
from ironauth.infrastructure.http import client_context, cookies

#: Characters of a header or parameter that are looked at; browsers send 60.
LONGEST: Final = 256
#: Seconds a language that a client asked for is remembered: a row of forms may take half an hour.
REMEMBERED_S: Final = 86_400
#: Seconds a browser remembers the language of the person who was last on their account page in it: browsers' most.
OWN_REMEMBERED_S: Final = 400 * 86_400
#: Languages of ``ui_locales`` that are looked at.
MOST_TAGS: Final = 8

#: Django's and the REST framework's own errors of forms, to be said as politely as ours.
FORM_ERRORS: Final = (
    _("This field is required."),
    _("This field may not be blank."),
    _("Enter a valid email address."),
    _("Ensure this field has no more than {max_length} characters."),
    _("Ensure this field has at least {min_length} characters."),
    _("Null characters are not allowed."),
)


def chosen(request: HttpRequest, *, of_person: str = "") -> str:
    """Return the code of the language for a request, one of ``settings.LANGUAGES``.

    Args:
        request: Of a page.
        of_person: The language that is kept for who asks; it goes before the browser's. "" where there is none.
    """
    for tags in (_asked(request), _kept(request), (of_person,), _accepted(request)):
        for tag in tags:
            if tag and (found := _supported(tag)):
                return found
    return settings.LANGUAGE_CODE


def current() -> str:
    """Return the language of what is written now: a page's, or that of the person who calls the API."""
    active = translation.get_language() or settings.LANGUAGE_CODE
    request = client_context.own_request()
    return chosen(request) if active == settings.LANGUAGE_CODE and request is not None else active


@contextmanager
def spoken(request: HttpRequest) -> Iterator[str]:
    """Speak the language of a request in this block, and return its code."""
    code = chosen(request)
    with translation.override(code):
        yield code


def declare(request: HttpRequest, response: HttpResponse, code: str) -> None:
    """Say in the response which language it has and what that depends on; remember one that the request asked for.

    Args:
        request: Its parameters may ask for a language.
        response: Gets the headers, and the cookie.
        code: The language that the response is in.
    """
    response.headers.setdefault("Content-Language", code)
    patch_vary_headers(response, ("Accept-Language", "Cookie"))
    if any(_supported(tag) == code for tag in _asked(request)):
        cookies.give(response, LANGUAGE, code, max_age_s=REMEMBERED_S)


def keep_own(response: HttpResponse, code: str) -> None:
    """Have the browser remember the language its person has chosen.

    Args:
        response: What the browser is answered.
        code: The language; "" makes the browser forget that of somebody before.
    """
    cookies.give(response, OWN_LANGUAGE, code, max_age_s=OWN_REMEMBERED_S if code else 0)


def _asked(request: HttpRequest) -> list[str]:
    return request.GET.get("ui_locales", "")[:LONGEST].split()[:MOST_TAGS]


def _kept(request: HttpRequest) -> list[str]:
    """Return what the browser's cookies say; nothing where they are ambiguous, which a page has to say."""
    try:
        held = request.COOKIES
    except cookies.AmbiguousCookies:
        return []
    return [held.get(cookies.name_of(cookie), "")[:LONGEST] for cookie in (OWN_LANGUAGE, LANGUAGE)]


def _accepted(request: HttpRequest) -> list[str]:
    header = request.META.get("HTTP_ACCEPT_LANGUAGE", "")
    if not header or len(header) > LONGEST:
        return []
    return [tag for tag, _ in parse_accept_lang_header(header) if tag != "*"]


def _supported(tag: str) -> str:
    """Return the language of ours for a tag, "" where there is none."""
    try:
        return get_supported_language_variant(tag)
    except LookupError:
        return ""


class PageLanguage:
    """Mixed into a view that answers with a page: its texts are in the language of the reader."""

    async def async_dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer as the view does, in the request's language."""
        with spoken(request) as code:
            response: HttpResponseBase = await super().async_dispatch(request, *args, **kwargs)  # type: ignore[misc] # of the view
        if isinstance(response, HttpResponse) and response.headers.get("Content-Type", "").startswith("text/html"):
            declare(request, response, code)
        return response
