"""How long a connection may wait for whom: the half of Uvicorn's HTTP protocol that is about time and room.

One timer per connection looks at a deadline when it fires; Uvicorn's own is made and cancelled for every request.
"""

import asyncio
import math
from heapq import nsmallest
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

HEAD_TIMEOUT_S = 10.0  # as a body (api.md "Common"); people's networks send a head in one or two packets
#: Connections beyond those with a running request: room for newcomers to be heard, and told 503, when all are busy.
SPARE_CONNECTIONS = 128
#: When connections run out; finding the longest waiting looks at all of them, so not for each newcomer.
CLOSED_AT_ONCE = 32

#: What the parser is in the middle of; plain numbers, as reading an enum's member costs 40 ns, ten times a request.
NOTHING, HEAD, BODY = range(3)


class TimedHttpProtocol(HttpToolsProtocol):
    """One connection that does not wait for ever, nor for a request when others need the room.

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
        self._max_requests = math.inf if config.limit_concurrency is None else config.limit_concurrency
        self.limit_concurrency = None  # Uvicorn would count connections
        self._reading = NOTHING
        self._deadline = math.inf  # loop time; infinite while a request is answered
        self._head_is_timed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._leaving = False

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
        raise NotImplementedError

    def _make_room(self) -> None:
        """Close the connections that have waited longest for their (next) request; this one, if no other waits."""
        others = [one for one in cast("set[TimedHttpProtocol]", self.connections) if one.waiting_since < math.inf]
        for one in nsmallest(self.closed_at_once, others, key=lambda one: one.waiting_since) or [self]:
            self.connections.discard(one)
            one._close()  # noqa: SLF001 - another of this class

    def say_farewell(self) -> None:
        """Close with the answer to the last request read, or to the next one: no client is cut off in mid-sentence."""
        self._leaving = True
        if self.cycle is not None:
            self.cycle.keep_alive = False  # without effect when it is answered already

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
