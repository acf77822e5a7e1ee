"""The registry of error codes: complete, no more than that, and where the ``type`` of every problem leads to."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from django.conf import settings
from django.utils.html import escape
from rest_framework import exceptions as drf

import ironauth.urls  # noqa: F401 - loads every module that defines errors
from ironauth import pages
from ironauth.config import error_codes
from ironauth.config.error_codes import CHAPTERS, CODES, OAUTH_ERRORS
from ironauth.config.error_codes.code import ErrorCode
from ironauth.config.table import SETTINGS
from ironauth.infrastructure.api.openapi_examples import answers
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
IN_REDIRECTS = {"login_required", "unmet_authentication_requirements", "consent_required", "invalid_request_uri"}
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
    """Both are sentences, and so is what the operator does."""
    for one in (*CODES.values(), *OAUTH_ERRORS.values()):
        assert one.meaning.endswith(".")
        assert one.remedy.endswith(".")
        assert one.operator.endswith(".")


def test_operators_are_sent_to_settings_that_exist() -> None:
    """Each setting that the remedy of an operator names is one of the table."""
    named = {
        name
        for one in (*CODES.values(), *OAUTH_ERRORS.values())
        for name in re.findall(r"\b[A-Z]+_[A-Z_]+\b", one.operator)
    }
    assert {"IRONAUTH_TRUSTED_PROXIES", "ALLOWED_HOSTS"} <= named
    assert named <= set(SETTINGS)


def test_related_codes_are_codes_and_lead_back(document: dict[str, Any]) -> None:
    """Each page leads to pages that exist and lead back to it, and few pages lead nowhere."""
    near = {entry.place: set(entry.related) for chapter in error_codes.entries(document).values() for entry in chapter}
    assert set(near) == {*CODES, *(f"oauth-{error}" for error in OAUTH_ERRORS)}
    for place, others in near.items():
        assert others, place
        assert all(place in near[other] for other in others), place


def test_the_example_of_a_code_is_an_answer_with_it(document: dict[str, Any]) -> None:
    """Each status of a code has an example: its status, its code, and a ``type`` that leads to its place."""
    for chapter in error_codes.entries(document).values():
        for entry in chapter:
            shown = [answer.partition("\n\n") for answer in answers(entry)]
            assert [int(head.split()[1]) for head, _, _ in shown] == list(entry.statuses)
            for head, _, text in shown:
                if entry.is_oauth:
                    told = json.loads(text)["error"] if text else parse_qs(head.partition("?")[2])["error"][0]
                    assert told == entry.one.code
                    continue
                body = json.loads(text)
                assert (body["code"], body["type"]) == (entry.place, f"/api/errors#{entry.place}")
                assert head.split()[1] == str(body["status"])


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
    assert {error for error in OAUTH_ERRORS if f"oauth-{error}" not in used} == IN_REDIRECTS
    any_status = set(document["components"]["schemas"]["ProblemDefault"]["properties"]["code"]["enum"])
    assert anywhere <= any_status


async def test_the_type_of_a_problem_leads_to_its_place_on_the_page(api: httpx.AsyncClient) -> None:
    """``type`` is a path of this host with the code as fragment, and the page has that place, which leads on."""
    refused = (await api.get("/api/v1/access/me")).json()
    assert refused["type"] == f"/api/errors#{refused['code']}"
    path, _, fragment = refused["type"].partition("#")
    page = await api.get(path)
    assert page.status_code == 200
    assert f'id="{fragment}"' in page.text


async def test_the_page_lists_every_code_once(api: httpx.AsyncClient) -> None:
    """Each code has one place, and so has each error of the OAuth endpoints."""
    text = (await api.get("/api/errors")).text
    assert re.findall(r'<section id="([a-z_]+)">', text) == list(CODES)
    assert re.findall(r'<section id="oauth-([a-z_]+)">', text) == list(OAUTH_ERRORS)


async def test_each_place_leads_to_the_page_of_its_code(api: httpx.AsyncClient) -> None:
    """Each page says what its code means and what the caller and the operator do; no other code has one."""
    listed = (await api.get("/api/errors")).text
    for place, one in (*CODES.items(), *((f"oauth-{error}", one) for error, one in OAUTH_ERRORS.items())):
        assert f'<section id="{place}">\n      <h3><a href="/api/errors/{place}">' in listed
        page = await api.get(f"/api/errors/{place}")
        assert page.status_code == 200, place
        for text in (one.meaning, one.remedy, one.operator):
            assert f"{escape(text)}</p>" in page.text
    for unknown in ("no_such_code", "oauth-email_taken"):
        assert (await api.get(f"/api/errors/{unknown}")).status_code == 404


async def test_the_page_of_a_code_has_its_example_and_its_operations(api: httpx.AsyncClient) -> None:
    """It has those that answer it and no other, and leads to the codes near it; namesakes have pages of their own."""
    page = (await api.get("/api/errors/email_taken")).text
    assert "<code>POST /api/v1/access/signup</code>" in page
    assert "GET /api/v1/access/me<" not in page
    assert "An account with this e-mail address exists already" in page
    assert '<a href="/api/errors/sign_up_closed">' in page
    namesake = (await api.get("/api/errors/oauth-invalid_request")).text
    assert "<code>POST /oauth/token</code>" in namesake
    assert "/api/v1/" not in namesake


def test_a_code_of_somebody_else_has_no_page() -> None:
    """A project that answers with codes of its own is not sent to a page that does not know them."""
    for code, kind in (("out_of_stock", "about:blank"), ("not_found", "/api/errors#not_found")):
        body = problem_body(status=404, code=code, title="Not Found", detail="", request_id="x")
        assert json.loads(body)["type"] == kind
