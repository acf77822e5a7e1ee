"""The lean request is Django's, whatever the scope."""

from io import BytesIO
from typing import Any

import pytest
from django.core.exceptions import BadRequest
from django.core.handlers.asgi import ASGIRequest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from ironauth.infrastructure.http import fast_request as lean_request
from ironauth.infrastructure.http.fast_request import LeanRequest, StrictRequest
from ironauth.tests.asgi_conversation import Conversation

NAMES = [
    b"host", b"cookie", b"content-type", b"content-length", b"accept", b"x-request-id", b"x_request_id",
    b"authorization", b"content_type", b"x-\xe9", b"", b"a-b-c",
]  # fmt: skip
VALUES = [
    b"", b"a", b"a=b; ", b"; ", b"text/plain; charset=utf-8", b"text/plain; charset=latin1", b"a,b", b"\xff", b"1",
]  # fmt: skip
FIELDS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=8)
SCOPES = st.fixed_dictionaries(
    {
        "headers": FIELDS,
        "method": st.sampled_from(["GET", "post", "PATCH"]),
        "query_string": st.sampled_from([b"", b"a=1", "é=1".encode()]),
        "client": st.sampled_from([None, ("192.0.2.1", 5), ["::1", 0]]),
        "server": st.sampled_from([None, ("127.0.0.1", 80), ("/run/x.sock", None)]),
        "root_path": st.sampled_from(["", "/mounted"]),
        "path": st.sampled_from(["/", "/mounted/a", "/é"]),
    }
)


def seen(kind: type[ASGIRequest], scope: dict[str, Any]) -> dict[str, Any]:
    """Return everything a request of this kind holds, but the body stream."""
    request = kind(scope, BytesIO(b"body"))
    held = {name: value for name, value in vars(request).items() if name not in ("_stream", "environ")}
    return {
        **held,
        "body": request.read(),
        "scheme": request.scheme,
        "host": request.META.get("HTTP_HOST"),
        "cookies": request.COOKIES,
    }


@given(SCOPES)
def test_everything_is_as_django_has_it(given_scope: dict[str, Any]) -> None:
    """Names, joined values, cookies, content type, encoding, paths and addresses."""
    scope = {**Conversation("/").scope, **given_scope}
    assert seen(LeanRequest, scope) == seen(StrictRequest, scope)


@override_settings(FORCE_SCRIPT_NAME="/forced")
def test_a_forced_script_name_is_kept() -> None:
    """The setting is Django's to interpret."""
    scope = Conversation("/forced/a").scope
    assert seen(LeanRequest, scope) == seen(ASGIRequest, scope)


def test_what_django_refuses_is_refused() -> None:
    """A query that is no UTF-8 and a Content-Type without end raise the same errors."""
    query = Conversation("/", query_string=b"\xff").scope
    endless = Conversation("/", headers={"content-type": "text/plain; " + "a=b;" * 10_000}).scope
    for kind in (LeanRequest, ASGIRequest):
        with pytest.raises(UnicodeDecodeError):
            seen(kind, query)
        with pytest.raises(BadRequest):
            seen(kind, endless)


def test_remembered_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that invents names fills nothing."""
    monkeypatch.setattr(lean_request, "_names", {})
    for number in range(lean_request.MAX_NAMES + 10):
        scope = Conversation("/", headers={f"x-{number}": "1"}).scope
        assert LeanRequest(scope, BytesIO()).META[f"HTTP_X_{number}"] == "1"
    assert len(lean_request._names) == lean_request.MAX_NAMES
