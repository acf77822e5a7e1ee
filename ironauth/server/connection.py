"""Uvicorn's HTTP protocol with bounds: on a request's head, on the time it takes, and on who may wait for how long.

Uvicorn 0.54 takes an endless header, keeps a silent connection forever, counts such connections towards its limit,
and answers its own refusals in plain text (security-bar finding 7). ASGI begins where the head is complete, so nothing
above this module can help. What the head is judged by once it is complete is in ``infrastructure.http.guard``.

It costs a request nothing: Uvicorn's timer per request (made, then cancelled) gives way to one per connection that
looks at a deadline when it fires.
"""

import asyncio
import math
from typing import Any, cast
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from ironauth.infrastructure.http.guard import MAX_HEADER_BYTES, MAX_HEADER_FIELDS, MAX_TARGET_BYTES
from ironauth.infrastructure.http.refusal import Refusal, head_too_large, overloaded
from ironauth.server.connection_refusals import RefusingHttpProtocol
from ironauth.server.connection_timing import BODY, HEAD, NOTHING
from ironauth.server.request_line import VERSIONS, check_authority, other_version, refusal_of
from ironauth.server.response import (
    MOST_WAITING,
    OFFERED,
    DeclinedBody,
    FastResponseCycle,
    PausableFlowControl,
    end_of_part,
    is_one_part,
)

#: An absolute-form target names scheme and authority as well; a domain name has 253 characters (RFC 1035 §2.3.4).
ORIGIN_BYTES = 512
#: The longest head the guard lets pass: target, fields, and the request line's method and version.
HEAD_BYTES = MAX_TARGET_BYTES + ORIGIN_BYTES + MAX_HEADER_BYTES + 64

FRAMING_FIELDS = frozenset({b"content-length", b"transfer-encoding"})


class BoundedHttpProtocol(RefusingHttpProtocol):
    """One connection. ``limit_concurrency`` bounds the running requests; WebSockets are not spoken."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._raw_root_path = self.root_path.encode("ascii")
        self._advanced = False  # whether the bytes just fed completed something, or were a body's
        self._unfinished = 0  # bytes fed since then
        self._held = b""  # bytes not parsed yet, because requests before them wait
        self._running: FastResponseCycle | None = None

    # ------------------------------------------------------------ connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as Uvicorn's
        """Read, until a request has to wait for its turn."""
        super().connection_made(transport)
        self.flow = PausableFlowControl(transport, self.pipeline)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._held = b""
        self.pipeline.clear()
        running = self._running
        if running is not None and not running.response_complete:  # Uvicorn tells only the request parsed last
            running.disconnected = True
            running.message_event.set()
        super().connection_lost(exc)

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
            self._set_deadline(self.head_timeout_s)

    def _decline_upgrade(self, rest: bytes) -> None:
        """Answer as HTTP/1.1 and close after that (RFC 9110 §7.8).

        The parser skips the body of such a request, so another one, given the body's framing alone, reads it.
        """
        self.cycle.keep_alive = False
        framing = [b"%s: %s\r\n" % field for field in self.headers if field[0] in FRAMING_FIELDS]
        self.parser = httptools.HttpRequestParser(DeclinedBody(self.on_body, self.on_declined_complete))
        self._parse(b"POST / HTTP/1.1\r\nConnection: close\r\n%s\r\n" % b"".join(framing))
        if rest:
            self._parse(rest)

    def on_declined_complete(self) -> None:
        """The body of a request whose upgrade was declined ends here, and nothing may follow."""
        self._refused = True
        self._complete()

    # ------------------------------------------------------------ parser callbacks

    def on_message_begin(self) -> None:
        """Note that a head has begun (its first byte that is not a line break is here)."""
        self._reading = HEAD
        super().on_message_begin()
        self.scope["extensions"] = OFFERED

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
        if self._reading is BODY:
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))
        if len(self.headers) > MAX_HEADER_FIELDS:
            raise Refusal(431, "headers_too_large", f"More than {MAX_HEADER_FIELDS} header fields.")

    def on_headers_complete(self) -> None:
        """Start the request; when too many are running, it is answered 503. Errors: `Refusal` 505, 400."""
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
        self._deadline = math.inf
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
            self._set_deadline(self.write_timeout_s)
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
            self._set_deadline(self.timeout_keep_alive)
