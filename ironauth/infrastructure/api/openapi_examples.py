"""Examples in the OpenAPI document: what a server was sent and has answered, and an error for each set of codes.

Bodies come from a file that a test has a live server confirm (``ironauth/tests/test_openapi_examples.py``).
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from django.core.exceptions import ImproperlyConfigured

from ironauth.config.error_codes import CODES, OAUTH_ERRORS, Entry, problem_type
from ironauth.config.openapi import EXAMPLES_FILE
from ironauth.infrastructure.core.errors import DomainError

type JsonSchema = dict[str, Any]

#: What an example shows where an operation has no code of its own: the first of these that it can answer.
_TYPICAL: Final = ("invalid", "not_authenticated", "permission_denied", "internal_error", "overloaded", "bad_request")
_REQUEST_ID: Final = "01a1fd5323067109880a6a7906d2274d"


@cache
def _bodies() -> dict[str, Any]:
    """Return the example of each component that is a body."""
    found: dict[str, Any] = json.loads(EXAMPLES_FILE.read_text(encoding="utf-8"))
    return found


def add_examples(operation: JsonSchema) -> None:
    """Add to every body of an operation the example of its component, if it has one.

    Args:
        operation: The operation, with its request and answers.

    Raises:
        ImproperlyConfigured: A body has no example.
    """
    bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
    for media in (media for body in bodies for media in body.get("content", {}).values()):
        schema = media["schema"]
        name = schema.get("items", schema).get("$ref", "").rpartition("/")[2]
        if not name or name.startswith(("Problem", "OAuthError")):
            continue
        if name not in _bodies():
            raise ImproperlyConfigured(f"{operation['operationId']} needs an example of {name} in {EXAMPLES_FILE.name}")
        found = _bodies()[name]
        media["example"] = [found] if schema.get("type") == "array" else found


def problem(status: str, codes: Sequence[str], own: Sequence[str]) -> dict[str, object]:
    """Return an example of a problem document.

    Args:
        status: The status of the answer, or ``default``.
        codes: What ``code`` may be.
        own: Those that not every operation of its kind has: one of them is shown.
    """
    code = next(iter([*own, *(one for one in _TYPICAL if one in codes), *codes]))
    answered = int(status) if status.isdigit() else CODES[code].statuses[0]
    error = next((one for one in _errors() if (one.code, one.status) == (code, answered)), None)
    return {
        "type": problem_type(code),
        "title": error.title if error else HTTPStatus(answered).phrase,
        "status": answered,
        "detail": str(error.detail) if error else CODES[code].meaning,
        "code": code,
        "request_id": _REQUEST_ID,
        **CODES[code].members,
    }


def oauth_error(errors: Sequence[str]) -> dict[str, object]:
    """Return an example of an error of RFC 6749 §5.2.

    Args:
        errors: What ``error`` may be; the last is shown.
    """
    error = errors[-1]
    return {"error": error, "error_description": OAUTH_ERRORS[error].meaning}


def answers(entry: Entry) -> list[str]:
    """Return what the page of a code shows of HTTP: one answer for each status, without most of its header fields.

    Args:
        entry: What the page is about.
    """
    code, found = entry.one.code, []
    for status in entry.statuses:
        head = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        if status == HTTPStatus.SEE_OTHER:
            told = {"error": code, "error_description": entry.one.meaning, "state": "…", "iss": "…"}
            found.append("\n".join([*head, f"Location: https://app.example.com/callback?{urlencode(told, safe='…')}"]))
            continue
        body = oauth_error([code]) if entry.is_oauth else problem(str(status), [code], [code])
        head += [f"Content-Type: {'application/json' if entry.is_oauth else 'application/problem+json'}"]
        head += ["Retry-After: 30"] if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE) else []
        found.append("\n".join([*head, "", json.dumps(body, indent=2, ensure_ascii=False)]))
    return found


def _errors(kind: type[DomainError] = DomainError) -> Iterator[type[DomainError]]:
    for one in sorted(kind.__subclasses__(), key=lambda each: (each.__module__, each.__name__)):
        yield one
        yield from _errors(one)
