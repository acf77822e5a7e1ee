"""The hot lane: repeats in ASGI what the API lane has answered for a verified token, while the token is good.

Nothing is computed here a second way. The first request after a token was verified goes through the view, and its
answer is kept. Later requests get the same status, fields and body with a request id of their own. Answers are kept in
the cache's own entry of the token, so whatever ends the entry (a revocation, its age, a changed account) ends them in
the same instant. Any unusual request goes to the API lane, which knows how to answer it.

A form that asks about a token is answered likewise, when the same bytes were answered before: who owns the path keeps
the answers, and says which are good (`Questions`).
"""

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote_to_bytes

import msgspec
from django.core.signals import request_finished, request_started

from ironauth.infrastructure.core.asgi_types import WHOLE_ANSWER, Application, Message, Receive, Scope, Send
from ironauth.infrastructure.core.ids import choose_request_id
from ironauth.infrastructure.core.live_settings import live
from ironauth.infrastructure.http import cookies
from ironauth.infrastructure.http.client_context import client_address, with_forwarded_scheme
from ironauth.infrastructure.http.cookies import AmbiguousCookies
from ironauth.infrastructure.http.fast_request import is_allowed_host
from ironauth.infrastructure.http.request_state import custom_receivers
from ironauth.infrastructure.telemetry import logs, metrics
from ironauth.infrastructure.telemetry.metrics_catalogue import SHORTEST_NS, bucket

#: Answers to one token: two paths, two methods, two schemes, and a few scopes that are asked for.
MAX_ANSWERS = 12
MAX_QUERY = 256  # bytes; it is kept with the answer
#: Fields and parts of heads that answers share; those of /me differ by the body's length alone.
MAX_SHARED = 1_024
#: Bytes that an answer takes beside its body and parts that it shares with no other, and a field of such a part.
ANSWER_BYTES, FIELD_BYTES = 260, 60
_ID_FIELD = b"X-Request-ID"
_SAFE_METHODS = frozenset({"GET", "HEAD"})
#: A body, its type, or the wish to send one, is for the API lane to judge.
_BODY_FIELDS = frozenset({b"content-length", b"content-type", b"expect", b"transfer-encoding"})
#: What an ordinary form never has: a body sent in a special way, and a browser's cookies.
_UNUSUAL_FORM_FIELDS = frozenset({b"cookie", b"expect", b"transfer-encoding"})
#: An answer with one of these depends on more than token, method, path and scheme.
_PERSONAL_FIELDS = frozenset({b"set-cookie", b"vary"})
#: How such an answer is sent is the server's to say.
_CONNECTION_FIELDS = frozenset({b"connection", b"transfer-encoding"})

type Fields = tuple[tuple[bytes, bytes], ...]


class _Part(msgspec.Struct, frozen=True, gc=False):
    """A part of a head, as fields and as HTTP/1.1 has them on the wire; not walked, as `_Answer`."""

    fields: Fields
    lines: bytes
    is_shared: bool = False


class _Answer(msgspec.Struct, frozen=True, gc=False):
    """A response without its request id, which goes between ``before`` and ``after``.

    There is one for each live token: the garbage collector need not walk what can be part of no cycle.
    """

    status: int
    before: _Part
    after: _Part
    body: bytes
    tally: list[int] | None = None  # of such answers: a histogram's counts and sum; None: metrics are off

    def whole(self, request_id: bytes) -> Message:
        """Return all of it as one message, for a server that offers `WHOLE_ANSWER`."""
        lines = b"%sx-request-id: %s\r\n%s" % (self.before.lines, request_id, self.after.lines)
        return {"type": WHOLE_ANSWER, "status": self.status, "lines": lines, "body": self.body}

    @property
    def size(self) -> int:
        """Bytes that it takes in memory alone."""
        own = [part for part in (self.before, self.after) if not part.is_shared]
        parts = sum(2 * len(part.lines) + FIELD_BYTES * len(part.fields) for part in own)
        return ANSWER_BYTES + len(self.body) + parts

    def head(self, request_id: bytes) -> Message:
        """Return the first of ASGI's two messages."""
        fields = [*self.before.fields, (_ID_FIELD, request_id), *self.after.fields]
        return {"type": "http.response.start", "status": self.status, "headers": fields}


type _Request = tuple[str, str, str]  # method, path (with scopes asked for), scheme
type Answers = dict[_Request, _Answer]


class Question(NamedTuple):
    """A form, and what else its answer may depend on; fields of the head are empty where they were not sent."""

    scheme: bytes
    authorization: bytes
    accept: bytes
    content_type: bytes
    body: bytes


class Questions(Protocol):
    """The answers to forms of one path; synchronous and free of I/O."""

    def answer_to(self, question: Question) -> tuple[Any, Any]:
        """Return what was kept for this very question, if it may be given again now; else None.

        And a mark of what is known now for ``keep``, None where there is an answer, and where none may be kept.
        """

    def keep(self, question: Question, answer: object, size: int, mark: Any) -> None:
        """Keep an answer of the application, if it may be given again.

        Args:
            question: What it is the answer to.
            answer: What is to be returned by ``answer_to``.
            size: Bytes that it takes in memory.
            mark: Returned before the application began.
        """


class HotLane:
    """Answers requests that were answered before; hands everything else to ``application``, the API lane.

    Args:
        paths: Whose GET and HEAD are answered for tokens seen before.
        answers_of: Returns the answers to a verified token: the same dict as long as the token stands for the same;
            None for a token that is not good now. Free of I/O, as ``keep``.
        keep: Adds an answer to those of a token; the last argument is the bytes that it takes.
        cookie_name: Returns the name of the cookie that may hold the token.
        header_paths: Those of ``paths`` at which a cookie is no credential.
        forms: Paths that take a POST, with who keeps the answers to its forms.
    """

    def __init__(
        self,
        application: Application,
        *,
        paths: frozenset[str],
        answers_of: Callable[[bytes], Answers | None],
        keep: Callable[[bytes, _Request, _Answer, int], None],
        cookie_name: Callable[[], str],
        header_paths: frozenset[str] = frozenset(),
        forms: Mapping[str, Questions] | None = None,
    ) -> None:
        self.application = application
        self._paths = paths
        self._header_paths = header_paths
        self._answers_of = answers_of
        self._keep = keep
        self._cookie_name = cookie_name
        self._forms = forms or {}
        self._metrics = metrics.recorder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from memory, or let the application answer and remember it."""
        if scope["path"] in self._forms and live.IRONAUTH_HOT_LANE:
            await self._answer_form(scope, receive, send)
            return
        found = self._credential(scope) if scope["path"] in self._paths and live.IRONAUTH_HOT_LANE else None
        if found is None:
            await self.application(scope, receive, send)
            return
        started = time.perf_counter_ns()
        token, incoming_id = found
        request = (scope["method"], scope["path"] + _asked_scopes(scope), _scheme(scope))
        answers = self._answers_of(token)
        if answers is None:
            await self.application(scope, receive, send)
            return
        answer = answers.get(request)
        if answer is None:
            recorder = _Recorder(send)
            await self.application(scope, receive, recorder)
            if self._answers_of(token) is answers:  # good before, and still the same afterwards
                self._remember(token, recorder.answer(), answers, request, scope)
            return
        await self._repeat(answer, incoming_id, started, scope, send)

    async def _answer_form(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a form from memory, or let the application answer and remember it."""
        fields = _form_fields(scope)
        if fields is None:
            await self.application(scope, receive, send)
            return
        started = time.perf_counter_ns()
        message = await receive()
        if message["type"] != "http.request" or message.get("more_body"):
            await self.application(scope, _Replay(message, receive), send)
            return
        question = Question(
            _scheme(scope).encode("latin1"),
            fields.get(b"authorization", b""),
            fields.get(b"accept", b""),
            fields.get(b"content-type", b""),
            message.get("body", b""),
        )
        questions = self._forms[scope["path"]]
        answer, mark = questions.answer_to(question)
        if answer is not None:
            await self._repeat(answer, _incoming_id(fields), started, scope, send)
            return
        if mark is None:
            await self.application(scope, _Replay(message, receive), send)
            return
        recorder = _Recorder(send)
        await self.application(scope, _Replay(message, receive), recorder)
        given = recorder.answer()
        if given is not None:
            questions.keep(question, self._counted(given, scope), given.size, mark)

    async def _repeat(self, answer: _Answer, incoming_id: str | None, started: int, scope: Scope, send: Send) -> None:
        """Send a recorded answer with an id of its own, count it, and log it. ``started``: ns of `perf_counter_ns`."""
        request_id = choose_request_id(incoming_id)
        if WHOLE_ANSWER in scope.get("extensions", ()):
            await send(answer.whole(request_id.encode()))
        else:
            await send(answer.head(request_id.encode()))
            await send({"type": "http.response.body", "body": answer.body})
        took_ns = time.perf_counter_ns() - started
        tally = answer.tally
        if tally is not None:
            tally[bucket(took_ns) if took_ns > SHORTEST_NS else 0] += 1
            tally[-1] += took_ns
        if live.IRONAUTH_ACCESS_LOG:
            took_ms = took_ns / 1_000_000
            logs.access(scope["method"], scope["path"], answer.status, took_ms, client_address(scope), request_id)

    def _remember(
        self, token: bytes, answer: _Answer | None, answers: Answers, request: _Request, scope: Scope
    ) -> None:
        """Keep the answer to ``request``, if there is one that may be given again."""
        if answer is None or len(answers) >= MAX_ANSWERS:
            return
        answer = self._counted(answer, scope)
        shared = request if "?" in request[1] else _share(request)
        self._keep(token, shared, answer, answer.size)

    def _counted(self, answer: _Answer, scope: Scope) -> _Answer:
        """Return the answer with where it is counted each time that it is given again."""
        if self._metrics is None:
            return answer
        tally = self._metrics.request_tally(scope["method"], scope["path"], "hot", answer.status)
        return msgspec.structs.replace(answer, tally=tally)

    def _credential(self, scope: Scope) -> tuple[bytes, str | None] | None:
        """Return the token and the id of a request that is plain in every respect; None for any other."""
        sent = scope["headers"]
        fields: dict[bytes, bytes] = dict(sent)
        if (
            scope["method"] not in _SAFE_METHODS
            or len(fields) != len(sent)  # a repeated field
            or not _BODY_FIELDS.isdisjoint(fields)
            or len(query := scope.get("query_string", b"")) > MAX_QUERY
            or not query.isascii()
            or (query and b"resource" in unquote_to_bytes(query))  # what a token is for is judged each time
            or scope.get("root_path")
            or not is_allowed_host(fields.get(b"host", b"").decode("latin1"))
            or not _is_quiet()
        ):
            return None
        cookie = fields.get(b"cookie")
        if cookie is not None and scope["path"] in self._header_paths:
            return None
        token = self._token(fields.get(b"authorization"), cookie)
        if token is None or not token.isascii():
            return None
        return token, _incoming_id(fields)

    def _token(self, bearer: bytes | None, cookie: bytes | None) -> bytes | None:
        """Return the one access token of both fields, None where there is none, or more to be said."""
        if cookie is not None:
            try:
                token = cookies.read(cookie.decode("latin1")).get(self._cookie_name())
            except AmbiguousCookies:
                return None
            if token is not None:
                return token.encode("latin1") if token and bearer is None else None
        return bearer[7:] if bearer is not None and bearer[:7] == b"Bearer " else None


class _Recorder:
    """A ``send`` that passes everything on and remembers it."""

    __slots__ = ("messages", "send")

    def __init__(self, send: Send) -> None:
        self.send = send
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)
        await self.send(message)

    def answer(self) -> _Answer | None:
        """Return the response if it may be given again: a whole 200 or 204 that only its request id makes unique."""
        if len(self.messages) != 2:  # noqa: PLR2004 - head and body; a stream has more
            return None
        head, body = self.messages
        fields: Fields = tuple((name, value) for name, value in head["headers"])
        names = [name.lower() for name, _ in fields]
        if (
            head["status"] not in (200, 204)
            or body.get("more_body")
            or not _PERSONAL_FIELDS.isdisjoint(names)
            or not _CONNECTION_FIELDS.isdisjoint(names)
            or (head["status"] != 204 and b"content-length" not in names)  # noqa: PLR2004 - No Content
        ):
            return None
        at = names.index(_ID_FIELD.lower())
        return _Answer(head["status"], _part(fields[:at]), _part(fields[at + 1 :]), body.get("body", b""))


class _Replay:
    """A ``receive`` that gives one message again, then whatever the server says next."""

    __slots__ = ("message", "receive")

    def __init__(self, message: Message, receive: Receive) -> None:
        self.message: Message | None = message
        self.receive = receive

    async def __call__(self) -> Message:
        message, self.message = self.message, None
        return await self.receive() if message is None else message


def _form_fields(scope: Scope) -> dict[bytes, bytes] | None:
    """Return the head's fields of a form that is plain in every respect; None for any other request."""
    sent = scope["headers"]
    fields: dict[bytes, bytes] = dict(sent)
    if (
        scope["method"] != "POST"
        or len(fields) != len(sent)  # a repeated field
        or not _UNUSUAL_FORM_FIELDS.isdisjoint(fields)
        or b"content-length" not in fields
        or scope.get("query_string")
        or scope.get("root_path")
        or not is_allowed_host(fields.get(b"host", b"").decode("latin1"))
        or not _is_quiet()
    ):
        return None
    return fields


def _incoming_id(fields: Mapping[bytes, bytes]) -> str | None:
    """Return the request id that was sent, if one was."""
    incoming_id = fields.get(b"x-request-id")
    return None if incoming_id is None else incoming_id.decode("latin1")


def _scheme(scope: Scope) -> str:
    """Return the scheme of the address that the client used."""
    scheme: str = with_forwarded_scheme(scope)["scheme"] if live.IRONAUTH_TRUSTED_PROXIES else scope["scheme"]
    return scheme


def _asked_scopes(scope: Scope) -> str:
    """Return the query of an address where it names a scope, since the answer depends on it; else ""."""
    query: bytes = scope.get("query_string", b"")
    return f"?{query.decode('ascii')}" if query and b"scope" in unquote_to_bytes(query) else ""


def _part(fields: Fields) -> _Part:
    """Return these fields and their lines, held by as few objects as can be."""
    part = _Part(fields, b"".join(b"%s: %s\r\n" % (name.lower(), value) for name, value in fields))
    personal = {name for name, _ in fields if name.lower().startswith(b"x-auth-")}
    if not personal:
        shared = _share(msgspec.structs.replace(part, is_shared=True))
        return shared if shared in _shared else part
    shared_fields = tuple(field if field[0] in personal else _share(field) for field in fields)
    return msgspec.structs.replace(part, fields=shared_fields)


#: Fields, parts of heads and requests that several answers hold: each is in memory once.
_shared: dict[Hashable, Any] = {}


def _share[Shared: Hashable](value: Shared) -> Shared:
    """Return an equal value that other answers hold already, if there is one."""
    known: Shared | None = _shared.get(value)
    if known is None and len(_shared) < MAX_SHARED:
        _shared[value] = value
    return value if known is None else known


def _is_quiet() -> bool:
    """Return whether nobody is waiting in the API lane to see every request.

    That is: a middleware other than the one whose work is done here, or a receiver of Django's request signals.
    """
    return (
        len(live.API_MIDDLEWARE) == 1
        and custom_receivers(request_started, HotLane) is None
        and custom_receivers(request_finished, HotLane) is None
    )
