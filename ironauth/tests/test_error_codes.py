"""The registry of error codes: complete, no more than that, and where the ``type`` of every problem leads to."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from rest_framework import exceptions as drf

import ironauth.urls  # noqa: F401 - loads every module that defines errors
from ironauth import pages
from ironauth.config import error_codes
from ironauth.config.error_codes import CHAPTERS, CODES, OAUTH_ERRORS, ErrorCode
from ironauth.infrastructure.api.problem import _DJANGO_ERRORS, problem_body
from ironauth.infrastructure.core.errors import DomainError
from tokens.clients.errors import OAuthError
from tokens.oauth.endpoint import TEMPORARILY_UNAVAILABLE

ROOT = Path(settings.BASE_DIR)
OURS = ("ironauth", "accounts", "tokens")
#: DRF's own errors that views of ours give.
OF_DRF = (
    drf.ValidationError, drf.ParseError, drf.NotAuthenticated, drf.PermissionDenied, drf.NotFound, drf.MethodNotAllowed,
    drf.UnsupportedMediaType, drf.Throttled,
)  # fmt: skip
#: Only in redirects to an application: no answer has them.
IN_REDIRECTS = {"login_required", "consent_required", "invalid_request_uri"}
#: Given to people on pages; the operations that begin the same things do not answer with them.
ON_PAGES = {"identity_taken", "upstream_refused"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Return the document as it is served."""
    return dict(json.loads(pages.OPENAPI_FILE.read_bytes()))


def _below(kind: type[Any]) -> Iterator[Any]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def _written() -> Iterator[tuple[str, int]]:
    """Yield code and status of every refusal that is written out where it is made."""
    for room in OURS:
        for file in (ROOT / room).rglob("*.py"):
            if {"tests", "project_template", "pages"} & set(file.parts):  # the pages have a Refusal of their own
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Refusal", "problem_response"):
                    given = [*node.args, *(one.value for one in node.keywords if one.arg in ("status", "code"))]
                    values = [one.value for one in given if isinstance(one, ast.Constant)]
                    status = next((value for value in values if isinstance(value, int)), None)
                    code = next((value for value in values if re.fullmatch("[a-z_]+", str(value))), None)
                    if status is not None and code is not None:
                        yield str(code), status


def _given() -> set[tuple[str, int]]:
    """Return code and status of everything that leaves as a problem document."""
    classes = [one for one in {*_below(DomainError), DomainError} if one.__module__.split(".")[0] in OURS]
    found = {(one.code, int(one.status)) for one in classes if not issubclass(one, OAuthError) and one.status >= 400}
    found |= {(one.default_code, one.status_code) for one in OF_DRF}
    found |= {(code, status) for _, status, code, _ in _DJANGO_ERRORS}
    return found | set(_written())


def test_every_code_is_in_the_registry_and_no_other() -> None:
    """What can be answered, by an error of ours, Django's or DRF's, is listed with its status, and nothing else is."""
    assert {(one.code, status) for one in CODES.values() for status in one.statuses} == _given()
    assert len(CODES) == sum(len(codes) for codes in CHAPTERS.values())


def test_every_oauth_error_is_in_the_registry_and_no_other() -> None:
    """Each registered ``error`` that a class or an endpoint of ours has is listed, and nothing else is."""
    found: set[Any] = {*_below(OAuthError), OAuthError}
    classes = [one for one in found if one.__module__.split(".")[0] in OURS]
    of_userinfo = {"invalid_token", "invalid_dpop_proof", "insufficient_scope"}
    given = {str(one.error) for one in classes} | {TEMPORARILY_UNAVAILABLE} | of_userinfo
    assert set(OAUTH_ERRORS) == given


def test_every_code_has_a_meaning_and_a_remedy() -> None:
    """Both are sentences."""
    for one in (*CODES.values(), *OAUTH_ERRORS.values()):
        assert one.meaning.endswith(".")
        assert one.remedy.endswith(".")


def _answers(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield operation, status and properties of every error answer."""
    schemas = document["components"]["schemas"]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for status, answer in operation["responses"].items():
                for media in answer.get("content", {}).values() if status >= "4" else ():
                    name = media["schema"].get("$ref", "").rpartition("/")[2]
                    yield f"{method.upper()} {path}", status, schemas.get(name, {}).get("properties", {})


def test_every_error_answer_lists_its_codes(document: dict[str, Any]) -> None:
    """Each error answer of each operation lists its ``code`` or ``error``, all of the registry and of its status."""
    for operation, status, fields in _answers(document):
        if operation in ("GET /health", "GET /oauth/authorize", "GET /oauth/logout"):  # a report, and pages
            continue
        member, registry = ("error", OAUTH_ERRORS) if "error" in fields else ("code", CODES)
        known: list[ErrorCode] = [registry[code] for code in fields[member]["enum"]]
        assert known, operation
        if status != "default":
            assert all(int(status) in one.statuses for one in known), (operation, status)


def test_every_code_is_an_answer_of_an_operation(document: dict[str, Any]) -> None:
    """What the registry lists, an operation can answer; apart from what any request can hear, and /metrics."""
    used = error_codes.operations(document)
    anywhere = {one.code for one in next(iter(CHAPTERS.values()))}
    alone = {"metrics_token_required", "conflict", *ON_PAGES}
    assert set(CODES) - anywhere - set(used) == alone
    assert set(OAUTH_ERRORS) - set(used) == IN_REDIRECTS
    any_status = set(document["components"]["schemas"]["ProblemDefault"]["properties"]["code"]["enum"])
    assert anywhere <= any_status


async def test_the_type_of_a_problem_leads_to_its_place_on_the_page(api: httpx.AsyncClient) -> None:
    """``type`` is a path of this host with the code as fragment, and the page has that place."""
    refused = (await api.get("/api/v1/access/me")).json()
    assert refused["type"] == f"/api/errors#{refused['code']}"
    path, _, fragment = refused["type"].partition("#")
    page = await api.get(path)
    assert page.status_code == 200
    assert f'id="{fragment}"' in page.text


async def test_the_page_has_every_code_once_with_its_operations(api: httpx.AsyncClient) -> None:
    """Each code has one place, with the operations that answer it; what anything may answer says that."""
    text = (await api.get("/api/errors")).text
    assert re.findall(r'<section id="([a-z_]+)">', text) == list(CODES)
    assert re.findall(r'<section id="oauth-([a-z_]+)">', text) == list(OAUTH_ERRORS)
    place = text.partition('<section id="email_taken">')[2].partition("</section>")[0]
    assert "<code>POST /api/v1/access/signup</code>" in place
    assert "GET /api/v1/access/me<" not in place


def test_a_code_of_somebody_else_has_no_page() -> None:
    """A project that answers with codes of its own is not sent to a page that does not know them."""
    for code, kind in (("out_of_stock", "about:blank"), ("not_found", "/api/errors#not_found")):
        body = problem_body(status=404, code=code, title="Not Found", detail="", request_id="x")
        assert json.loads(body)["type"] == kind
