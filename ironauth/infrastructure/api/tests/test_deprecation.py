"""An operation that will end: one mark, two headers, and a word in the document. Nothing of the API has it today."""

import json
from datetime import date
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.test import RequestFactory
from django.urls import path
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema

from ironauth import pages
from ironauth.infrastructure.api.deprecation import SHORTEST_DAYS, deprecated
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import NotFound

SINCE = date(2026, 12, 1)
SUNSET = date(2027, 12, 1)
TOLD = {
    "Deprecation": "@1796083200",  # date -u -d 2026-12-01 +%s
    "Sunset": "Wed, 01 Dec 2027 00:00:00 GMT",
    "Link": '</api/docs>; rel="deprecation"; type="text/html"',
}


class OldView(AsyncAPIView):
    """A view of two operations, one of which will end."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(summary="Old")
    @deprecated(since=SINCE, sunset=SUNSET, instead="POST /api/v1/things")
    async def get(self, request: ApiRequest) -> None:
        """Say nothing."""
        if "missing" in request.GET:
            raise NotFound

    @extend_schema(summary="New")
    async def post(self, request: ApiRequest) -> None:
        """Say nothing."""


def answered(method: str, query: str = "") -> dict[str, Any]:
    """Return the headers of an answer."""
    request = RequestFactory().generic(method, f"/api/v1/things{query}")
    return dict(async_to_sync(OldView.as_view())(request).headers.items())


@pytest.mark.parametrize(("method", "query"), [("GET", ""), ("HEAD", ""), ("GET", "?missing=1")])
def test_every_answer_of_a_marked_operation_says_so(method: str, query: str) -> None:
    """A success, an answer without a body and an error carry both dates, and where to read more."""
    headers = answered(method, query)
    assert {name: headers.get(name) for name in TOLD} == TOLD


def test_its_neighbour_says_nothing() -> None:
    """Another method of the same path stays."""
    assert not TOLD.keys() & answered("POST").keys()


def test_the_document_marks_it() -> None:
    """The operation is ``deprecated`` there, with both dates and what to call; its neighbour is not."""
    generator = SchemaGenerator(patterns=[path("api/v1/things", OldView.as_view())])  # type: ignore[no-untyped-call]  # half annotated
    item = generator.get_schema(request=None, public=True)["paths"]["/api/v1/things"]  # type: ignore[no-untyped-call]  # same
    assert item["get"]["deprecated"] is True
    words = "Deprecated since 2026-12-01, and gone after 2027-12-01. Call POST /api/v1/things in its place."
    assert item["get"]["description"].startswith(words)
    assert "deprecated" not in item["post"]


@pytest.mark.parametrize(("days", "allowed"), [(SHORTEST_DAYS, True), (SHORTEST_DAYS - 1, False)])
def test_nothing_ends_earlier_than_is_promised(days: int, *, allowed: bool) -> None:
    """A year at least lies between the two dates."""
    sunset = date.fromordinal(SINCE.toordinal() + days)
    if allowed:
        assert deprecated(since=SINCE, sunset=sunset, instead="GET /x")(answered) is answered
        del answered.ironauth_deprecation  # type: ignore[attr-defined]  # the mark just made
    else:
        with pytest.raises(ImproperlyConfigured, match="365 days"):
            deprecated(since=SINCE, sunset=sunset, instead="GET /x")


def test_nothing_of_the_api_is_deprecated() -> None:
    """No operation of the document is marked. Who marks one names it here and in the changelog."""
    paths = json.loads(pages.OPENAPI_FILE.read_bytes())["paths"]
    assert not [name for name, item in paths.items() if any("deprecated" in one for one in item.values())]
