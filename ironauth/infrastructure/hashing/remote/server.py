"""A hash worker: hashes for nodes on the threads of a hash pool; it knows no password, no pepper and no account."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from argon2 import Parameters
from argon2.low_level import Type

from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.hashing import argon2 as argon2_raw
from ironauth.infrastructure.hashing.local_pool import HashPool
from ironauth.infrastructure.hashing.remote import protocol as hash_worker_protocol
from ironauth.infrastructure.hashing.remote import trust as hash_worker_trust
from ironauth.infrastructure.hashing.remote.protocol import (
    HEADER_BYTES,
    MAX_BODY_BYTES,
    Answer,
    Busy,
    Hash,
    Hashed,
    Load,
    Ping,
    Pong,
    ProtocolError,
    Refused,
    Request,
    body_length,
    frame,
)
from ironauth.infrastructure.telemetry.logs import get_logger

MAX_CONNECTIONS: Final = 1024  # file descriptors by default; a process of a node has 8 unless told otherwise
HANDSHAKE_S: Final = 5.0  # longest that TLS may take
TLS_CLOSE_S: Final = 1.0  # longest that TLS may take to end: a node reads it when it needs the connection next
BODY_S: Final = 5.0  # longest that a message may take which has begun
GRACEFUL_S: Final = 10.0  # what runs at SIGTERM has this long, as in a serving process
_BACKLOG: Final = 1024


class HashWorkerServer:
    """Answers nodes with ``pool``; each hash waits for a thread as long as one of this machine's own would."""

    def __init__(self, pool: HashPool, *, uid: int | None = None) -> None:
        """Prepare a server.

        Args:
            pool: computes the hashes.
            uid: the user whose processes may ask at a Unix socket; our own when it is left out.
        """
        self._pool = pool
        self._uid = os.geteuid() if uid is None else uid
        self._stopping = False
        self._conversations: set[asyncio.Task[None]] = set()
        self._idle: set[asyncio.StreamWriter] = set()

    async def serve(
        self,
        bound: socket.socket,
        *,
        tls: ssl.SSLContext | None,
        stop: asyncio.Event,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Answer on ``bound`` until ``stop``; then nobody is let in, and what runs is finished within ``GRACEFUL_S``.

        Args:
            bound: the socket to listen on; a Unix socket without ``tls``.
            tls: what each connection begins with.
            stop: ends the server.
            on_ready: called once connections are accepted.
        """
        listener = await asyncio.start_server(
            self._accepted,
            sock=bound,
            ssl=tls,
            limit=MAX_BODY_BYTES,
            backlog=_BACKLOG,
            ssl_handshake_timeout=HANDSHAKE_S if tls else None,
            ssl_shutdown_timeout=TLS_CLOSE_S if tls else None,
        )
        on_ready()
        await stop.wait()
        self._stopping = True
        listener.close()
        for writer in list(self._idle):
            writer.transport.abort()  # nothing is under way; ending TLS gracefully would wait for a node that sleeps
        if self._conversations:
            _, late = await asyncio.wait(self._conversations, timeout=GRACEFUL_S)
            for each in late:
                each.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        with suppress(TimeoutError):  # connections that were being accepted; one in the middle of TLS is not waited for
            await asyncio.wait_for(listener.wait_closed(), TLS_CLOSE_S)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin a conversation; noted before it runs, so that the end waits for this one too."""
        if self._stopping:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._served(reader, writer))
        self._conversations.add(task)
        task.add_done_callback(self._conversations.discard)

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._accepts(writer):
                await self._converse(reader, writer)
        except (OSError, ProtocolError, asyncio.IncompleteReadError) as error:
            get_logger().warning("hash_worker_connection_failed", error=type(error).__name__, detail=str(error)[:200])
        finally:
            self._idle.discard(writer)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _accepts(self, writer: asyncio.StreamWriter) -> bool:
        """Tell whether the other end may ask here; TLS has judged certificates before."""
        reason = "connections" if len(self._conversations) > MAX_CONNECTIONS else ""
        connection = writer.get_extra_info("socket")
        if connection.family == socket.AF_UNIX and hash_worker_trust.peer_uid(connection) != self._uid:
            reason = "user"
        elif connection.family != socket.AF_UNIX and writer.get_extra_info("ssl_object") is None:
            reason = "no_tls"
        if reason:
            get_logger().warning("hash_worker_peer_refused", reason=reason)
        return not reason

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not self._stopping:
            self._idle.add(writer)
            try:
                request = await _next(reader)
            except ProtocolError:
                writer.write(frame(Refused()))
                raise
            finally:
                self._idle.discard(writer)
            answer = request and await self._answer(request, reader)
            if answer is None:
                return  # anybody who asked has gone
            writer.write(frame(answer))
            await writer.drain()

    async def _answer(self, request: Request, reader: asyncio.StreamReader) -> Answer | None:
        """Return the answer, or nothing when the node hung up meanwhile; then a hash that waits is not run."""
        if isinstance(request, Ping):
            return Pong(self._load())
        hashing = asyncio.ensure_future(self._hash(request))
        gone = asyncio.ensure_future(reader.read(1))  # nothing may come before the answer: one request at a time
        try:
            await asyncio.wait({hashing, gone}, return_when=asyncio.FIRST_COMPLETED)
            return None if gone.done() else hashing.result()
        finally:
            for each in (hashing, gone):
                each.cancel()
            await asyncio.gather(hashing, gone, return_exceptions=True)

    async def _hash(self, request: Hash) -> Answer:
        params = Parameters(
            type=Type(request.variety),
            version=request.version,
            salt_len=len(request.salt),
            hash_len=request.hash_len,
            time_cost=request.time_cost,
            memory_cost=request.memory_kib,
            parallelism=request.parallelism,
        )
        try:
            raw = await self._pool.run(partial(argon2_raw.by_parameters, request.mac, request.salt, params))
        except (Overloaded, MemoryError):
            return Busy(self._load())
        except argon2_raw.Argon2Failure:
            return Refused()
        return Hashed(raw, self._load())

    def _load(self) -> Load:
        now = self._pool.stats()
        return Load(now.threads, now.queued + now.running, max(now.mean_hash_s, 1e-6))


async def _next(reader: asyncio.StreamReader) -> Request | None:
    """Return the next request, or nothing when the node hung up between two.

    Raises:
        ProtocolError: what came is no request, or does not end in time.
    """
    header = await reader.read(1)
    if not header:
        return None
    try:
        async with asyncio.timeout(BODY_S):
            header += await reader.readexactly(HEADER_BYTES - 1)
            return hash_worker_protocol.request(await reader.readexactly(body_length(header)))
    except TimeoutError:
        raise ProtocolError("a message that did not end") from None
