"""How long a connection may wait, and for what: the half of Uvicorn's HTTP protocol that is about time and room.

One timer per connection looks at a deadline when it fires; Uvicorn's own is made and cancelled for every request.
"""

import asyncio
import fcntl
import math
import socket
import struct
import sys
import termios
from contextlib import suppress
from heapq import nsmallest
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from ironauth.server.write_coalescer import WriteCoalescer

HEAD_TIMEOUT_S = 10.0  # as a body (api.md "Common"); people's networks send a head in one or two packets
#: Connections beyond those with a running request: room for newcomers to be heard, and told 503, when all are busy.
SPARE_CONNECTIONS = 128
#: When connections run out; finding the longest waiting looks at all of them, so not for each newcomer.
CLOSED_AT_ONCE = 32

#: For a client that does not take its answer; as nginx' send_timeout. It is waited for anew while it takes this much
#: in that time: 0.5 KiB a second, less than the slowest network of telephones carries.
WRITE_TIMEOUT_S = 60.0
TAKEN_BYTES = 32 * 1024
#: Clients of one process that are waited for so; each may hold the largest answer there is, 0.3 MB, in memory.
MOST_STALLED = 128

_RESET = struct.pack("ii", 1, 0)  # struct linger: on, 0 s (socket(7))

#: What the parser is in the middle of; plain numbers, as reading an enum's member costs 40 ns, ten times a request.
NOTHING, HEAD, BODY = range(3)


class TimedHttpProtocol(HttpToolsProtocol):
    """One connection that does not wait forever, nor for a request when others need the room.

    When connections run out, those that have waited longest for a request are closed: silent sockets keep nobody out.
    """

    head_timeout_s = HEAD_TIMEOUT_S
    spare_connections = SPARE_CONNECTIONS
    closed_at_once = CLOSED_AT_ONCE
    write_timeout_s = WRITE_TIMEOUT_S
    most_stalled = MOST_STALLED

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
        #: The request, and what the kernel still held of its answer when that was looked at.
        self._untaken: tuple[object, float] = (None, math.inf)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as Uvicorn's
        """Start the clock, and make room if there are too many."""
        super().connection_made(cast("asyncio.Transport", WriteCoalescer(transport, self.loop, self.tasks)))
        if len(self.connections) > self._max_requests + self.spare_connections:
            self._make_room()
        self._head_is_timed = True
        self._set_deadline(self.head_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._cancel_timer()
        self._forget_stall()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Give the client a while to take its answer; who has been at it for longest makes room when they are many."""
        super().pause_writing()
        self._wait_for_client()
        if len(_stalled) > self.most_stalled:
            next(iter(_stalled))._cut_off()  # noqa: SLF001 - another of this class

    def resume_writing(self) -> None:
        """Go on: the client has taken nearly everything."""
        self._forget_stall()
        super().resume_writing()

    def _wait_for_client(self) -> None:
        left = self.transport.get_write_buffer_size()
        _stalled[self] = self.loop.call_later(self.write_timeout_s, self._look_at_client, left)

    def _look_at_client(self, left: int) -> None:
        """Cut it off, unless it has taken its share of the ``left`` bytes."""
        if left - self.transport.get_write_buffer_size() < TAKEN_BYTES:
            self._cut_off()
        else:
            self._wait_for_client()

    def _cut_off(self) -> None:
        """Close with a reset: for a client that never reads, the kernel would keep megabytes otherwise.

        It is no longer counted from here on: `connection_lost` comes a turn of the loop later, and a crowd that stalls
        within one turn would find the same client to make room each time.
        """
        self._forget_stall()
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def _forget_stall(self) -> None:
        if (timer := _stalled.pop(self, None)) is not None:
            timer.cancel()

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
            if self in _stalled:  # that has a time limit of its own
                self._set_deadline(self.write_timeout_s)
            elif self.transport.is_closing():  # the client does not take the rest of its last answer
                self._cut_off()
            else:
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

    def close_after_response(self) -> None:
        """Close with the answer to the last request read, or to the next one: no client is cut off in mid-sentence."""
        self._leaving = True
        if self.cycle is not None:
            self.cycle.keep_alive = False  # without effect when it is answered already

    @property
    def waiting_since(self) -> float:
        """Loop time since when no request has been complete here; infinite while one is answered."""
        return self._deadline - (self.head_timeout_s if self._head_is_timed else self.timeout_keep_alive)

    def _close_idle(self) -> None:
        """Close after a wait; a client that is still taking its last answer is waited for, as by `_look_at_client`.

        By a reset if it takes none: the kernel would keep what is left for minutes, and the end behind it.
        """
        left = 0
        with suppress(OSError):  # closed already; no such question here
            descriptor = self.transport.get_extra_info("socket").fileno()
            left = int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        cycle, before = self._untaken
        if not left:
            self._close()
        elif cycle is self.cycle and before - left < TAKEN_BYTES:
            self._cut_off()
        else:  # the first look at this answer, or the client is at it
            self._untaken = self.cycle, left
            self._set_deadline(self.write_timeout_s)

    def _close(self) -> None:
        """Close, without waiting for a client that does not read what it was sent."""
        if self.transport.get_write_buffer_size():
            self._cut_off()
        else:
            self.transport.close()


#: Who does not take what was written, since when they do not, and what ends it; in a process, whatever its servers.
_stalled: dict[TimedHttpProtocol, asyncio.TimerHandle] = {}
