"""What a connection hears that breaks a bound, and how it ends: Uvicorn answers its own refusals in plain text."""

from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ironauth.infrastructure.http.refusal import Refusal, answer_for, log_refusal
from ironauth.server.connection_timing import BODY, HEAD, NOTHING, TimedHttpProtocol

#: After an answer that comes before the body's end, what is still read and forgotten: to close with data unread resets
#: the connection, and clients that send all before they read would lose the answer (nginx: lingering_close). Nothing
#: of it is kept; the bytes are what comes in that time at 134 Mbit/s.
LINGER_BYTES = 32 * 1024 * 1024
LINGER_S = 2.0


class RefusingHttpProtocol(TimedHttpProtocol):
    """One connection that is told why it ends, in the same problem documents as everywhere."""

    linger_bytes = LINGER_BYTES
    linger_s = LINGER_S

    _refused = False  # whether what still comes is forgotten
    _forgotten = 0  # bytes of that

    def _expire(self) -> None:
        """End a connection that has waited too long: with 408 if a head has begun, else without a word."""
        if self._reading is HEAD and not self._refused:
            detail = f"The head of the request was not finished within {self.head_timeout_s:g} s."
            self._refuse(Refusal(408, "request_timeout", detail))
        else:  # a refusal has had its seconds: it may be on its way yet
            self._close() if self._refused else self._close_idle()

    def _refuse(self, refusal: Refusal) -> None:
        """Send ``refusal`` and end the connection."""
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
        self._set_deadline(self.linger_s)

    def _forget(self, size: int) -> None:
        """Count ``size`` bytes that nobody reads, and close when they are too many."""
        self._forgotten += size
        if self._forgotten > self.linger_bytes:
            self._close()

    def _give_up_request(self) -> bool:
        """Return whether a refusal may be sent although a request is running: only when it is the broken one.

        What came before it is answered first, and the connection ends with that answer.
        """
        if self._reading is not BODY or self.pipeline:
            self.cycle.keep_alive = False
            return False
        if self.cycle.response_started:
            self._close()
            return False
        self.cycle.disconnected = self.cycle.response_complete = True  # by the refusal: a server that ends closes
        self.cycle.waiting_for_100_continue = False  # or anybody who asks for the body writes that behind the refusal
        self.cycle.message_event.set()
        return True

    def _known_of_request(self) -> dict[str, Any]:
        """Return as much of an ASGI scope as the bytes so far amount to."""
        if self._reading is NOTHING:
            return {"client": self.client, "scheme": self.scheme, "headers": []}
        scope: dict[str, Any] = {**self.scope}
        if self.url:
            scope.setdefault("method", self.parser.get_method().decode("ascii"))
            scope.setdefault("path", self.url.partition(b"?")[0].decode("latin1"))
        return scope
