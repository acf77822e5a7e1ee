"""A TCP proxy in front of one server, which can do to its connections what networks and dying servers do."""

import asyncio
import enum
import os
import socket
import struct
from contextlib import suppress

BACKLOG = 256  # connections not accepted yet
CHUNK = 65_536  # bytes read at once
_AT_ONCE = struct.pack("ii", 1, 0)  # struct linger, socket(7): on, for 0 seconds
GARBAGE = 64  # bytes of nonsense sent to a client unasked


class Mode(enum.Enum):
    """What happens to a connection."""

    PASS = "pass"  # noqa: S105 - a word for letting through
    DELAY = "delay"  # each piece of a reply comes later
    CUT = "cut"  # the server has answered, its client gets a reset instead
    GARBAGE = "garbage"  # random bytes take the place of replies
    REFUSE = "refuse"  # nobody listens
    FREEZE = "freeze"  # connected, and not a byte in either direction


class TcpProxy:
    """Passes connections on to ``upstream``, a port of this machine; ``become`` changes what it does, at once."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.port = 0
        self._mode = Mode.PASS
        self._delay_s = 0.0
        self._every = 1
        self._replies = 0
        self._changed = asyncio.Event()
        self._listening: socket.socket | None = None
        self._served: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Listen on a free port, the same one again after ``REFUSE``."""
        if self._listening is None:
            self._listening = socket.create_server(("127.0.0.1", self.port), backlog=BACKLOG)
            self._listening.setblocking(False)
            self.port = self._listening.getsockname()[1]
            # Not asyncio's own server: Python 3.13.0 stumbles over connections accepted while it is being closed. Nor a
            # task: one cancelled with a connection in its hands leaves that to nobody.
            asyncio.get_running_loop().add_reader(self._listening, self._accept, self._listening)

    async def close(self) -> None:
        """Stop listening and reset every connection."""
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        tasks = tuple(self._served)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # asyncio closes sockets one turn of the loop later

    async def become(self, mode: Mode, *, delay_s: float = 0.0, every: int = 1) -> None:
        """Do this from now on, to open connections too.

        ``delay_s``: seconds of DELAY. ``every``: CUT resets at each such reply, counted over all connections.
        """
        self._mode, self._delay_s, self._every = mode, delay_s, every
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()  # who waits in DELAY or FREEZE goes on as the new mode says
        if mode is Mode.REFUSE:
            await self.close()
            return
        await self.start()
        if mode is Mode.GARBAGE:  # to who waits for a message, too
            for writer in tuple(self._clients):
                with suppress(OSError, RuntimeError):
                    writer.write(os.urandom(GARBAGE))

    def _accept(self, listening: socket.socket) -> None:
        """Take one connection; the next in the queue calls the loop again."""
        try:
            accepted, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError, InterruptedError):  # it has gone meanwhile
            return
        accepted.setblocking(False)
        # Begun at once: a task that is cancelled before its first step would leave the socket to nobody.
        task = asyncio.Task(self._serve(accepted), loop=asyncio.get_running_loop(), eager_start=True)
        self._served.add(task)
        task.add_done_callback(self._served.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=accepted)
        except BaseException:
            accepted.close()
            raise
        ends = {writer}
        flush = False
        try:
            await self._frozen()
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.upstream)
            ends.add(upstream_writer)
            self._clients.add(writer)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump(reader, upstream_writer, replies=False))
                pumps.create_task(self._pump(upstream_reader, writer, replies=True))
        except* _EndError:
            flush = True  # what was said last still arrives
        except* (OSError, _CutError):
            pass
        finally:
            self._clients.discard(writer)
            for end in ends:
                if flush:
                    end.close()
                else:
                    _reset(end)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, replies: bool) -> None:
        """Pass on what comes from one side until it ends; then end the whole connection."""
        while data := await reader.read(CHUNK):
            if replies and self._mode is Mode.DELAY:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), self._delay_s)
            await self._frozen()
            if replies and self._mode is Mode.CUT:
                self._replies += 1
                if self._replies % self._every == 0:
                    raise _CutError
            writer.write(os.urandom(len(data)) if replies and self._mode is Mode.GARBAGE else data)
            await writer.drain()
        raise _EndError

    async def _frozen(self) -> None:
        while self._mode is Mode.FREEZE:
            await self._changed.wait()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection by RST: what was not read yet is gone."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()


class _EndError(Exception):
    """One side has closed the connection."""


class _CutError(Exception):
    """This connection is to be reset."""
