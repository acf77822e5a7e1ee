"""Uvicorn's HTTP protocol with bounds: on a request's head, on its time, and on who may wait for how long.

Uvicorn 0.54 takes an endless header, keeps a silent connection without end, counts such connections towards its limit,
and answers its own refusals in plain text (security-bar finding 7). ASGI begins where the head is complete, so nothing
above this module can help. Once the head is complete, ``infrastructure.http.guard`` judges it.

When connections run out, those that have waited longest for a request are closed: silent sockets keep nobody out.
"""

import asyncio
import math
from contextlib import suppress
from typing import Any, cast
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from ironauth.infrastructure.http.guard import MAX_HEADER_BYTES, MAX_HEADER_FIELDS, MAX_TARGET_BYTES
from ironauth.infrastructure.http.refusal import Refusal, answer_for, head_too_large, log_refusal, overloaded
from ironauth.server import slow_clients
from ironauth.server.request_line import VERSIONS, body_parser, check_authority, known_scope, other_version, refusal_of
from ironauth.server.response import (
    MOST_WAITING,
    OFFERED,
    FastResponseCycle,
    PausableFlowControl,
    WriteCoalescer,
    end_of_part,
    is_one_part,
    refusal_bytes,
)
from ironauth.server.slow_clients import CLOSED_AT_ONCE, MOST_STALLED, TAKEN_BYTES, WRITE_TIMEOUT_S, Deadline

#: An absolute-form target names scheme and authority as well; a domain name has 253 characters (RFC 1035 §2.3.4).
ORIGIN_BYTES = 512
#: The longest head the guard lets pass: target, fields, and the request line's method and version.
HEAD_BYTES = MAX_TARGET_BYTES + ORIGIN_BYTES + MAX_HEADER_BYTES + 64

HEAD_TIMEOUT_S = 10.0  # as a body (api.md "Common"); people's networks send a head in one or two packets
#: Connections beyond those with a running request: room for newcomers to be heard, and told 503, when all are busy.
SPARE_CONNECTIONS = 128

#: Bytes that are still read and forgotten after an answer that comes before the body's end. To close with data unread
#: resets the connection, and clients that send all before they read would lose the answer (nginx: lingering_close).
#: Nothing of it is kept. It is what comes in that time at 134 Mbit/s.
LINGER_BYTES = 32 * 1024 * 1024
LINGER_S = 2.0

#: What the parser is in the middle of; plain numbers, as reading an enum's member costs 40 ns, ten times a request.
NOTHING, HEAD, BODY = range(3)


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. ``limit_concurrency`` bounds the running requests; WebSockets are not spoken."""

    head_timeout_s = HEAD_TIMEOUT_S
    spare_connections = SPARE_CONNECTIONS
    closed_at_once = CLOSED_AT_ONCE
    write_timeout_s = WRITE_TIMEOUT_S
    most_stalled = MOST_STALLED
    linger_bytes = LINGER_BYTES
    linger_s = LINGER_S

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._raw_root_path = self.root_path.encode("ascii")
        self._max_requests = math.inf if config.limit_concurrency is None else config.limit_concurrency
        self.limit_concurrency = None  # Uvicorn would count connections
        self._reading = NOTHING
        self._deadline = Deadline(self.loop, self._expire)
        self._head_is_timed = False
        self._leaving = False
        #: The request, and what the kernel still held of its answer when that was looked at.
        self._untaken: tuple[object, float] = (None, math.inf)
        self._refused = False  # whether what still comes is forgotten
        self._forgotten = 0  # bytes of that
        self._advanced = False  # whether the bytes just fed completed something, or were a body's
        self._unfinished = 0  # bytes fed since then
        self._held = b""  # bytes not parsed yet, because requests before them wait
        self._running: FastResponseCycle | None = None

    # ------------------------------------------------------------ connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as Uvicorn's
        """Start the clock, make room if there are too many, and read until a request has to wait for its turn."""
        super().connection_made(cast("asyncio.Transport", WriteCoalescer(transport, self.loop, self.tasks)))
        if len(self.connections) > self._max_requests + self.spare_connections:
            slow_clients.make_room(self.connections, self)
        self._head_is_timed = True
        self._deadline.set(self.head_timeout_s)
        self.flow = PausableFlowControl(transport, self.pipeline)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._held = b""
        self.pipeline.clear()
        running = self._running
        if running is not None and not running.response_complete:  # Uvicorn tells only the request parsed last
            running.disconnected = True
            running.message_event.set()
        self._deadline.cancel()
        slow_clients.forget(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Give the client a while to take its answer."""
        super().pause_writing()
        slow_clients.wait_for(self)

    def resume_writing(self) -> None:
        """Go on: the client has taken nearly everything."""
        slow_clients.forget(self)
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Parse ``data``; what is not a request in time and within bounds is refused."""
        if self._held:
            self._held += data  # reading is paused: what the kernel had handed over before
        elif is_one_part(data):
            self._parse(data)
        else:
            self._parse_in_parts(data)

    def _parse_in_parts(self, data: bytes) -> None:
        """Parse ``data`` until some requests wait for their turn; the rest is held until they have had it.

        Every parsed request is a few kilobytes, every byte held is one: 256 KiB of short requests took 45 MB.
        """
        at = 0
        while at < len(data):
            if len(self.pipeline) >= MOST_WAITING:
                self._held = data[at:]
                return
            begin, at = at, len(data) if self._refused else end_of_part(data, at)
            self._parse(data[begin:at])

    def _parse(self, data: bytes) -> None:
        if self._refused:
            self._forget(len(data))
            return
        self._advanced = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            cause = error.__context__  # what a callback below raised
            self._refuse(cause if isinstance(cause, Refusal) else refusal_of(error))
            return
        if self._advanced:
            self._unfinished = 0
        else:
            self._unfinished += len(data)
            if self._unfinished > HEAD_BYTES:
                self._refuse(head_too_large(MAX_HEADER_BYTES))
                return
        if self._reading is HEAD and not self._head_is_timed:
            self._head_is_timed = True
            self._deadline.set(self.head_timeout_s)

    def _decline_upgrade(self, rest: bytes) -> None:
        """Answer as HTTP/1.1 and close after that (RFC 9110 §7.8); another parser reads the body, which this skips."""
        self.cycle.keep_alive = False
        self.parser, head = body_parser(self.headers, on_body=self.on_body, on_complete=self.on_declined_complete)
        self._parse(head)
        if rest:
            self._parse(rest)

    def on_declined_complete(self) -> None:
        """End the request whose upgrade was declined with its body: nothing may follow."""
        self._refused = True
        self._complete()

    # ------------------------------------------------------------ parser callbacks

    def on_message_begin(self) -> None:
        """Note that a head has begun (its first byte that is not a line break is here)."""
        self._reading = HEAD
        super().on_message_begin()
        self.scope["extensions"] = OFFERED

    def on_url(self, url: bytes) -> None:
        """Collect the target. Raises ``Refusal`` 414."""
        self.url += url
        if len(self.url) > MAX_TARGET_BYTES + ORIGIN_BYTES:
            raise Refusal(414, "target_too_long", f"The URL is longer than {MAX_TARGET_BYTES} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a field. Raises ``Refusal`` 431."""
        if self._reading is BODY:
            return  # a trailer: it comes while the request is answered, and must not become a field (RFC 9110 §6.5.1)
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))
        if len(self.headers) > MAX_HEADER_FIELDS:
            raise Refusal(431, "headers_too_large", f"More than {MAX_HEADER_FIELDS} header fields.")

    def on_headers_complete(self) -> None:
        """Start the request; when too many are running, it is answered 503. Raises ``Refusal`` 505 or 400."""
        parser, scope = self.parser, self.scope
        version = parser.get_http_version()
        if version not in VERSIONS:
            raise other_version()
        target = httptools.parse_url(self.url)
        if target.schema is not None:
            check_authority(self.url, self.headers)
        self._reading = BODY
        self._advanced = True
        self._head_is_timed = False
        self._deadline.at = math.inf
        scope["http_version"] = version
        scope["method"] = parser.get_method().decode("ascii")
        path = target.path.decode("ascii")
        scope["path"] = self.root_path + (unquote(path) if "%" in path else path)
        scope["raw_path"] = self._raw_root_path + target.path
        scope["query_string"] = target.query or b""
        before = self.cycle
        self.cycle = cycle = FastResponseCycle(
            scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            False,
            self.server_state.default_headers,
            asyncio.Event(),
            self.expect_100_continue,
            version != "1.0" and not self._leaving and parser.should_keep_alive(),
            self.on_response_complete,
        )
        application: Any = self.app if len(self.tasks) < self._max_requests else overloaded
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, application)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, application))

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._advanced = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Tell the application that the body ends here; before an upgrade it may not even have begun."""
        if not self.parser.should_upgrade():
            self._complete()

    def _complete(self) -> None:
        self._reading = NOTHING
        self._advanced = True
        if not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cast("FastResponseCycle", cycle)  # none other is made above
        super()._start_asgi_task(cycle, app)

    # ------------------------------------------------------------ after a response

    def on_response_complete(self) -> None:
        """Go on with a pipelined request, or wait for the next one as long as keep-alive allows."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._deadline.set(self.write_timeout_s)
            return
        if self._running is not None and self._running.body_left:
            self._linger()
            return
        waiting = bool(self.pipeline)
        if waiting:
            self._start_asgi_task(*self.pipeline.pop())
        # Only with nothing left: reading on after each answer let a client that pipelines without end fill the memory.
        # The request just begun may still need its body; it is the last one that was parsed.
        if not self.pipeline and self._held:
            held, self._held = self._held, b""
            self._parse_in_parts(held)
            waiting = waiting or not self.cycle.response_complete
        self.flow.resume_reading()
        if waiting:
            return
        if self._reading is not HEAD:
            self._deadline.set(self.timeout_keep_alive)

    # ------------------------------------------------------------ refusals

    def _refuse(self, refusal: Refusal) -> None:
        """Send ``refusal`` and end the connection."""
        self._refused = True
        if self.cycle is not None and not self.cycle.response_complete and not self._give_up_request():
            return
        scope = self._known_of_request()
        answer = answer_for(refusal, scope)
        self.transport.write(
            refusal_bytes(answer, self.server_state.default_headers, with_body=scope.get("method") != "HEAD")
        )
        log_refusal(scope, answer.status, 0.0, answer.request_id)
        self._linger()

    def _linger(self) -> None:
        """Send nothing more, forget what still comes, and close when the client does, or has had time to read."""
        self._refused = True
        if self.cycle is not None:
            self.cycle.body = bytearray()  # what was parsed of it before the answer
        with suppress(OSError, NotImplementedError):  # the client has gone
            self.transport.write_eof()
        self.flow.resume_reading()
        self._deadline.set(self.linger_s)

    def _forget(self, size: int) -> None:
        """Count ``size`` bytes that nobody reads, and close when they are too many."""
        self._forgotten += size
        if self._forgotten > self.linger_bytes:
            self.close_now()

    def _give_up_request(self) -> bool:
        """Return whether a refusal may be sent although a request is running: only when it is the broken one.

        What came before it is answered first, and the connection ends with that answer.
        """
        if self._reading is not BODY or self.pipeline:
            self.cycle.keep_alive = False
            return False
        if self.cycle.response_started:
            self.close_now()
            return False
        self.cycle.disconnected = self.cycle.response_complete = True  # by the refusal: a server that ends closes
        self.cycle.waiting_for_100_continue = (
            False  # or the application that asks for the body writes it behind the refusal
        )
        self.cycle.message_event.set()
        return True

    def _known_of_request(self) -> dict[str, Any]:
        """Return as much of an ASGI scope as the bytes so far amount to."""
        if self._reading is NOTHING:
            return {"client": self.client, "scheme": self.scheme, "headers": []}
        return known_scope(self.scope, self.url, self.parser)

    # ------------------------------------------------------------ the end

    def _expire(self) -> None:
        """End a connection that has waited too long: with 408 if a head has begun, else without an answer."""
        if slow_clients.is_stalled(self):  # that has a time limit of its own
            self._deadline.set(self.write_timeout_s)
        elif self.transport.is_closing():  # the client does not take the rest of its last answer
            slow_clients.cut_off(self)
        elif self._reading is HEAD and not self._refused:
            detail = f"The head of the request was not finished within {self.head_timeout_s:g} s."
            self._refuse(Refusal(408, "request_timeout", detail))
        elif self._refused:  # a refusal has had its seconds: it may be on its way yet
            self.close_now()
        else:
            self._close_idle()

    def close_after_response(self) -> None:
        """Close with the answer to the last request read, or to the next one: no answer is cut off."""
        self._leaving = True
        if self.cycle is not None:
            self.cycle.keep_alive = False  # without effect when it is answered already

    @property
    def waiting_since(self) -> float:
        """Loop time since when no request has been complete here; infinite while one is answered."""
        return self._deadline.at - (self.head_timeout_s if self._head_is_timed else self.timeout_keep_alive)

    def _close_idle(self) -> None:
        """Close after a wait; a client that is still taking its last answer is waited for, as in `slow_clients`.

        By a reset if it takes none: the kernel would keep what is left for minutes, and the end behind it.
        """
        left = slow_clients.unsent_bytes(self.transport)
        cycle, before = self._untaken
        if not left:
            self.close_now()
        elif cycle is self.cycle and before - left < TAKEN_BYTES:
            slow_clients.cut_off(self)
        else:  # the first look at this answer, or the client is at it
            self._untaken = self.cycle, left
            self._deadline.set(self.write_timeout_s)

    def close_now(self) -> None:
        """Close, without waiting for a client that does not read what it was sent."""
        if self.transport.get_write_buffer_size():
            slow_clients.cut_off(self)
        else:
            self.transport.close()
