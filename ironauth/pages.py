"""The pages people open: what this is, and the API's documentation. Nothing on them comes from another host."""

import json
from datetime import timedelta
from functools import cache
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse

from ironauth.config import error_codes
from ironauth.infrastructure.api import openapi_examples
from ironauth.infrastructure.api.read_only import read_only
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.http import brand, language
from ironauth.infrastructure.http.error_pages import PAGE_POLICY
from ironauth.infrastructure.http.error_pages import page_for as error_page_for
from ironauth.infrastructure.http.middleware import RESOURCE_POLICY

OPENAPI_FILE = Path(__file__).with_name("openapi.json")
SECURITY_TXT_DAYS = 180  # RFC 9116 §2.5.5: less than a year; it is made anew for each reader
PUBLIC_FOR_S = 300  # seconds a browser may keep a page; after an upgrade it is old for five minutes at most
# Scripts and styles come from /static/ only, nothing inline. Swagger UI shows its icons as data: images, and talks to
# this host's API and to nothing else.
DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@cache
def _page(template: str, _language: str | None = None) -> bytes:
    """Return the page, rendered once a language: it depends on nothing but the code and the settings."""
    return render_to_string(template).encode()


@cache
def _document() -> bytes:
    """Return the committed OpenAPI document; reading it once keeps the disk out of the event loop."""
    return OPENAPI_FILE.read_bytes()


@cache
def _entries() -> dict[str, list[error_codes.Entry]]:
    """Return what there is to say of each code, by chapter."""
    return error_codes.entries(json.loads(_document()))


@cache
def _error_codes() -> bytes:
    """Return the page that lists the error codes, rendered once."""
    return render_to_string("ironauth/errors.html", {"chapters": _entries()}).encode()


@cache
def _by_place() -> dict[str, error_codes.Entry]:
    return {entry.place: entry for entries in _entries().values() for entry in entries}


def _error_code(entry: error_codes.Entry) -> bytes:
    """Return the page of a code. It takes a millisecond, and few are read."""
    found = {"entry": entry, "answers": openapi_examples.answers(entry)}
    return render_to_string("ironauth/error_code.html", found).encode()


@cache
def _icon() -> bytes:
    """Return the icon, read once."""
    return Path(__file__).with_name("static").joinpath("ironauth", "icon.svg").read_bytes()


def _public(content: bytes, content_type: str, policy: str | None = None) -> HttpResponse:
    """Return a response that is the same for everybody."""
    headers = {"Cache-Control": f"public, max-age={PUBLIC_FOR_S}"}
    if policy is not None:
        headers["Content-Security-Policy"] = policy
        headers["Cross-Origin-Opener-Policy"] = "same-origin"  # as Django's SecurityMiddleware does for the admin
    return HttpResponse(content, content_type=content_type, headers=headers)


@read_only
async def home(request: HttpRequest) -> HttpResponse:
    """Say what this is, with links to account pages, documentation, the admin and the health report."""
    with language.spoken(request) as code:
        is_plain = not brand.banner()
        page = _page("ironauth/home.html", code) if is_plain else render_to_string("ironauth/home.html").encode()
        response = _public(page, "text/html; charset=utf-8", PAGE_POLICY)
    if not is_plain:
        response.headers["Cache-Control"] = "no-store"
    language.declare(request, response, code)
    return response


@read_only
async def docs(_request: HttpRequest) -> HttpResponse:
    """Show the OpenAPI document with Swagger UI."""
    return _public(_page("ironauth/docs.html"), "text/html; charset=utf-8", DOCS_POLICY)


@read_only
async def errors(_request: HttpRequest) -> HttpResponse:
    """List every code, where ``type`` of a problem document leads to; a script goes on to the code's page."""
    return _public(_error_codes(), "text/html; charset=utf-8", f"{PAGE_POLICY}; script-src 'self'")


@read_only
async def error_code(request: HttpRequest, place: str) -> HttpResponse:
    """Explain one code: an example, what the caller and the operator do, and which operations answer it.

    Args:
        request: Chooses the form of the answer where there is no such code.
        place: The code, with ``oauth-`` before it if it is an error of an OAuth endpoint.
    """
    if (entry := _by_place().get(place)) is None:
        return error_page_for(request)
    return _public(_error_code(entry), "text/html; charset=utf-8", PAGE_POLICY)


@read_only
async def openapi(_request: HttpRequest) -> HttpResponse:
    """Return the OpenAPI document that was built from this code."""
    return _public(_document(), "application/json")


@read_only
async def brand_style(_request: HttpRequest) -> HttpResponse:
    """Return the operator's colour, which pages link where one is set."""
    response = _public(brand.style().encode(), "text/css; charset=utf-8")
    response.headers.setdefault(*RESOURCE_POLICY)
    return response


@read_only
async def favicon(_request: HttpRequest) -> HttpResponse:
    """Return the icon browsers ask for where a page names none, for instance a JSON answer opened in a tab."""
    response = _public(_icon(), "image/svg+xml")
    response.headers.setdefault(*RESOURCE_POLICY)
    return response


@read_only
async def change_password(_: HttpRequest) -> HttpResponse:
    """Lead a password manager to where people change their password (W3C, A Well-Known URL for Changing Passwords)."""
    return HttpResponseRedirect(reverse("email-pages:account-row", kwargs={"section": "password"}))


@read_only
async def security_txt(request: HttpRequest) -> HttpResponse:
    """Say how a hole is reported here (RFC 9116), where the operator has said so."""
    if not settings.IRONAUTH_SECURITY_CONTACT:
        return error_page_for(request)
    expires = clock.now().replace(microsecond=0) + timedelta(days=SECURITY_TXT_DAYS)
    lines = [f"Contact: {one}" for one in settings.IRONAUTH_SECURITY_CONTACT]
    lines += [f"Expires: {expires:%Y-%m-%dT%H:%M:%SZ}", f"Canonical: {settings.IRONAUTH_ISSUER}{request.path}"]
    return _public("\n".join([*lines, ""]).encode(), "text/plain; charset=utf-8")
