"""The async view base: order of the checks, bodies, negotiation, answers."""

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, cast

import httpx
import msgspec
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse, QueryDict
from django.urls import path
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import AllowAny, BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from ironauth.infrastructure.api.parsers import FormParser, JSONParser, form_of
from ironauth.infrastructure.api.views import ApiRequest, AsyncAPIView
from ironauth.infrastructure.core.errors import Conflict, FieldError, NotAuthenticated, Overloaded, ValidationFailed
from ironauth.infrastructure.http.handler import LeanHandler
from ironauth.infrastructure.threads.request_threads import request_threads

pytestmark = pytest.mark.urls(__name__)
order: list[str] = []


class Person(msgspec.Struct):
    name: str
    is_authenticated: bool = True


class HeaderAuthentication(BaseAuthentication):
    async def authenticate(self, request: Request) -> tuple[Person, Person] | None:  # type: ignore[override] # async
        order.append("async authenticator")
        name = request.META.get("HTTP_X_NAME")
        if name == "bad":
            raise AuthenticationFailed("Bad name.")
        return (Person(name), Person(name)) if name else None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="test"'


class SyncAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> None:
        order.append("sync authenticator")


class First(BasePermission):
    def has_permission(self, request: Request, view: APIView) -> bool:
        order.append("sync permission")
        return True


class Second(BasePermission):
    message = "Second says no."
    code = "second"

    async def has_permission(self, request: Request, view: APIView) -> bool:  # type: ignore[override] # async
        order.append("async permission")
        return "HTTP_X_REFUSE" not in request.META

    async def has_object_permission(self, request: Request, view: APIView, obj: object) -> bool:  # type: ignore[override] # async
        return obj == "mine"


class Third(BasePermission):
    on_loop = True

    def has_permission(self, request: Request, view: APIView) -> bool:
        order.append("last permission")
        return True


class SyncThrottle(BaseThrottle):
    def allow_request(self, request: Request, view: APIView) -> bool:
        order.append("sync throttle")
        return "HTTP_X_FAST" not in request.META

    def wait(self) -> float:
        return 2.2


class AsyncThrottle(BaseThrottle):
    async def allow_request(self, request: Request, view: APIView) -> bool:  # type: ignore[override] # async
        order.append("async throttle")
        return "HTTP_X_FAST" not in request.META

    def wait(self) -> float:
        return 7.1


class OrderedView(AsyncAPIView):
    authentication_classes = [SyncAuthentication, HeaderAuthentication]
    permission_classes = [First, Second, Third]
    throttle_classes = [SyncThrottle, AsyncThrottle]

    async def get(self, request: ApiRequest) -> Person:
        order.append("handler")
        return Person(request.auth.name if request.auth else "nobody")


class Open(AsyncAPIView):
    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []


class Inner(serializers.Serializer[Any]):
    city = serializers.CharField(max_length=5)


class Input(serializers.Serializer[Any]):
    email = serializers.EmailField()
    age = serializers.IntegerField(min_value=18)
    home = Inner(required=False)
    tags = serializers.ListField(child=serializers.CharField(max_length=2), required=False)


class EchoView(Open):
    parser_classes = [JSONParser, FormParser]

    async def post(self, request: ApiRequest) -> dict[str, Any]:
        return await self.validated(request, Input)

    async def patch(self, request: ApiRequest) -> dict[str, Any]:
        return await self.validated(request, Input, partial=True)


class JSONView(Open):
    async def post(self, request: ApiRequest) -> dict[str, Any]:
        return {"data": request.data}


class AnswersView(Open):
    async def get(self, request: ApiRequest, kind: str) -> Any:
        moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        return {
            "struct": Person("a"),
            "list": [Person("a")],
            "none": None,
            "drf": Response(Person("a"), status=201, headers={"Location": "/x"}),
            "empty": Response(status=202),
            "plain": HttpResponse(b"plain", content_type="text/plain", headers={"Cache-Control": "public"}),
            "values": {"at": moment, "id": uuid.UUID(int=7)},
            "unknown": object(),
        }[kind]


class CookieView(Open):
    async def post(self, request: ApiRequest) -> Response:
        response = Response({"a": 1})
        response.set_cookie("a", "1", httponly=True)
        return response


class ErrorsView(Open):
    async def get(self, request: ApiRequest, kind: str) -> None:
        raise {
            "conflict": Conflict("Taken.", members={"taken": "x", "status": 1}),
            "auth": NotAuthenticated(headers={"WWW-Authenticate": 'Bearer error="invalid_token"'}),
            "busy": Overloaded(retry_after_s=3),
            "fields": ValidationFailed(errors=[FieldError("a", "bad", "A."), FieldError("b", "bad", "B.")]),
            "bug": RuntimeError("password=hunter2"),
        }[kind]


class ComposedView(Open):
    permission_classes = [(IsAuthenticated | Second) & ~First | AllowAny & Second]

    async def get(self, request: ApiRequest) -> Person:
        await self.check_object_permissions(request, request.META["HTTP_X_OBJECT"])
        return Person("through")


urlpatterns = [
    path("api/ordered", OrderedView.as_view()),
    path("api/echo", EchoView.as_view()),
    path("api/json", JSONView.as_view()),
    path("api/answers/<str:kind>", AnswersView.as_view()),
    path("api/cookie", CookieView.as_view()),
    path("api/errors/<str:kind>", ErrorsView.as_view()),
    path("api/composed", ComposedView.as_view()),
]


@pytest.fixture(autouse=True)
def _forget() -> None:
    order.clear()


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    request_threads.close()  # threads of tests before may hold connections, which a test without database must not use
    transport = httpx.ASGITransport(app=cast("Any", LeanHandler(request_threads)))
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as own:
        yield own


async def test_checks_run_in_declared_order(client: httpx.AsyncClient) -> None:
    """Authenticators, permissions and throttles run one by one as listed, async or not, then the handler."""
    answer = await client.get("/api/ordered", headers={"X-Name": "ada"})
    assert answer.json() == {"name": "ada", "is_authenticated": True}
    assert order == [
        "sync authenticator", "async authenticator", "sync permission", "async permission", "last permission",
        "sync throttle", "async throttle", "handler",
    ]  # fmt: skip


async def test_the_first_refusal_stops(client: httpx.AsyncClient) -> None:
    """After a permission that does not hold nothing else runs; its message and code are answered."""
    answer = await client.get("/api/ordered", headers={"X-Name": "ada", "X-Refuse": "1"})
    assert (answer.status_code, answer.json()["code"], answer.json()["detail"]) == (403, "second", "Second says no.")
    assert order[-1] == "async permission"


async def test_a_refusal_without_credential_is_401_with_a_challenge(client: httpx.AsyncClient) -> None:
    """Nobody is told 403 who could still sign in; a failed authenticator is 401 too."""
    for headers in ({"X-Refuse": "1"}, {"X-Name": "bad"}):
        answer = await client.get("/api/ordered", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_throttles_are_all_asked_and_the_longest_wait_is_told(client: httpx.AsyncClient) -> None:
    """429 carries Retry-After in whole seconds, rounded up."""
    answer = await client.get("/api/ordered", headers={"X-Name": "ada", "X-Fast": "1"})
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["code"]) == (429, "8", "throttled")


@pytest.mark.parametrize(("thing", "status"), [("mine", 200), ("yours", 403)])
async def test_compositions_of_permissions_work(client: httpx.AsyncClient, thing: str, status: int) -> None:
    """And, or and not of sync and async permissions, for the request and for an object."""
    assert (await client.get("/api/composed", headers={"X-Object": thing})).status_code == status
    refused = await client.get("/api/composed", headers={"X-Object": thing, "X-Refuse": "1"})
    assert refused.status_code == 403


async def test_every_bad_field_is_named(client: httpx.AsyncClient) -> None:
    """One answer names all of them, nested ones with their path."""
    answer = await client.post(
        "/api/echo", json={"email": "x", "age": 3, "home": {"city": "too long"}, "tags": ["ok", "long"]}
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    named = {(error["field"], error["code"]) for error in answer.json()["errors"]}
    assert named == {
        ("email", "invalid"), ("age", "min_value"), ("home.city", "max_length"), ("tags.1", "max_length"),
    }  # fmt: skip


async def test_unknown_fields_are_ignored_and_partial_input_is_partial(client: httpx.AsyncClient) -> None:
    """What the serializer does not know is not in the result; PATCH-style input needs no required field."""
    answer = await client.post("/api/echo", json={"email": "a@b.example", "age": 18, "is_staff": True})
    assert answer.json() == {"email": "a@b.example", "age": 18}
    assert (await client.patch("/api/echo", json={"age": 20})).json() == {"age": 20}


async def test_forms_are_read_on_the_loop(client: httpx.AsyncClient) -> None:
    """A urlencoded form reaches the same serializer."""
    answer = await client.post("/api/echo", data={"email": "a@b.example", "age": "18"})
    assert answer.json()["age"] == 18


@pytest.mark.parametrize("text", ["a=1&b=&a=%C3%A9+x&c&=y;z", "", "&&", "a=%FF&\x00=%00"])
def test_a_form_is_what_django_makes_of_it(text: str) -> None:
    """The shorter way to the same fields, with the same type, encoding and protection from changes."""
    form, usual = form_of(text), QueryDict(text)
    assert (form, list(form.lists()), form.urlencode()) == (usual, list(usual.lists()), usual.urlencode())
    assert (type(form), form.encoding, form._mutable) == (QueryDict, usual.encoding, False)
    assert form.copy() == usual.copy()


async def test_a_chunked_body_is_read(client: httpx.AsyncClient) -> None:
    """A body without Content-Length is not taken for an empty one."""

    async def parts() -> AsyncIterator[bytes]:
        yield b'{"a":'
        yield b"1}"

    answer = await client.post("/api/json", content=parts(), headers={"Content-Type": "application/json"})
    assert answer.json() == {"data": {"a": 1}}


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 20_000,
        b'{"a":' * 4_000,
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b"1",
        b'{"a": NaN}',
        b'{"a": ' + b"9" * 5_000 + b"}",
        b'{"a": 1e400}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b'{"a": "\\ud800x"}',
        b"\xef\xbb\xbf{}",
        b'{"a": 1} {}',
        b"\x00",
        '{"a": 1}'.encode("utf-16"),
    ],
)
async def test_malformed_json_is_400(client: httpx.AsyncClient, body: bytes) -> None:
    """Nothing but one JSON object in UTF-8 passes, and nothing makes a 500."""
    answer = await client.post("/api/json", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "parse_error")


async def test_oddities_json_allows_are_taken(client: httpx.AsyncClient) -> None:
    """An escaped NUL reaches the serializer, a name may come in two objects, an empty body is no fields."""
    headers = {"Content-Type": "application/json; charset=UTF-8"}
    body = b'{"a": {"b": 2}, "b": "\\u0000"}'
    assert (await client.post("/api/json", content=body, headers=headers)).json() == {
        "data": {"a": {"b": 2}, "b": "\0"}
    }
    assert (await client.post("/api/json", content=b"", headers=headers)).json() == {"data": {}}
    answer = await client.post("/api/echo", json={"email": "a\0@b.example", "age": 18})
    assert answer.json()["errors"][0]["field"] == "email"


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "nonsense",
        "application/json; charset=latin-1", "application/json; charset=base64", "application/json; charset=utf-16",
    ],
)  # fmt: skip
async def test_other_media_types_and_charsets_are_415(client: httpx.AsyncClient, kind: str) -> None:
    """A JSON endpoint takes application/json in UTF-8 only."""
    answer = await client.post("/api/json", content=b'{"a": 1}', headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("charset", ["base64", "rot13", "idna", "utf-16", "undefined"])
async def test_forms_in_strange_charsets_are_415(client: httpx.AsyncClient, charset: str) -> None:
    """Codecs that are not UTF-8 text never decode a form."""
    kind = f"application/x-www-form-urlencoded; charset={charset}"
    answer = await client.post("/api/echo", content=b"email=a", headers={"Content-Type": kind})
    assert answer.status_code == 415


async def test_too_many_form_fields_and_broken_forms_are_400(client: httpx.AsyncClient) -> None:
    """Django's field limit and undecodable bytes are the client's fault."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for body in (b"a&" * 1_001, b"email=\xff"):
        assert (await client.post("/api/echo", content=body, headers=kind)).status_code == 400


async def test_json_sent_as_a_form_is_told_so(client: httpx.AsyncClient) -> None:
    """What ``curl -d`` makes of a JSON body gets the remedy; a form whose first name begins with a brace is a form."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for body in (b'{"email": "a@b.example"}', b' \n{"email": "a@b.example"}', b"[1]"):
        refused = await client.post("/api/echo", content=body, headers=kind)
        assert refused.status_code == 400
        assert "send it with Content-Type: application/json" in refused.json()["detail"]
    only_json = await client.post("/api/json", content=b"{}", headers=kind)
    assert only_json.status_code == 415
    assert only_json.json()["detail"].endswith(" Send it with Content-Type: application/json.")
    assert (await client.post("/api/echo", data={"{x": "1", "email": "a@b.example", "age": "18"})).status_code == 200


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (None, 200), ("*/*", 200), ("application/json", 200), ("application/*;q=0.5", 200),
        ("text/html,application/xhtml+xml,*/*;q=0.8", 200), ("text/html", 200), ("application/xml", 200),
        ("text/event-stream", 200), ("", 200), ("garbage", 200),
    ],
)  # fmt: skip
async def test_negotiation(client: httpx.AsyncClient, accept: str | None, status: int) -> None:
    """Everybody gets JSON, twice as once (it is remembered): a proxy that asks /verify forwards any Accept."""
    client.headers.pop("accept")
    for _ in range(2):
        answer = await client.get("/api/answers/struct", headers={"Accept": accept} if accept else {})
        assert answer.status_code == status


async def test_handlers_may_return_any_kind_of_answer(client: httpx.AsyncClient) -> None:
    """Struct, list, None, DRF response, plain response: status, type, headers and body are as meant."""
    get = client.get
    struct = await get("/api/answers/struct")
    assert (struct.json(), struct.headers["content-type"]) == (
        {"name": "a", "is_authenticated": True},
        "application/json",
    )
    assert (await get("/api/answers/list")).json() == [{"name": "a", "is_authenticated": True}]
    none = await get("/api/answers/none")
    assert (none.status_code, none.content) == (204, b"")
    assert "content-type" not in none.headers
    assert "content-length" not in none.headers
    created = await get("/api/answers/drf")
    assert (created.status_code, created.headers["location"], created.json()["name"]) == (201, "/x", "a")
    assert (await get("/api/answers/empty")).status_code == 202
    plain = await get("/api/answers/plain")
    assert (plain.content, plain.headers["cache-control"]) == (b"plain", "public")
    values = (await get("/api/answers/values")).json()
    assert values == {"at": "2026-01-02T03:04:05Z", "id": "00000000-0000-0000-0000-000000000007"}
    assert (await get("/api/answers/unknown")).status_code == 500


async def test_cookies_of_a_drf_response_survive(client: httpx.AsyncClient) -> None:
    """Rendering early does not lose them."""
    assert "httponly" in (await client.post("/api/cookie")).headers["set-cookie"].lower()


async def test_domain_errors_become_problems(client: httpx.AsyncClient) -> None:
    """Status, code, detail, challenge, Retry-After, every field; extra members never override the standard ones."""
    conflict = await client.get("/api/errors/conflict")
    problem = conflict.json()
    assert (conflict.status_code, problem["status"], problem["taken"], problem["detail"]) == (409, 409, "x", "Taken.")
    auth = await client.get("/api/errors/auth")
    assert (auth.status_code, auth.headers["www-authenticate"]) == (401, 'Bearer error="invalid_token"')
    busy = await client.get("/api/errors/busy")
    assert (busy.status_code, busy.headers["retry-after"]) == (503, "3")
    fields = (await client.get("/api/errors/fields")).json()["errors"]
    assert [error["field"] for error in fields] == ["a", "b"]
    bug = await client.get("/api/errors/bug")
    assert (bug.status_code, bug.json()["code"]) == (500, "internal_error")
    assert "hunter2" not in bug.text
    for answer in (conflict, auth, busy, bug):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "TRACE", "BREW"])
async def test_other_methods_are_405_with_allow(client: httpx.AsyncClient, method: str) -> None:
    """Allow names what the view has."""
    answer = await client.request(method, "/api/answers/struct")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"


async def test_head_and_options(client: httpx.AsyncClient) -> None:
    """HEAD follows GET; OPTIONS is 204 with Allow."""
    head = await client.head("/api/answers/struct")
    assert (head.status_code, head.headers["content-type"]) == (200, "application/json")
    options = await client.options("/api/answers/struct")
    assert (options.status_code, options.headers["allow"], options.content) == (204, "GET, HEAD, OPTIONS", b"")


def test_synchronous_handlers_are_refused_when_declared() -> None:
    """A handler that would block the loop stops start-up, by name."""
    with pytest.raises(ImproperlyConfigured, match=r"Blocking\.get"):

        class Blocking(AsyncAPIView):
            def get(self, request: ApiRequest) -> None:
                """Block."""
