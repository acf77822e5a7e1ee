"""How tokens leave, and what is kept of where a request came from."""

from typing import Any

import pytest
from django.test import RequestFactory

from ironauth.infrastructure.http.client_context import context_of
from tokens.sessions.transport import cleared_response, no_content


@pytest.mark.parametrize(
    ("peer", "kept"),
    [("192.0.2.7", "192.0.2.7"), ("2001:DB8::1", "2001:db8::1"), ("fe80::1%eth0", "fe80::1"), ("", ""), ("x", "")],
)
def test_address(peer: str, kept: str) -> None:
    """Only an IP address is kept, in one spelling and without zone; anything else is unknown, not an error."""
    assert context_of(RequestFactory().get("/", REMOTE_ADDR=peer)).address == kept


def test_forwarded_address(settings: Any) -> None:
    """Behind a trusted proxy the client's own address is kept; from anyone else the header means nothing."""
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1", headers={"x-forwarded-for": "192.0.2.7"})
    assert context_of(request).address == "10.0.0.1"
    settings.IRONAUTH_TRUSTED_PROXIES = ["10.0.0.0/8"]
    assert context_of(request).address == "192.0.2.7"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("curl/8", "curl/8"), ("a\x00b\r\nc\x1b[31m\u202ed", "abc[31md"), ("x" * 300, "x" * 255), ("", "")],
)
def test_user_agent(sent: str, kept: str) -> None:
    """The user agent is kept without control characters and at most 255 characters of it."""
    assert context_of(RequestFactory().get("/", HTTP_USER_AGENT=sent)).user_agent == kept


def test_no_content() -> None:
    """A 204 has neither body nor Content-Type; the clearing one ends both cookies at once."""
    assert not no_content().has_header("Content-Type")
    assert {name: morsel["max-age"] for name, morsel in cleared_response().cookies.items()} == {
        "access_token": 0,
        "refresh_token": 0,
    }
