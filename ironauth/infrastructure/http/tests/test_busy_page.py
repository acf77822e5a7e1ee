"""The admin lane's pages for what went wrong: they read well, lead back, and load nothing from elsewhere."""

import sqlite3

import httpx
import pytest
from django.conf import settings
from django.db import IntegrityError, OperationalError, ProgrammingError
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.test import Client, RequestFactory

from ironauth.infrastructure.core.errors import NotFound, Overloaded, Unavailable
from ironauth.infrastructure.http.error_pages import BusyPageMiddleware


def _middleware() -> BusyPageMiddleware:
    def unused(_request: HttpRequest) -> None:
        raise AssertionError("not called")

    return BusyPageMiddleware(unused)  # type: ignore[arg-type]


@pytest.mark.parametrize("refusal", [Overloaded(retry_after_s=7), Unavailable(retry_after_s=7)])
def test_full_resources_are_a_page_with_retry_after(refusal: Exception) -> None:
    """503 says when to try again, to people and to programs; the middleware is part of the admin lane."""
    answer = _middleware().process_exception(RequestFactory().get("/admin/"), refusal)
    assert answer is not None
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "7")
    assert b"Try again in 7 s" in answer.content
    assert "ironauth.infrastructure.http.error_pages.BusyPageMiddleware" in settings.MIDDLEWARE


def test_a_database_lost_on_the_way_is_the_page_too() -> None:
    """A connection that breaks while the page is made is not a mistake of the page."""
    lost = OperationalError("database is locked")
    lost.__cause__ = sqlite3.OperationalError("database is locked")
    lost.__cause__.sqlite_errorcode = sqlite3.SQLITE_BUSY
    answer = _middleware().process_exception(RequestFactory().get("/admin/"), lost)
    assert answer is not None
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


def test_other_exceptions_are_left_alone() -> None:
    """A mistake stays a 500, and is logged as one."""
    for other in (NotFound(), ValueError("x"), IntegrityError("x"), ProgrammingError("no such table")):
        assert _middleware().process_exception(RequestFactory().get("/admin/"), other) is None


@pytest.mark.parametrize("name", ["400", "403", "403_csrf", "404", "500", "503"])
def test_each_page_leads_back(name: str) -> None:
    """Every page stands alone, without a request, and links to the admin and the start page."""
    page = render_to_string(f"{name}.html")
    assert 'href="/admin/"' in page
    assert 'href="/"' in page
    assert "<script" not in page
    assert "<style" not in page


@pytest.mark.django_db
def test_the_admin_lane_uses_them() -> None:
    """Nothing there, and a form out of date, are answered with these pages."""
    missing = Client(raise_request_exception=False).get("/static/none")
    assert missing.status_code == 404
    stale = Client(enforce_csrf_checks=True).post("/admin/login/", {"username": "a", "password": "b"})
    assert stale.status_code == 403
    for answer in (missing, stale):
        assert b"Start page" in answer.content


async def test_browsers_find_an_icon(api: httpx.AsyncClient) -> None:
    """/favicon.ico is the icon of the pages."""
    answer = await api.get("/favicon.ico")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "image/svg+xml"
    assert answer.text.startswith("<svg")
