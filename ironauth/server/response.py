"""One request and its answer: Uvicorn's cycle, where the lines of fields that all answers share are made once.

Uvicorn checks name and value of each field with two regular expressions at every answer. An answer of ours has eleven
fields, ten of them the same as in the answer before: half of a hot request's time (docs/performance/laboratory.md).

The answers of one turn of the event loop leave together, where uvloop would write each at once. With many connections
each answer then wakes a client that has nothing else to do. A virtual machine leaves the guest for that, which cost the
*server* 16 to 26 µs an answer, a fifth of its time (perf's samples under ``sock_def_readable``). Written one right
after the other, the first wakes the client, and the rest find it awake. Measured with 16 connections: a fifth to a
quarter more requests a second.
"""

import asyncio
from collections import deque
from collections.abc import Sized
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

from ironauth.infrastructure.core.asgi_types import WHOLE_ANSWER
from ironauth.infrastructure.http.refusal import Answer

#: Answers that wait for each other at most: the first of them would otherwise wait for all of a long turn.
MOST_TOGETHER = 16


class _Turn:
    """The connections with an answer that waits, of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self.loop = loop
        self.waiting: list[WriteCoalescer] = []

    def flush(self) -> None:
        waiting, self.waiting = self.waiting, []
        for transport in waiting:
            transport.flush()


_turns = [_Turn(None)]  # one: a process has one loop, but for tests


def send_answer(transport: Any, data: bytes) -> None:
    """Send a whole answer, now or with those of other connections, where the transport can wait.

    Args:
        transport: of the connection.
        data: the bytes of the answer.
    """
    if isinstance(transport, WriteCoalescer):
        transport.answer(data)
    else:
        transport.write(data)


class WriteCoalescer:
    """A transport whose ``answer`` may wait for the end of the loop's turn; whatever else is called sends it first."""

    __slots__ = ("_answers", "_inner", "_loop", "_running", "is_closing")

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop, running: Sized) -> None:
        """Wrap a transport.

        Args:
            inner: sends.
            loop: whose turns are waited for.
            running: the requests being answered; where there is only one, nothing waits.
        """
        self._inner: Any = inner
        self.is_closing = inner.is_closing  # asked for with every answer
        self._loop = loop
        self._running = running
        self._answers = b""

    def answer(self, data: bytes) -> None:
        """Send a whole answer, now or with those of other connections."""
        if len(self._running) <= 1:
            self.write(data)
            return
        turn = _turns[0]
        if turn.loop is not self._loop:
            turn = _turns[0] = _Turn(self._loop)
        if not self._answers:
            if not turn.waiting:
                self._loop.call_soon(turn.flush)
            turn.waiting.append(self)
        self._answers += data
        if len(turn.waiting) >= MOST_TOGETHER:
            turn.flush()

    def flush(self) -> None:
        """Send what waits, unless the connection is closed."""
        answers, self._answers = self._answers, b""
        if answers and not self._inner.is_closing():
            self._inner.write(answers)

    def write(self, data: bytes) -> None:
        """Send ``data`` now."""
        if self._answers:
            self.flush()
        self._inner.write(data)

    def write_eof(self) -> None:
        """Send nothing more after what waits."""
        self.flush()
        self._inner.write_eof()

    def close(self) -> None:
        """Close after what waits has been sent."""
        self.flush()
        self._inner.close()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are on their way to the kernel."""
        size: int = self._inner.get_write_buffer_size()
        return size + len(self._answers)

    def __getattr__(self, name: str) -> Any:
        """Return what else the transport has; none of it writes."""
        return getattr(self._inner, name)


#: Fields with few different values, none of them secret; their lines are kept.
KEPT_FIELDS = frozenset(
    {
        b"allow", b"cache-control", b"content-security-policy", b"content-type", b"cross-origin-opener-policy",
        b"referrer-policy", b"server", b"strict-transport-security", b"vary", b"x-content-type-options",
        b"x-frame-options",
    }
)  # fmt: skip
MAX_KEPT = 512  # more than an application has; beyond it lines are made as they come
#: Larger bodies are not copied behind their head: clients that read slowly would each hold a copy. uvloop sends both at
#: the end of the loop's turn, in one system call too.
JOINED_BYTES = 16 * 1024
#: Fields that change how the body is sent.
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection"})
_NO_BODY = frozenset({204, 304})

#: Parsed at once: a request with a token is about 1 KiB, so most reads are not divided.
FED_BYTES = 4096
#: Parsed requests that may wait behind the one being answered; each is about 4 KB, whatever its length on the wire.
MOST_WAITING = 8
_HEAD_END = b"\r\n\r\n"
#: The extensions of ASGI in every scope.
OFFERED: dict[str, dict[object, object]] = {WHOLE_ANSWER: {}}

Field = tuple[bytes, bytes]
_kept: dict[Field, bytes] = {}
_good_names: set[bytes] = set()
#: Uvicorn's own fields (the date) as they were last, and their lines: a new list every second.
_default: list[tuple[list[Field], bytes]] = [([], b"")]


def is_one_part(data: bytes) -> bool:
    """Return whether ``data`` is parsed as it is: one request at most, or a part of one."""
    return len(data) <= FED_BYTES and data.find(_HEAD_END, 0, -1) < 0


def end_of_part(data: bytes, at: int) -> int:
    """Return where a part of ``data`` ends: behind what looks like a head, or by its size.

    Args:
        data: what was received.
        at: where the part begins.
    """
    found = data.find(_HEAD_END, at, at + FED_BYTES)
    return at + FED_BYTES if found < 0 else found + len(_HEAD_END)


def line(name: bytes, value: bytes) -> bytes:
    """Return the line of a field.

    Args:
        name: in any case.
        value: as it is sent.

    Raises:
        RuntimeError: the name or the value would break out of the line.
    """
    if name not in _good_names:
        if HEADER_RE.search(name):
            raise RuntimeError("Invalid HTTP header name.")
        if len(_good_names) < MAX_KEPT:
            _good_names.add(name)
    if not value.isalnum() and HEADER_VALUE_RE.search(value):  # a length, a request id: no need to search
        raise RuntimeError("Invalid HTTP header value.")
    name = name.lower()
    made = b"%s: %s\r\n" % (name, value)
    if name in KEPT_FIELDS and len(_kept) < MAX_KEPT:
        _kept[name, value] = made
    return made


def default_lines(fields: list[Field]) -> bytes:
    """Return the lines of Uvicorn's own fields, made anew when it has made a new list."""
    known, lines = _default[0]
    if known is not fields:
        lines = b"".join(line(*field) for field in fields)
        _default[0] = (fields, lines)
    return lines


def refusal_bytes(answer: Answer, default_headers: list[Field], *, with_body: bool) -> bytes:
    """Return what is sent for a refusal.

    Args:
        answer: status, fields and body.
        default_headers: Uvicorn's own fields.
        with_body: whether the request was no HEAD.
    """
    content = [STATUS_LINE[answer.status]]
    for name, value in [*default_headers, *answer.headers]:
        content.extend([name, b": ", value, b"\r\n"])
    content.extend([b"\r\n", answer.body if with_body else b""])
    return b"".join(content)


class FastResponseCycle(RequestResponseCycle):
    """Sends what Uvicorn sends, to the byte, but the head together with the first part of the body."""

    #: The head, until the body's first part is there (ASGI lets a server wait): each write is a system call of 6 µs.
    _head = b""
    #: The last answer of a connection is complete, the request's body is not: closing now would reset the connection
    #: under the answer, so anybody who is told by ``on_response`` closes.
    body_left = False

    async def send(self, message: Any) -> None:
        """Send the head, the whole body, both at once, or (by Uvicorn's own means) a part of the body."""
        if not self.response_started:
            if self.flow.write_paused and not self.disconnected:
                await self.flow.drain()
            if message["type"] == WHOLE_ANSWER:
                self._send_whole_answer(message)
            else:
                self._prepare_head(message)
        elif self.disconnected or not self._send_whole_body(message):
            if self._head and not self.disconnected:
                self.transport.write(self._head)
                self._head = b""
            if self.more_body and not self.keep_alive and not message.get("more_body", False):
                self.body_left = self.keep_alive = True  # or Uvicorn would close
            await super().send(message)

    def _prepare_head(self, message: Any) -> None:
        if message["type"] != "http.response.start":
            raise RuntimeError(f"Expected ASGI message 'http.response.start', but got '{message['type']}'.")
        self.response_started = True
        self.waiting_for_100_continue = False
        status = message["status"]
        content = [STATUS_LINE[status], default_lines(self.default_headers)]
        said_close = False
        for name, value in message.get("headers", ()):
            lowered = name.lower()
            kept = _kept.get((lowered, value))
            if kept is not None:
                content.append(kept)
                continue
            content.append(line(name, value))
            if lowered in _FRAMING:
                said_close = self._understand(lowered, value) or said_close
        if not self.keep_alive and not said_close:
            content.append(b"connection: close\r\n")
        if self.chunked_encoding is None and self.scope["method"] != "HEAD" and status not in _NO_BODY:
            self.chunked_encoding = True
            content.append(b"transfer-encoding: chunked\r\n")
        content.append(b"\r\n")
        self._head = b"".join(content)

    def _understand(self, name: bytes, value: bytes) -> bool:
        """Note what a field says about the body and the connection; return whether it closes the latter."""
        if name == b"content-length":
            if self.chunked_encoding is None:
                self.expected_content_length = int(value)
                self.chunked_encoding = False
        elif name == b"transfer-encoding":
            if value.lower() == b"chunked":
                self.expected_content_length = 0
                self.chunked_encoding = True
        elif b"close" in [token.lower().strip() for token in value.split(b",")]:
            self.keep_alive = False
            return True
        return False

    def _send_whole_body(self, message: Any) -> bool:
        """Send head and body when the latter is complete and as long as announced; return whether it was."""
        if (
            self.response_complete
            or self.chunked_encoding
            or message["type"] != "http.response.body"
            or message.get("more_body", False)
            or not self._head
            or self.scope["method"] == "HEAD"
        ):
            return False
        body = message.get("body", b"")
        if len(body) != self.expected_content_length:
            return False
        self._finish(self._head, body)
        self._head = b""
        self.expected_content_length = 0
        return True

    def _send_whole_answer(self, message: Any) -> None:
        """Send the lines of a head that were made before, and the body they announce."""
        self.response_started = True
        self.waiting_for_100_continue = False
        if self.disconnected:
            return
        head = b"%s%s%s%s\r\n" % (
            STATUS_LINE[message["status"]],
            default_lines(self.default_headers),
            message["lines"],
            b"" if self.keep_alive else b"connection: close\r\n",
        )
        self._finish(head, b"" if self.scope["method"] == "HEAD" else message["body"])

    def _finish(self, head: bytes, body: bytes) -> None:
        if len(body) > JOINED_BYTES:
            self.transport.write(head)
            self.transport.write(body)
        else:
            send_answer(self.transport, head + body)
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            if self.more_body:
                self.body_left = True
            else:
                self.transport.close()
        self.on_response()


class PausableFlowControl(FlowControl):
    """Uvicorn's flow control, reading nothing more while a parsed request waits.

    An application that listens for its client's departure would resume reading, and bring 256 KiB more each time.
    """

    def __init__(self, transport: asyncio.Transport, waiting: deque[Any]) -> None:
        """Control the flow of one connection.

        Args:
            transport: of the connection.
            waiting: its parsed requests that wait for their turn.
        """
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on, unless requests wait."""
        if not self._waiting:
            super().resume_reading()
