"""Bad input gets the right 4xx as problem+json, never a 5xx, whatever the endpoint."""

import base64
import json
from typing import Any

import httpx
import pytest

from conftest import PASSWORD, bearer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("signing_key")]

JSON_ENDPOINTS = [
    "/api/v1/access/signup",
    "/api/v1/access/signin",
    "/api/v1/access/refresh",
]
MALFORMED_BODIES = {
    "empty": b"",
    "not json": b"{",
    "trailing": b'{"a": 1} x',
    "20 kB of [": b"[" * 20_000,
    "20 kB of objects": b'{"a":' * 4_000,
    "NaN": b'{"email": NaN}',
    "huge integer": b'{"email": ' + b"9" * 5_000 + b"}",
    "invalid utf-8": b'{"email": "\xff\xfe"}',
    "utf-16": '{"email": "a"}'.encode("utf-16"),
    "array": b"[]",
    "string": b'"email"',
    "null": b"null",
    "number": b"1",
    "lone surrogate": b'{"email": "\\ud800@example.com", "password": "\\udfff", "refresh_token": "\\ud800"}',
    "NUL": b'{"email": "a\\u0000@example.com", "password": "\\u0000", "refresh_token": "\\u0000"}',
    "wrong types": b'{"email": {"$gt": ""}, "password": ["x"], "name": {}, "refresh_token": {"a": 1}}',
    "numbers for strings": b'{"email": 1, "password": true, "refresh_token": 1.5}',
    "nulls": b'{"email": null, "password": null, "refresh_token": null}',
}


def assert_problem(answer: httpx.Response, *statuses: int) -> dict[str, Any]:
    """Check that the answer is a complete problem with one of ``statuses``; return it."""
    assert answer.status_code in statuses, (answer.status_code, answer.text)
    assert answer.headers["content-type"].startswith("application/problem+json")
    problem = answer.json()
    assert {"type", "title", "status", "detail", "code", "request_id"} <= set(problem)
    assert problem["status"] == answer.status_code
    assert problem["request_id"] == answer.headers["x-request-id"]
    return dict(problem)


@pytest.mark.parametrize("path", JSON_ENDPOINTS)
@pytest.mark.parametrize("name", MALFORMED_BODIES)
async def test_malformed_bodies_are_refused(api: httpx.AsyncClient, path: str, name: str) -> None:
    """A malformed body is a 400 (401 where it reads as a wrong credential), as a problem."""
    answer = await api.post(path, content=MALFORMED_BODIES[name], headers={"Content-Type": "application/json"})
    assert_problem(answer, 400, 401)


async def test_every_bad_field_is_named_at_once(api: httpx.AsyncClient) -> None:
    """A sign-up with a bad e-mail, password and name names all three."""
    answer = await api.post("/api/v1/access/signup", json={"email": "nobody", "password": "short", "name": "x" * 1_000})
    problem = assert_problem(answer, 400)
    assert {error["field"] for error in problem["errors"]} == {"email", "password", "name"}
    assert all(error["code"] and error["message"] for error in problem["errors"])


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/xml", "multipart/form-data", "application/x-www-form-urlencoded"]
)
async def test_unsupported_media_types_are_415(api: httpx.AsyncClient, kind: str) -> None:
    """Sign-up takes JSON only."""
    answer = await api.post("/api/v1/access/signup", content=b"email=a", headers={"Content-Type": kind})
    assert_problem(answer, 415)


@pytest.mark.parametrize("path", ["/api/v1/access/me", "/api/v1/access/signin", "/ping", "/health"])
async def test_trace_is_refused(api: httpx.AsyncClient, path: str) -> None:
    """TRACE is answered 405, never echoed."""
    answer = await api.request("TRACE", path)
    assert answer.status_code == 405


async def test_unknown_paths_are_problems(api: httpx.AsyncClient) -> None:
    """A path nobody serves is a 404 problem in the API lane."""
    assert_problem(await api.get("/api/v1/nothing"), 404)


async def test_wrong_methods_name_the_right_ones(api: httpx.AsyncClient) -> None:
    """A wrong method is a 405 with Allow."""
    answer = await api.put("/api/v1/access/signin", json={})
    assert_problem(answer, 405)
    assert "POST" in answer.headers["allow"]


async def test_a_megabyte_bearer_is_refused(api: httpx.AsyncClient) -> None:
    """A 20 kB or 1 MB bearer is refused before it is parsed."""
    for size in (5_000, 20_000, 1_000_000):
        answer = await api.get("/api/v1/access/me", headers={"Authorization": "Bearer " + "a" * size})
        assert_problem(answer, 401, 431)


async def test_a_ten_megabyte_password_is_refused(api: httpx.AsyncClient) -> None:
    """A body over 64 KiB is 413, and nothing is hashed."""
    answer = await api.post("/api/v1/access/signup", json={"email": "a@example.com", "password": "x" * 10_000_000})
    assert_problem(answer, 413)


@pytest.mark.parametrize("length", [1_025, 10_000, 60_000])
async def test_passwords_over_the_limit_are_refused_before_hashing(api: httpx.AsyncClient, length: int) -> None:
    """More than 1,024 code points: 400 at sign-up, plain invalid credentials at sign-in."""
    body = {"email": "long@example.com", "password": "x" * length}
    problem = assert_problem(await api.post("/api/v1/access/signup", json=body), 400)
    assert [error["field"] for error in problem["errors"]] == ["password"]
    assert assert_problem(await api.post("/api/v1/access/signin", json=body), 401)["code"] == "invalid_credentials"


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer ", "Bearer a b", "bearer", "Basic YTpi", "Bearer \xff", "Token x", "Bearer x,Bearer y"],
)
async def test_malformed_authorization_headers_never_pass(api: httpx.AsyncClient, header: str) -> None:
    """A malformed Authorization header is 400 or 401 with a Bearer challenge."""
    answer = await api.get("/api/v1/access/me", headers={b"Authorization": header.encode("latin-1")})
    assert_problem(answer, 400, 401)
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_two_credentials_are_refused(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """Header and cookie together, or two Authorization headers, are 400 even when each is good."""
    token = pair["access_token"]
    both = await api.get("/api/v1/access/me", headers={**bearer(pair), "Cookie": f"access_token={token}"})
    assert_problem(both, 400)
    doubled = await api.get(
        "/api/v1/access/me", headers=[("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
    )
    assert_problem(doubled, 400, 401)


async def test_query_tokens_are_never_read(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """A good token in the query string is no credential (RFC 6750 §2.3 is not offered)."""
    answer = await api.get("/api/v1/access/me", params={"access_token": pair["access_token"]})
    assert_problem(answer, 401)


MASS_ASSIGNMENT = {
    "id": "00000000-0000-7000-8000-000000000000",
    "is_staff": True,
    "is_superuser": True,
    "is_active": False,
    "email_verified": True,
    "email_verified_at": "2020-01-01T00:00:00Z",
    "roles": ["admin"],
    "groups": [1],
    "user_permissions": [1],
    "session_epoch": 99,
    "created_at": "2000-01-01T00:00:00Z",
    "password_hash": "x",
    "last_login": "2000-01-01T00:00:00Z",
}


async def test_no_field_is_mass_assigned(api: httpx.AsyncClient) -> None:
    """Unknown and privileged fields at sign-up and in PATCH /me are ignored and never assigned."""
    body = {"email": "mass@example.com", "password": PASSWORD, **MASS_ASSIGNMENT}
    user = (await api.post("/api/v1/access/signup", json=body)).json()
    assert (user["is_staff"], user["is_superuser"], user["is_active"]) == (False, False, True)
    assert (user["email_verified"], user["roles"]) == (False, [])
    assert user["id"] != MASS_ASSIGNMENT["id"]


async def test_patch_me_assigns_the_name_only(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """PATCH /me changes the name and nothing else."""
    before = (await api.get("/api/v1/access/me", headers=bearer(pair))).json()
    answer = await api.patch(
        "/api/v1/access/me", json={**MASS_ASSIGNMENT, "email": "x@example.com", "name": "New"}, headers=bearer(pair)
    )
    assert answer.status_code == 200
    after = answer.json()
    assert after.pop("updated_at") > before.pop("updated_at")
    assert after == {**before, "name": "New"}


async def test_crlf_in_any_field_stays_in_its_field(api: httpx.AsyncClient) -> None:
    """Line breaks in a request id, e-mail or name never reach a header or split a log line."""
    answer = await api.post(
        "/api/v1/access/signup",
        json={"email": "a@example.com\r\nX-Evil: 1", "password": PASSWORD, "name": "a\r\nSet-Cookie: x=1"},
        headers={"X-Request-ID": "bad id with spaces"},
    )
    assert_problem(answer, 400)
    assert "x-evil" not in answer.headers
    assert answer.headers["x-request-id"] != "bad id with spaces"


async def test_a_forged_token_with_a_cached_jti_fails(api: httpx.AsyncClient, pair: dict[str, Any]) -> None:
    """A token that carries a cached jti but another payload or signature is verified in full and refused."""
    assert (await api.get("/api/v1/access/me", headers=bearer(pair))).status_code == 200
    header, payload, signature = pair["access_token"].split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    claims["roles"] = ["admin"]
    forged_payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    for token in (f"{header}.{forged_payload}.{signature}", f"{header}.{payload}.{flipped}"):
        answer = await api.get("/api/v1/access/me", headers={"Authorization": f"Bearer {token}"})
        assert_problem(answer, 401)
    assert (await api.get("/api/v1/access/me", headers=bearer(pair))).status_code == 200


async def test_a_content_type_without_end_is_refused(api: httpx.AsyncClient) -> None:
    """A Content-Type too long to be read is a 400, not a traceback."""
    for kind in ("a" * 15_000, "application/json; " + "x" * 12_000):
        answer = await api.post("/api/v1/access/signin", content=b"{}", headers={"Content-Type": kind})
        assert_problem(answer, 400, 415)


@pytest.mark.parametrize(
    "path",
    [
        "/api%2fv1/access/me", "/api/v1%2Faccess/me", "/api/v1/access%2fme", "/admin%2flogin/", "/admin/login%2F",
        "/static%2fironauth/pages.css", "/oauth%2fauthorize", "/.well-known%2Fjwks.json", "/health%2flive", "/ping%2f",
        "/account%2fsignin", "/nowhere%2F", "/api/v1/access/me?next=%2f",
    ],
)  # fmt: skip
async def test_an_encoded_slash_is_no_slash(api: httpx.AsyncClient, pair: dict[str, Any], path: str) -> None:
    """A path with an encoded slash is 404 in every lane, the hot one too; in a query it is what it always was."""
    for _ in range(2):
        assert (await api.get("/api/v1/access/me", headers=bearer(pair))).status_code == 200
    answer = await api.get(path, headers=bearer(pair))
    if "?" in path:
        assert answer.status_code == 200
    else:
        assert assert_problem(answer, 404)["code"] == "not_found"


@pytest.mark.parametrize("path", ["/health/live", "/oauth/authorize", "/account/signin", "/nowhere", "/admin/login/"])
@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "text/plain; charset=ascii", "text/plain"])
async def test_a_query_of_too_many_fields_is_no_server_error(api: httpx.AsyncClient, path: str, kind: str) -> None:
    """3,000 fields are 400 where Django counts them, which it does early for a type with a charset."""
    for method in ("GET", "POST", "PROPFIND"):
        answer = await api.request(method, f"{path}?{'&' * 3_000}", headers={"Content-Type": kind})
        assert answer.status_code == 400 if "charset" in kind else answer.status_code < 500
