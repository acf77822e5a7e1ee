"""Uvicorn's server as IronAuth ends it: no request is cut off, and nothing that hangs delays the end."""

import asyncio
import logging
import os
import socket
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import cast

import uvicorn

from ironauth.infrastructure.core import lifecycle
from ironauth.infrastructure.telemetry import logs
from ironauth.server.connection import BoundedHttpProtocol
from ironauth.server.worker_sockets import WorkerSocket

#: How long a server that ends goes on listening to connections it has, so that each hears "close" with an answer; the
#: others are closed then. A request sent at the very moment its connection is closed would be lost.
DRAIN_S = 0.5
DRAIN_LOOK_S = 0.02  # seconds between two looks whether all connections are closed
#: Seconds after which what hangs is left, so that a server is gone 10 s after SIGTERM: 8 for running requests, the rest
#: to close. systemd and Compose kill at 15 (deploy/), when the last lines of the log are written.
END_S = 9.5
logger = logging.getLogger(__name__)


def _end_in_any_case() -> None:
    """End this process `END_S` from now, whatever keeps it: Python waits for threads, and some wait for the database.

    Units of work have a time limit, and daemon threads; a page of the admin that meets a locked table has neither.
    """

    def end() -> None:
        logger.warning("ended_late", extra={"after_s": END_S})
        logs.flush()
        os._exit(0)

    last = threading.Timer(END_S, end)
    last.daemon = True
    last.start()


class GracefulServer(uvicorn.Server):
    """A server that ends without losing a request: it is unready, accepts nobody, drains its connections, and stops."""

    _looking: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
    #: Where it listens alone, beside what it shares with others.
    own_socket: WorkerSocket | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, listen on the sockets that are given and on its own, and let others know that one."""
        own = self.own_socket
        if own is None:
            await super().startup(sockets=sockets)
            return
        await super().startup(sockets=[*(sockets or ()), own.bind()])
        if self.started:
            own.show()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note the signal; from this moment ``/health`` tells of it, and the drain begins."""
        lifecycle.leave()
        super().handle_exit(sig, frame)
        self.look()

    def look(self) -> None:
        """Have it look now whether to end; may be called in a signal's handler, and before it runs."""
        if self._looking is not None:
            loop, event = self._looking
            loop.call_soon_threadsafe(event.set)

    async def main_loop(self) -> None:
        """Make the ``Date`` of the answers anew with each second, and return when it is time to end.

        Uvicorn looks ten times a second. Each wakes a thread up, which beside hashes took 0.2 % of a core.
        """
        wake = asyncio.Event()
        self._looking = (asyncio.get_running_loop(), wake)
        try:
            while not await self.on_tick(0):
                with suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), 1.002 - time.time() % 1)  # uvloop counts in ms
                wake.clear()  # before the look, so that no signal is missed
        finally:
            self._looking = None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, answer on open connections for up to `DRAIN_S`, then end as Uvicorn does.

        The process ends within `END_S`, whatever hangs.
        """
        lifecycle.leave()
        logger.info("server_ending", extra={"connections": len(self.server_state.connections)})
        _end_in_any_case()
        began = time.monotonic()
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in cast("set[BoundedHttpProtocol]", self.server_state.connections):
            connection.close_after_response()
        deadline = began + DRAIN_S
        while self.server_state.connections and time.monotonic() < deadline and not self.force_exit:  # noqa: ASYNC110 - Uvicorn's set tells nobody
            await asyncio.sleep(DRAIN_LOOK_S)
        await super().shutdown(sockets)
        answered, took_s = self.server_state.total_requests, round(time.monotonic() - began, 3)
        logger.info("server_ended", extra={"requests": answered, "after_s": took_s})
        logs.flush()  # the signal, raised again, may end the process before the log's thread looks
