"""Reading single keys of Redis on one connection of the event loop, many at a time.

redis-py takes a connection out of a pool for each command, with a time limit, a lock and a retry: 60 µs of CPU, 130
within a request, where a lookup spares 300. Here questions go out as they come, and answers are matched by their order,
which takes 11 and 50. redis-py still opens the connection (address, TLS, password, Sentinel) and its parser reads the
answers. Imported only where there is a Redis.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

#: Questions that wait for their answers at most; a connection carries some 50,000 a second.
MOST_WAITING: Final = 4_096


class _Asked(NamedTuple):
    answer: asyncio.Future[bytes | None]
    at: float  # monotonic seconds


class RedisReads(asyncio.Protocol):
    """One connection of one event loop; opened with the first question, and again after it was lost."""

    def __init__(self, connection: Callable[[], AbstractConnection], *, limit_s: float) -> None:
        """Open nothing yet.

        Args:
            connection: Returns one that is not open yet.
            limit_s: Seconds that opening it may take, and an answer.
        """
        self._connection = connection
        self._limit_s = limit_s
        self._opening: asyncio.Task[None] | None = None
        self._writer: object = None  # a stream that is collected closes its transport
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[_Asked] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._reader = hiredis.Reader()

    async def get(self, key: str) -> bytes | None:
        """Return what Redis holds under ``key``.

        Raises:
            RedisConnectionError: The connection is lost, or too many wait already.
            TimeoutError: There was no answer in time.
            ResponseError: Redis has refused.
        """
        if self._transport is None:
            async with asyncio.timeout(self._limit_s):
                await self._open()
        transport = self._transport
        if transport is None or len(self._waiting) >= MOST_WAITING:
            raise RedisConnectionError("No connection to read by")
        loop = asyncio.get_running_loop()
        name = key.encode()
        transport.write(b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(name), name))
        # Answers count questions: one that could not be written must not wait for the next one's.
        asked = _Asked(loop.create_future(), time.monotonic())
        self._waiting.append(asked)
        if self._timer is None:
            self._timer = loop.call_later(self._limit_s, self._look)
        return await asked.answer

    def close(self) -> None:
        """Close the connection; the next question opens another one."""
        self._lost(RedisConnectionError("Closed"))

    def data_received(self, data: bytes) -> None:
        """Give the answers to those who wait, in their order."""
        self._reader.feed(data)
        try:
            while (answer := self._reader.gets()) is not False:
                if isinstance(answer, hiredis.PushNotification):
                    continue  # belongs to no question
                self._settle(self._waiting.popleft().answer, answer)
        except (hiredis.ProtocolError, IndexError) as error:  # no Redis speaks there, or it answers unasked
            self._lost(RedisConnectionError(f"Not understood: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail everybody who waits."""
        self._lost(exc if isinstance(exc, OSError) else RedisConnectionError("Connection lost"))

    @staticmethod
    def _settle(waiting: "asyncio.Future[bytes | None]", answer: object) -> None:
        if waiting.done():
            return  # nobody waits for it any more
        if isinstance(answer, hiredis.ReplyError):
            waiting.set_exception(ResponseError(str(answer)))
        elif answer is None or isinstance(answer, bytes):
            waiting.set_result(answer)
        else:
            waiting.set_exception(ResponseError("An answer of another kind"))

    async def _open(self) -> None:
        """Open the connection, one for all who ask meanwhile."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._opened())
            self._opening.add_done_callback(self._has_opened)
        await asyncio.shield(self._opening)

    async def _opened(self) -> None:
        connection: Any = self._connection()
        await connection.connect()
        # It has no other way to its socket. From here on it knows of none, and neither reads nor closes it.
        writer, connection._reader, connection._writer = connection._writer, None, None  # noqa: SLF001 - see above
        self._reader = hiredis.Reader()
        self._writer, self._transport = writer, writer.transport
        writer.transport.set_protocol(self)

    def _has_opened(self, task: "asyncio.Task[None]") -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # seen: who waited has got it, if they still do

    def _look(self) -> None:
        """Give up a connection on which the first question has waited too long."""
        self._timer = None
        if not self._waiting:
            return
        left_s = self._waiting[0].at + self._limit_s - time.monotonic()
        if left_s <= 0:
            self._lost(TimeoutError("No answer from Redis in time"))
        else:
            self._timer = asyncio.get_running_loop().call_later(left_s, self._look)

    def _lost(self, error: Exception) -> None:
        transport, self._transport = self._transport, None
        waiting, self._waiting = self._waiting, deque()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if transport is not None:
            transport.abort()
            self._writer = None
        for asked in waiting:
            if not asked.answer.done():
                asked.answer.set_exception(error)
