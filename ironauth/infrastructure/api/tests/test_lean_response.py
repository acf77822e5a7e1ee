"""The lean response is Django's."""

from typing import Any

import pytest
from django.http import HttpResponse

from ironauth.infrastructure.api.renderers import LeanResponse


def held(response: HttpResponse) -> dict[str, Any]:
    """Return everything a response holds, its fields by their keys."""
    return {**vars(response), "headers": response.headers._store}


@pytest.mark.parametrize(("body", "media_type", "status"), [(b"{}", "application/json", 200), (b"", "text/plain", 404)])
def test_everything_is_as_django_has_it(body: bytes, media_type: str, status: int) -> None:
    """Attributes, fields, content and reason; and it takes more content, fields and cookies like any other."""
    lean, stock = LeanResponse(body, media_type, status), HttpResponse(body, content_type=media_type, status=status)
    for response in (lean, stock):
        assert (response.status_code, response.content) == (status, body)
        response.write("é")
        response["X-Further"] = "1"
        response.set_cookie("a", "b")
    assert held(lean) == held(stock)
    assert (lean.content, lean.charset, lean.reason_phrase) == (stock.content, stock.charset, stock.reason_phrase)
    assert (lean.serialize(), lean.cookies.output()) == (stock.serialize(), stock.cookies.output())
