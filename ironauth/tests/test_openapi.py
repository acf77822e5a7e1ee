"""The OpenAPI document: complete, valid, in step with the code, and true."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import jsonschema  # type: ignore[import-untyped]  # no stubs among the requirements
import msgspec
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.urls import URLPattern, URLResolver, get_resolver
from openapi_spec_validator import validate

from accounts.errors import EmailNotVerified, PasswordChangeRequired
from ironauth import pages
from ironauth.infrastructure.api.openapi import Schema, _is_wire_type
from ironauth.infrastructure.api.openapi_errors import PROBLEM_MEDIA_TYPE
from ironauth.infrastructure.core.errors import DomainError
from ironauth.version import VERSION

#: What is no view of the API: described by hand, without headers.
APPENDED = {"get_ping", "get_openapi", "get_docs", "oauth_authorize", "oauth_logout"}
#: Answers of an operation that is counted which tell of limits.
COUNTED = {"200", "201", "202", "204", "401", "429"}
#: Endpoints of OAuth that answer with pages.
OPENED_BY_BROWSERS = {"GET /oauth/authorize", "GET /oauth/logout"}
METHODS = ("get", "post", "put", "patch", "delete")
type Json = dict[str, Any]


@pytest.fixture(scope="module")
def document() -> Json:
    """Return the document as it is served."""
    return dict(json.loads(pages.OPENAPI_FILE.read_bytes()))


def _operations(document: Json) -> Iterator[tuple[str, Json]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield f"{method.upper()} {path}", item[method]


def _routes(patterns: list[URLPattern | URLResolver], prefix: str = "/") -> Iterator[tuple[str, Any]]:
    """Yield every path of the URLconf as OpenAPI writes it, with its view."""
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern.url_patterns, path)
        else:
            yield re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", path), pattern.callback


def test_the_document_is_in_step_with_the_code() -> None:
    """The committed file is what the code gives; otherwise: make openapi."""
    call_command("build_openapi", "--check")


def test_check_notices_a_change(tmp_path: Path) -> None:
    """A file that differs, or is missing, fails the check and names the remedy; building writes a good one."""
    file = tmp_path / "openapi.json"
    with pytest.raises(CommandError, match="run make openapi"):
        call_command("build_openapi", "--check", file=file)
    call_command("build_openapi", file=file, stdout=StringIO())
    call_command("build_openapi", "--check", file=file)
    file.write_text("{}")
    with pytest.raises(CommandError, match="run make openapi"):
        call_command("build_openapi", "--check", file=file)


def test_the_document_is_valid(document: Json) -> None:
    """It follows the OpenAPI 3.1 specification."""
    assert document["openapi"] == "3.1.0"
    validate(document)


def test_every_route_is_in_the_document(document: Json) -> None:
    """Every path but those for people (pages, the admin), with every method its view handles, is described."""
    missing = []
    for_people = {
        "/",
        "/favicon.ico",
        "/brand.css",
        "/api/docs/",
        "/api/errors",
        "/api/errors/{place}",
        "/email/verify",
        "/password/reset",
    }
    for_people |= {"/account", "/account/", "/account/restore", "/account/signin", "/account/security"}
    for_people |= {"/account/security/{section}", "/account/security/{section}/{item}"}
    organization = "/account/security/organizations/{organization_id}"
    for_people |= {"/account/security/organizations", organization, f"{organization}/delete"}
    for_people |= {f"{organization}/members/{{user_id}}"}
    for_people |= {
        "/account/forgot",
        "/account/verify-again",
        "/account/invitation",
        "/account/accounts",
        "/oauth/account/session",
    }
    for_people |= {
        f"/oauth/{page}" for page in ("authorize", "consent", "device", "signin", "signin/code", "signin/passkey")
    }
    for_people |= {"/account/signup", "/oauth/signup", "/oauth/signin/email", "/oauth/code"}
    for_people |= {"/oauth/logout", "/oauth/account", "/oauth/terms", "/oauth/upstream", "/oauth/upstream/{slug}"}
    for_people |= {"/oauth/signin/link", "/oauth/forgot", "/oauth/reset", "/oauth/verify", "/oauth/verify-again"}
    for_people |= {"/oauth/continue", "/oauth/logo/{client_id}"}
    for_people |= {"/oauth/upstream/{slug}/logout"}  # for other providers
    for_people |= {"/.well-known/change-password", "/.well-known/security.txt"}
    for path, view in _routes(get_resolver().url_patterns):
        if path in for_people or path.startswith("/admin/"):
            continue
        view_class = getattr(view, "cls", None)
        methods = [name for name in METHODS if hasattr(view_class, name)] if view_class else ["get"]
        missing += [f"{method} {path}" for method in methods if method not in document["paths"].get(path, {})]
    assert not missing


def test_every_operation_says_what_it_answers(document: Json) -> None:
    """Each has a success with a schema, or one that has no body, and every error is a problem document or OAuth's."""
    for name, operation in _operations(document):
        codes = operation["responses"]
        assert any(code.startswith("2") for code in codes), name
        if name in OPENED_BY_BROWSERS:
            continue
        for code, answer in codes.items():
            assert answer["description"], f"{name} {code}"
            if code in ("202", "204", "304") or (name, code) == ("POST /oauth/revoke", "200"):  # RFC 7009 §2.2
                assert "content" not in answer, f"{name} {code}"
            elif code.startswith("2"):
                assert all(media["schema"] for media in answer["content"].values()), f"{name} {code}"
            elif (name, code) != ("GET /health", "503"):
                own = ["application/json"] if " /oauth/" in name or "well-known/o" in name else []  # RFC 6749 §5.2
                assert list(answer["content"]) in ([PROBLEM_MEDIA_TYPE], own), f"{name} {code}"


def test_every_chapter_is_introduced(document: Json) -> None:
    """Each operation stands in exactly one chapter, and each chapter has a sentence."""
    used = {tuple(operation["tags"]) for _, operation in _operations(document)}
    assert used == {(tag["name"],) for tag in document["tags"]}
    assert all(tag["description"] for tag in document["tags"])


def test_chapters_are_small(document: Json) -> None:
    """Fewer than twelve operations each: a generated client has a module for each, and a reader a page."""
    sizes = Counter(tag for _, operation in _operations(document) for tag in operation["tags"])
    assert max(sizes.values()) < 12
    assert sizes["sign-in"] == 10


def test_oauth_is_in_the_document(document: Json) -> None:
    """Every endpoint of the metadata that applications or browsers call is described."""
    endpoints = {"authorize", "token", "introspect", "revoke", "userinfo", "logout", "par", "device_authorization"}
    assert {f"/oauth/{name}" for name in endpoints} <= document["paths"].keys()


def test_lists_say_how_they_are_paged(document: Json) -> None:
    """What answers `next` takes a cursor and a size, both in words; `next` and `previous` may be null."""
    paged = 0
    for name, operation in _operations(document):
        content = operation["responses"].get("200", {}).get("content", {}).get("application/json", {"schema": {}})
        page = document["components"]["schemas"].get(content["schema"].get("$ref", "").rpartition("/")[2], {})
        if "next" not in page.get("properties", {}):
            continue
        paged += 1
        described = {one["name"]: one.get("description") for one in operation["parameters"]}
        assert described["cursor"], name
        assert described["page_size"], name
        for end in ("next", "previous"):
            assert {"type": "null"} in page["properties"][end]["anyOf"], name
    assert paged >= 5


def test_answers_say_what_headers_they_have(document: Json) -> None:
    """Each has the request's id; a refusal for too much says when to come again, and what counts tells of limits."""
    for name, operation in _operations(document):
        counted = "429" in operation["responses"]
        for status, answer in operation["responses"].items():
            headers = set(answer.get("headers", ()))
            if operation["operationId"] in APPENDED:
                continue
            assert "X-Request-ID" in headers, name
            assert ("Retry-After" in headers) is (status in ("429", "503")), name
            assert ("WWW-Authenticate" in headers) is (status == "401"), name
            assert ("RateLimit" in headers) is (counted and status[0] in "24" and status in COUNTED), (name, status)
    described = document["components"]["headers"]
    assert all(header["description"] for header in described.values())


def test_operation_ids_are_unique(document: Json) -> None:
    """Client generators name functions after them."""
    ids = [operation["operationId"] for _, operation in _operations(document)]
    assert len(ids) == len(set(ids))


def test_writes_say_what_they_read(document: Json) -> None:
    """Every POST and PATCH that reads a body has a schema for it."""
    without = {
        name
        for name, operation in _operations(document)
        if name.startswith(("POST", "PATCH")) and "requestBody" not in operation
    }
    of_staff = {
        "POST /api/v1/users/{user_id}/acts/{act}",
        "POST /api/v1/users/{user_id}/restore",
        "POST /api/v1/users/{user_id}/messages/{message_id}/send",
        "POST /api/v1/users/invitations/{invitation_id}/send",
        "POST /api/v1/clients/{client_id}/disable",
        "POST /api/v1/clients/{client_id}/enable",
        "POST /api/v1/clients/{client_id}/verify",
        "POST /api/v1/keys/{kid}/drop",
        "POST /api/v1/providers/{slug}/try",
        "POST /api/v1/users/{user_id}/provider-tokens/{slug}",
    }
    leaving = {"POST /api/v1/organizations/{organization_id}/leave"}
    assert without - {"POST /oauth/userinfo"} - of_staff - leaving == {
        f"POST /api/v1/access/{path}"
        for path in (
            "logout-all",
            "mfa/totp",
            "mfa/passkeys/options",
            "signin/passkey/options",
            "step-up/options",
            "step-up/email",
        )
    }


@pytest.mark.parametrize(
    ("path", "errors"),
    [("signin", {PasswordChangeRequired}), ("signin/passkey", {EmailNotVerified, PasswordChangeRequired})],
)
def test_both_ways_to_sign_in_say_what_else_keeps_people_out(
    document: Json, path: str, errors: set[type[DomainError]]
) -> None:
    """A right password, and a right passkey, may not be enough. No password hears of an address that is not proved."""
    said = document["paths"][f"/api/v1/access/{path}"]["post"]["responses"]["403"]["description"]
    assert {error for error in (EmailNotVerified, PasswordChangeRequired) if f"`{error.code}`" in said} == errors


def test_protected_operations_name_both_credentials(document: Json) -> None:
    """What needs a person offers the header and the cookie, and can answer 401; what does not is marked."""
    me = document["paths"]["/api/v1/access/me"]["get"]
    assert me["security"] == [{"bearer": []}, {"cookie": []}]
    assert "401" in me["responses"]
    assert set(document["components"]["securitySchemes"]) == {"bearer", "cookie"}
    assert document["paths"]["/ping"]["get"]["security"] == [{}]


@pytest.mark.django_db(transaction=True)
async def test_a_real_error_fits_its_schema(document: Json, api: httpx.AsyncClient) -> None:
    """What a client gets for a missing credential, and for bad fields, is what the document promises."""
    schema = {"$ref": "#/components/schemas/Problem", "components": document["components"]}
    unauthenticated = await api.get("/api/v1/access/me")
    assert unauthenticated.status_code == 401
    jsonschema.validate(unauthenticated.json(), schema)
    invalid = await api.post("/api/v1/access/signup", json={"email": "no", "password": "no"})
    assert invalid.status_code == 400
    assert {error["field"] for error in invalid.json()["errors"]} == {"email", "password"}
    jsonschema.validate(invalid.json(), schema)


@pytest.mark.django_db(transaction=True)
async def test_a_real_answer_fits_its_schema(document: Json, api: httpx.AsyncClient, member: Json) -> None:
    """A Struct's component describes the bytes that msgspec writes."""
    del member["password"]
    schema = {"$ref": "#/components/schemas/UserOut", "components": document["components"]}
    jsonschema.validate(member, schema, format_checker=jsonschema.FormatChecker())
    assert set(member) == set(document["components"]["schemas"]["UserOut"]["properties"])


async def test_the_document_is_served_as_it_is(api: httpx.AsyncClient) -> None:
    """GET /api/openapi.json is the committed file, for everybody, from any number of requests at once."""
    answer = await api.get("/api/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.content == pages.OPENAPI_FILE.read_bytes()


async def test_no_stranger_reads_the_release(api: httpx.AsyncClient) -> None:
    """The document carries the version of the API, as its paths do, and no public page that of the release."""
    assert (await api.get("/api/openapi.json")).json()["info"]["version"] == "1"
    for path in ("/", "/api/docs", "/api/openapi.json"):
        assert f'"{VERSION}"' not in (text := (await api.get(path)).text)
        assert f"Version {VERSION}" not in text


def test_what_msgspec_writes_is_recognised() -> None:
    """Structs, and generics of them, are msgspec's; serializers and plain types are not."""

    class Thing(msgspec.Struct):
        name: str

    ours: tuple[object, ...] = (Thing, list[Thing], dict[str, Thing], list[Thing] | None)
    others: tuple[object, ...] = (str, list[str], None, Schema, "Thing")
    assert all(_is_wire_type(candidate) for candidate in ours)
    assert not any(_is_wire_type(candidate) for candidate in others)
