"""What the sweep sends: every path of the URL configuration, and requests that no client of ours would make."""

import asyncio
import base64
import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from django.urls import URLPattern, URLResolver, get_resolver

from ironauth.infrastructure.core.asgi_types import Application, Message
from ironauth.pages import OPENAPI_FILE
from ironauth.tests.cost_hooks import ALL_CASES

#: RFC 9110 §9.3, RFC 5789, and one that nobody has defined.
METHODS: Final = ("POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS", "BREW")
#: Methods that a view here may have a handler for that reads a body.
WITH_BODY: Final = ("POST", "PUT", "PATCH", "DELETE")
FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
MULTIPART: Final = "multipart/form-data; boundary=x"
#: "" is a request without the field.
CONTENT_TYPES: Final = (JSON, FORM, MULTIPART, "text/plain", "", "application/json; charset=utf-16", ";;=")
#: Levels: ten times the interpreter's recursion limit.
DEEP: Final = 10_000
#: Bytes of a value that a head has room for ten times.
SHORT: Final = 1_500
#: What Python, and Django with it, would decode texts by.
CHARSETS: Final = ("rot13", "base64", "utf-16", "idna", "undefined", "no such")
#: Levels that fit into a token of 4 KiB, the most that any decoder here reads.
SHALLOW: Final = 2_900

_PARAMETER: Final = re.compile(r"<(?:(\w+):)?(\w+)>")


def _b64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def token(header: str, payload: str) -> str:
    """Return a text of the form of a signed token with this header and payload."""
    return f"{_b64(header)}.{_b64(payload)}.{'A' * 86}"


_HEADER: Final = '{"alg":"EdDSA","kid":"k","typ":"at+jwt"}'
#: The rest is below a member that no reader knows, and skips.
_PAYLOAD: Final = '{"jti":"a","iss":"a","sub":"a","x":'
#: Values of a field, a header or a parameter that break readers: each made to be read as something.
HOSTILE: Final = {
    "nested payload": token(_HEADER, _PAYLOAD + "[" * DEEP),
    "nested payload of a short token": token(_HEADER, _PAYLOAD + "[" * SHALLOW),
    "nested header": token(_HEADER[:-1] + ',"x":' + "[" * DEEP, "{}"),
    "nested header of a short token": token(_HEADER[:-1] + ',"x":' + "[" * SHALLOW, "{}"),
    "nested and whole": token(_HEADER, _PAYLOAD + "[" * (SHALLOW // 2) + "]" * (SHALLOW // 2) + "}"),
    "duplicate members": token(_HEADER, '{"jti":"a","jti":"b"}'),
    "payload that is no text": f"{_b64(_HEADER)}.{'_' * 40}.AAAA",
    "two dots": "..",
    "nested lists": "[" * DEEP,
    "nested objects": '{"a":' * (SHALLOW // 2),
    "NUL": "a\0b",
    "beyond ASCII": "é\U0001f9a6\u0661",
    "huge number": "9" * 5_000,
    "long text": "x" * 7_000,
    "date of no year": "-1",
    "address": "a@example.com",
}
#: The same for fields of JSON.
HOSTILE_JSON: Final = {
    **{name: json.dumps(value) for name, value in HOSTILE.items()},
    "empty": '""',
    "list": "[]",
    "nested list": "[" * 200 + "]" * 200,
    "object": '{"id":{"type":[]},"response":{"clientDataJSON":"e30","attestationObject":"oA"},"rawId":1}',
    "huge integer": "1" + "0" * 400,
    "number": "1e308",
    "true": "true",
    "null": "null",
    "lone surrogate": '"\\ud800"',
}


class Path(NamedTuple):
    """A path to call, and the route it is of."""

    path: str
    route: str

    @property
    def is_page_of_staff(self) -> bool:
        """Whether the admin lane answers."""
        return self.path.startswith("/admin")


class Body(NamedTuple):
    """A body and its type; ``content`` None: none at all, not even an empty one."""

    name: str
    content_type: str
    content: bytes | None


def paths(values: dict[str, str]) -> list[Path]:
    """Return every path of the URL configuration, with ``values`` in the place of its parameters.

    Raises ``KeyError`` for a parameter that has no value there: give it one where the sweep is.
    """
    found = [Path("/" + _filled(route, values), route) for route, _ in _routes(get_resolver())]
    return [*found, Path("/nowhere", ""), Path("/static/nothing.css", ""), Path("/admin", "")]


def views() -> set[Any]:
    """Return the REST framework's views of the URL configuration, pages among them."""
    return {view.cls for _, view in _routes(get_resolver()) if hasattr(view, "cls")}


def _routes(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for one in resolver.url_patterns:
        route = prefix + str(one.pattern)
        if isinstance(one, URLPattern):
            yield route, one.callback
        else:
            yield from _routes(one, route)


def _filled(route: str, values: dict[str, str]) -> str:
    if "(?P" in route:  # the admin's list of an application's models, and whatever else is below it
        return {"admin/^(?P<app_label>accounts|tokens)/$": "admin/tokens/", "admin/(?P<url>.*)$": "admin/nothing"}[
            route
        ]
    return _PARAMETER.sub(lambda match: values[match[2]], route)


def operations() -> dict[str, tuple[list[str], list[str]]]:
    """Return the names of the body's fields and the query's parameters in the API's description, by "METHOD /path"."""
    document: dict[str, Any] = json.loads(OPENAPI_FILE.read_bytes())
    found = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            names: list[str] = []
            for content in operation.get("requestBody", {}).get("content", {}).values():
                schema = content["schema"]
                if "$ref" in schema:
                    schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
                names = list(schema.get("properties", ()))
            asked = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
            found[f"{method.upper()} {path}"] = (names, asked)
    return found


def bodies(content_type: str, *, read: bool) -> Iterator[Body]:
    """Yield bodies of this type that say nothing, or nothing that can be read; ``read``: whether a handler may."""
    yield Body("empty", content_type, b"")
    if not read:
        return
    yield Body("none", content_type, None)
    contents: tuple[bytes, ...]
    nested = b'{"a":' * DEEP + b"1" + b"}" * DEEP
    if content_type.startswith(JSON):
        contents = (b'{"email":', nested, b"[" * DEEP, b'{"email":"a@example.com","email":"b@example.com"}', b"[]")
    elif content_type == FORM:
        hostile = urlencode({"token": HOSTILE["nested payload"], "credential": HOSTILE["nested objects"]}).encode()
        contents = (b"%zz=%&&=&a", hostile, b"a[" * DEEP, b"email=a&email=b&token=a&token=b", b"\xff\xfe=\xff")
    elif content_type == MULTIPART:
        part = b'--x\r\nContent-Disposition: form-data; name="email"\r\n\r\na\r\n'
        contents = (b"--x\r\nContent-Dis", b"--x\r\n" * 100, part, part * 2 + b"--x--\r\n", part + b"--x--\r\n")
    else:
        contents = (b"\xff\0", nested)
    for name, content in zip(("malformed", "nested", "deep", "duplicate members", "other"), contents, strict=False):
        yield Body(name, content_type, content)


def json_fields(names: list[str]) -> Iterator[Body]:
    """Yield objects in which one member has a hostile value and the others an ordinary one; and all of them at once."""
    for label, value in HOSTILE_JSON.items():
        for name in (*names, ""):
            members = (f"{json.dumps(one)}:{value if name in (one, '') else json.dumps('1')}" for one in names)
            yield Body(f"{name or 'every member'}: {label}", JSON, ("{" + ",".join(members) + "}").encode())


def form_fields(names: list[str], fixed: dict[str, str]) -> Iterator[Body]:
    """Yield forms in which one field has a hostile value; and all of them at once.

    Each field has each value once, by turns alone and beside ordinary values of the others: what a reader makes of a
    value hardly depends on them, and half of the requests were for that (``ALL_CASES``: both). A field of ``fixed``
    has the value there, unless it is the hostile one.
    """
    for turn, (label, value) in enumerate(HOSTILE.items()):
        for at, name in enumerate(names):
            alone = (turn + at) % 2
            if alone or ALL_CASES:
                yield Body(f"{name} alone: {label}", FORM, urlencode({**fixed, name: value}).encode())
            if not alone or ALL_CASES:
                given = {one: value if one == name else fixed.get(one, "1") for one in names}
                yield Body(f"{name}: {label}", FORM, urlencode(given).encode())
        yield Body(f"every field: {label}", FORM, urlencode({**fixed, **dict.fromkeys(names, value)}).encode())


def credentials(value: str, cookies: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name of each header that brings something to be read before anything is known, and the head with it."""
    yield "Bearer", {"authorization": f"Bearer {value}"}
    yield "bearer", {"authorization": f"bearer {value}"}
    yield "DPoP and proof", {"authorization": f"DPoP {value}", "dpop": value}
    yield "Basic", {"authorization": f"Basic {value}"}
    yield "Basic in base64", {"authorization": f"Basic {base64.b64encode(value.encode()).decode()}"}
    yield "Authorization", {"authorization": value}
    yield "cookies", {"cookie": value}
    others: tuple[str, ...] = (
        "accept",
        "content-type",
        "host",
        "origin",
        "referer",
        "traceparent",
        "user-agent",
        "x-request-id",
    )
    if len(value) < SHORT:  # a head has room for all of them
        same_origin = {"sec-fetch-site": "same-origin"}
        yield "every cookie", {"cookie": "; ".join(f"{name}={value}" for name in cookies), **same_origin}
        yield "every other field", dict.fromkeys(set(others) - {"content-type", "host"}, value)
        others = ("content-type", "host")
    else:
        for name in cookies:
            yield f"cookie {name}", {"cookie": f"{name}={value}", "sec-fetch-site": "same-origin"}
    for name in others:
        yield name, {name: value}


def query(names: list[str], value: str, fixed: dict[str, str] | None = None) -> bytes:
    """Return a query string in which every one of the names has the value."""
    return urlencode({**(fixed or {}), **dict.fromkeys(names, value)}).encode()


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes


async def ask(
    application: Application,
    method: str,
    path: str,
    *,
    headers: dict[str, str] | None = None,
    body: Body | None = None,
    query_string: bytes = b"",
) -> Answer:
    """Let the whole ASGI application answer one request; a body has its length in the head, as clients send it."""
    given = {"host": "testserver", **(headers or {})}
    content = b""
    if body is not None:
        content = body.content or b""
        given |= {"content-type": body.content_type} if body.content_type else {}
        given |= {"content-length": str(len(content))} if body.content is not None else {}
    incoming: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]
    sent: list[Message] = []
    stays: asyncio.Future[Message] = asyncio.get_running_loop().create_future()  # the client never leaves

    async def receive() -> Message:
        return incoming.pop() if incoming else await stays

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": quote(path).encode(),
        "query_string": query_string,
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin1", "replace")) for name, value in given.items()],
        "client": ("203.0.113.9", 50_000),
        "server": ("127.0.0.1", 8000),
    }
    await application(scope, receive, send)
    assert sent, f"{method} {path} got no answer"
    return Answer(sent[0]["status"], sent[0]["headers"], b"".join(one.get("body", b"") for one in sent[1:]))
