"""Problem documents (RFC 9457)."""

import json
from types import SimpleNamespace

import pytest
from django.core.exceptions import (
    DisallowedHost,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
    TooManyFieldsSent,
)
from django.http import Http404
from django.test import override_settings
from django.utils.translation import gettext_lazy
from rest_framework import exceptions as drf

from ironauth.infrastructure.api.problem import exception_handler, flatten, problem_response
from ironauth.infrastructure.core import errors, ids


def test_a_problem_has_every_member_in_the_contracts_order() -> None:
    """The request id is the current one, and the document may not be stored."""
    token = ids.enter_request("rid-7")
    response = problem_response(
        status=400, code="c", title="T", detail="D", errors=[errors.FieldError("f", "x", "m")], members={"extra": 1}
    )
    ids.leave_request(token)
    assert list(json.loads(response.content)) == [
        "type", "title", "status", "detail", "code", "request_id", "errors", "extra",
    ]  # fmt: skip
    assert json.loads(response.content)["request_id"] == "rid-7"
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.headers["Cache-Control"] == "no-store"


def test_a_problem_outside_a_request_still_has_an_id() -> None:
    """Thirty-two hexadecimal digits."""
    assert len(json.loads(problem_response(status=404, code="c", title="T", detail="D").content)["request_id"]) == 32


@pytest.mark.parametrize(
    ("exc", "status", "code"),
    [
        (Http404("internal"), 404, "not_found"),
        (PermissionDenied("internal"), 403, "permission_denied"),
        (DisallowedHost("internal"), 400, "bad_host"),
        (RequestDataTooBig("internal"), 413, "body_too_large"),
        (TooManyFieldsSent("internal"), 400, "bad_request"),
        (SuspiciousOperation("internal"), 400, "bad_request"),
        (drf.NotFound(), 404, "not_found"),
        (drf.Throttled(), 429, "throttled"),
        (drf.PermissionDenied(gettext_lazy("No.")), 403, "permission_denied"),
        (errors.BadRequest(), 400, "bad_request"),
        (errors.NotFound(), 404, "not_found"),
        (errors.PermissionDenied(), 403, "permission_denied"),
        (errors.Unavailable(), 503, "unavailable"),
        (errors.Overloaded(), 503, "overloaded"),
        (KeyError("internal"), 500, "internal_error"),
    ],
)
def test_every_kind_of_error_has_its_answer(exc: Exception, status: int, code: str) -> None:
    """Stable code, right status, no internals; 503 says when to come back."""
    response = exception_handler(exc, {})
    body = json.loads(response.content)
    assert (response.status_code, body["status"], body["code"]) == (status, status, code)
    assert b"internal" not in response.content.replace(b"internal_error", b"").replace(b"Internal Server Error", b"")
    assert ("Retry-After" in response.headers) is (status == 503)


def test_a_debugger_may_ask_for_the_exception_itself() -> None:
    """DEBUG_PROPAGATE_EXCEPTIONS keeps Django's meaning."""
    with override_settings(DEBUG_PROPAGATE_EXCEPTIONS=True), pytest.raises(KeyError):
        exception_handler(KeyError("x"), {})


def test_nested_errors_are_flattened() -> None:
    """Dotted paths, list positions, whole-object errors, and several messages about one field."""
    detail = drf.ValidationError(
        {
            "a": ["one", "two"],
            "b": {"c": ["deep"], "non_field_errors": ["whole b"]},
            "d": [{}, {"e": ["item"]}],
            "non_field_errors": ["whole"],
            "f": "text",
        }
    ).detail
    assert [(error.field, error.message) for error in flatten(detail)] == [
        ("a", "one"), ("a", "two"), ("b.c", "deep"), ("b", "whole b"), ("d.1.e", "item"), ("", "whole"), ("f", "text"),
    ]  # fmt: skip
    assert {error.code for error in flatten(detail)} == {"invalid"}


def test_retry_after_is_at_least_one_second() -> None:
    """Zero would invite an immediate retry."""
    assert errors.Overloaded(retry_after_s=0).headers["Retry-After"] == "1"


@pytest.mark.parametrize("says", ["Show your card.", ""])
def test_a_missing_credential_is_asked_for_in_the_words_of_its_authenticator(says: str) -> None:
    """The detail is the ``missing_credential`` of the view's first authenticator, or what DRF says."""
    authenticator = type("Cards", (), {"missing_credential": says} if says else {})
    view = SimpleNamespace(authentication_classes=[authenticator])
    answer = exception_handler(drf.NotAuthenticated(), {"view": view})
    assert answer.status_code == 401
    assert json.loads(answer.content)["detail"] == (says or str(drf.NotAuthenticated.default_detail))
