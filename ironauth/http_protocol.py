"""Uvicorn's HTTP protocol with bounds: on a request's head, on the time it takes, and on who may wait for how long.

Uvicorn 0.54 takes an endless header, keeps a silent connection for ever, counts such connections towards its limit,
and answers its own refusals in plain text (security-bar finding 7). ASGI begins where the head is complete, so nothing
above this module can help. What the head is judged by once it is complete is in ``infrastructure.guard``.

It costs a request nothing: Uvicorn's timer per request (made, then cancelled) gives way to one per connection that
looks at a deadline when it fires.
"""

import asyncio
import math
from contextlib import suppress
from heapq import nsmallest
from typing import Any, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from ironauth.infrastructure.guard import (
    LINGER_BYTES,
    LINGER_S,
    MAX_HEADER_BYTES,
    MAX_HEADER_FIELDS,
    MAX_TARGET_BYTES,
)
from ironauth.infrastructure.refusal import Refusal, answer_for, log_access, overloaded

HEAD_TIMEOUT_S = 10.0  # as a body (api.md "Common"); people's networks send a head in one or two packets
#: Connections beyond those with a running request: room for newcomers to be heard, and told 503, when all are busy.
SPARE_CONNECTIONS = 128
#: When connections run out; finding the longest waiting looks at all of them, so not for each newcomer.
CLOSED_AT_ONCE = 32
#: An absolute-form target names scheme and authority as well; a domain name has 253 characters (RFC 1035 §2.3.4).
ORIGIN_BYTES = 512
#: The longest head the guard lets pass: target, fields, and the request line's method and version.
HEAD_BYTES = MAX_TARGET_BYTES + ORIGIN_BYTES + MAX_HEADER_BYTES + 64


#: What the parser is in the middle of; plain numbers, as reading an enum's member costs 40 ns, ten times a request.
_NOTHING, _HEAD, _BODY = range(3)


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. ``limit_concurrency`` bounds the running requests; WebSockets are not spoken.

    When connections run out, those that have waited longest for a request are closed: silent sockets keep nobody out.
    """

    head_timeout_s = HEAD_TIMEOUT_S
    spare_connections = SPARE_CONNECTIONS
    closed_at_once = CLOSED_AT_ONCE

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._application: ASGI3Application = self.app
        self._max_requests = math.inf if config.limit_concurrency is None else config.limit_concurrency
        self.limit_concurrency = None  # Uvicorn would count connections
        self._reading = _NOTHING
        self._advanced = False  # whether the bytes just fed completed something, or were a body's
        self._unfinished = 0  # bytes fed since then
        self._deadline = math.inf  # loop time; infinite while a request is answered
        self._head_is_timed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._refused = False
        self._ignored = 0  # bytes that came after a refusal

    # ------------------------------------------------------------ connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as Uvicorn's
        """Start the clock, and make room if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._max_requests + self.spare_connections:
            self._make_room()
        self._head_is_timed = True
        self._set_deadline(self.head_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._cancel_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse ``data``; what is not a request in time and within bounds is refused."""
        if self._refused:
            self._ignored += len(data)
            if self._ignored > LINGER_BYTES:
                self._close()
            return
        self._advanced = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Declined (RFC 9110 §7.8): answered as HTTP/1.1. The parser has lost its place, so nothing may follow.
            self.cycle.keep_alive = False
            self._refused = True
            return
        except httptools.HttpParserError as error:
            cause = error.__context__  # what a callback below raised
            self._refuse(cause if isinstance(cause, Refusal) else _malformed())
            return
        if self._advanced:
            self._unfinished = 0
        else:
            self._unfinished += len(data)
            if self._unfinished > HEAD_BYTES:
                self._refuse(_head_too_large())
                return
        if self._reading is _HEAD and not self._head_is_timed:
            self._head_is_timed = True
            self._set_deadline(self.head_timeout_s)

    # ------------------------------------------------------------ parser callbacks

    def on_message_begin(self) -> None:
        """Note that a head has begun (its first byte that is not a line break is here)."""
        self._reading = _HEAD
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Collect the target. Errors: `Refusal` 414."""
        self.url += url
        if len(self.url) > MAX_TARGET_BYTES + ORIGIN_BYTES:
            raise Refusal(414, "target_too_long", f"The URL is longer than {MAX_TARGET_BYTES} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a field. Errors: `Refusal` 431.

        Trailers are dropped: they come while the request is answered, and must not become header fields
        (RFC 9110 §6.5.1).
        """
        if self._reading is _BODY:
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))
        if len(self.headers) > MAX_HEADER_FIELDS:
            raise Refusal(431, "headers_too_large", f"More than {MAX_HEADER_FIELDS} header fields.")

    def on_headers_complete(self) -> None:
        """Start the request; when too many are running, it is answered 503."""
        self._reading = _BODY
        self._advanced = True
        self._head_is_timed = False
        self._deadline = math.inf
        self.app = self._application if len(self.tasks) < self._max_requests else overloaded
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._advanced = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Tell the application that the body ends here."""
        self._reading = _NOTHING
        self._advanced = True
        if not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.message_event.set()

    # ------------------------------------------------------------ after a response

    def on_response_complete(self) -> None:
        """Go on with a pipelined request, or wait for the next one as long as keep-alive allows."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        waiting = bool(self.pipeline)
        if waiting:
            self._start_asgi_task(*self.pipeline.pop())
        # Only with nothing left: reading on after each answer let a client that pipelines without end fill the memory.
        # The request just begun may still need its body; it is the last one that was parsed.
        if not self.pipeline:
            self.flow.resume_reading()
        if waiting:
            return
        if self._reading is not _HEAD:
            self._set_deadline(self.timeout_keep_alive)

    # ------------------------------------------------------------ time and room

    def _set_deadline(self, seconds: float) -> None:
        """Let `_expire` happen in ``seconds``; a timer that fires earlier is kept, as it looks at the deadline."""
        self._deadline = deadline = self.loop.time() + seconds
        if self._timer_at > deadline:
            self._cancel_timer()
            self._set_timer()

    def _set_timer(self) -> None:
        self._timer_at = self._deadline
        self._timer = self.loop.call_at(self._deadline, self._look_at_deadline)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = math.inf

    def _look_at_deadline(self) -> None:
        """Expire, or look again; while a request is answered there is no timer, and its end sets one."""
        self._timer = None
        self._timer_at = math.inf
        if self._deadline <= self.loop.time():
            self._expire()
        elif self._deadline < math.inf:
            self._set_timer()

    def _expire(self) -> None:
        """End a connection that has waited too long: with 408 if a head has begun, else without a word."""
        if self._reading is _HEAD and not self._refused:
            detail = f"The head of the request was not finished within {self.head_timeout_s:g} s."
            self._refuse(Refusal(408, "request_timeout", detail))
        else:
            self._close()

    def _make_room(self) -> None:
        """Close the connections that have waited longest for their (next) request; this one, if no other waits."""
        others = [one for one in cast("set[BoundedHttpProtocol]", self.connections) if one.waiting_since < math.inf]
        for one in nsmallest(self.closed_at_once, others, key=lambda one: one.waiting_since) or [self]:
            self.connections.discard(one)
            one._close()  # noqa: SLF001 - another of this class

    @property
    def waiting_since(self) -> float:
        """Loop time since when no request has been complete here; infinite while one is answered."""
        return self._deadline - (self.head_timeout_s if self._head_is_timed else self.timeout_keep_alive)

    def _close(self) -> None:
        """Close, without waiting for a client that does not read what it was sent."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    # ------------------------------------------------------------ refusals

    def _refuse(self, refusal: Refusal) -> None:
        """Send ``refusal`` and end the connection; a little of what still comes is read, lest it resets the answer."""
        self._refused = True
        if self.cycle is not None and not self.cycle.response_complete and not self._give_up_request():
            return
        scope = self._known_of_request()
        answer = answer_for(refusal, scope)
        content = [STATUS_LINE[answer.status]]
        for name, value in [*self.server_state.default_headers, *answer.headers]:
            content.extend([name, b": ", value, b"\r\n"])
        content.extend([b"\r\n", b"" if scope.get("method") == "HEAD" else answer.body])
        self.transport.write(b"".join(content))
        log_access(scope, answer.status, 0.0, answer.request_id)
        with suppress(OSError, NotImplementedError):  # the client has gone
            self.transport.write_eof()
        self._set_deadline(LINGER_S)

    def _give_up_request(self) -> bool:
        """Return whether a refusal may be sent although a request is running: only when it is the broken one.

        What came before it is answered first, and the connection ends with that answer.
        """
        if self._reading is not _BODY or self.pipeline:
            self.cycle.keep_alive = False
            return False
        if self.cycle.response_started:
            self._close()
            return False
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        return True

    def _known_of_request(self) -> dict[str, Any]:
        """Return as much of an ASGI scope as the bytes so far amount to."""
        if self._reading is _NOTHING:
            return {"client": self.client, "scheme": self.scheme, "headers": []}
        scope: dict[str, Any] = {**self.scope}
        if self.url:
            scope.setdefault("method", self.parser.get_method().decode("ascii"))
            scope.setdefault("path", self.url.partition(b"?")[0].decode("latin1"))
        return scope


def _malformed() -> Refusal:
    return Refusal(400, "bad_request", "This is not a well-formed HTTP/1.1 request (RFC 9112).")


def _head_too_large() -> Refusal:
    return Refusal(431, "headers_too_large", f"More than {MAX_HEADER_BYTES} bytes of header fields.")
