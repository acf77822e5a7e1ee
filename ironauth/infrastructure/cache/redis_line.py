"""Reading and writing single keys of Redis on one connection of the event loop, many at a time.

redis-py takes a connection out of a pool for each command, with a time limit, a lock and a retry: 60 µs of CPU, 130
within a request, where a lookup spares 300. Here commands go out as they come, and answers are matched by their order,
which takes 11 and 50. redis-py still opens the connection (address, TLS, password, Sentinel) and its parser reads the
answers. Imported only where there is a Redis.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import hiredis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

#: Questions that wait for their answers at most; a connection carries some 50,000 a second.
MOST_WAITING: Final = 4_096


#: How Redis' refusal to write begins where it is no master any more.
_NO_MASTER: Final = "READONLY"


class _Asked(NamedTuple):
    answer: asyncio.Future[bytes | None]
    at: float  # monotonic seconds
    last: bool = True  # of the commands that were sent for this answer


class RedisLine(asyncio.Protocol):
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
            await self._open_in_time()
        name = key.encode()
        return await self._told(b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(name), name), 1)

    async def put(self, entries: Iterable[tuple[str, bytes, int]]) -> None:
        """Store values, all by one write; return when Redis has answered for the last.

        Args:
            entries: Of each value its key, its bytes, and the milliseconds that it lives.

        Raises:
            RedisConnectionError: As ``get``.
            TimeoutError: As ``get``.
            ResponseError: Redis has refused one of them; the connection is closed where it takes no writes any more.
        """
        if self._transport is None:
            await self._open_in_time()
        commands = []
        for key, data, life_ms in entries:
            name, life = key.encode(), b"%d" % life_ms
            head = b"*5\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n" % (len(name), name, len(data))
            commands += [head, data, b"\r\n$2\r\nPX\r\n$%d\r\n%b\r\n" % (len(life), life)]
        if commands:
            await self._told(b"".join(commands), len(commands) // 3)

    async def _open_in_time(self) -> None:
        async with asyncio.timeout(self._limit_s):
            await self._open()

    def _told(self, commands: bytes, count: int) -> "asyncio.Future[bytes | None]":
        """Send ``count`` commands; return what becomes the answer to the last, or the first failure."""
        transport = self._transport
        if transport is None or len(self._waiting) + count > MOST_WAITING:
            raise RedisConnectionError("No connection to Redis that has room")
        loop = asyncio.get_running_loop()
        transport.write(commands)
        # Answers count commands: one that could not be written must not wait for the next one's.
        answer, now = loop.create_future(), time.monotonic()
        self._waiting.extend(_Asked(answer, now, number == count) for number in range(1, count + 1))
        if self._timer is None:
            self._timer = loop.call_later(self._limit_s, self._look)
        return answer

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
                self._settle(self._waiting.popleft(), answer)
        except (hiredis.ProtocolError, IndexError) as error:  # no Redis speaks there, or it answers unasked
            self._lost(RedisConnectionError(f"Not understood: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail everybody who waits."""
        self._lost(exc if isinstance(exc, OSError) else RedisConnectionError("Connection lost"))

    def _settle(self, asked: _Asked, answer: object) -> None:
        waiting = asked.answer
        if isinstance(answer, hiredis.ReplyError):
            if not waiting.done():
                waiting.set_exception(ResponseError(str(answer)))
            if str(answer).startswith(_NO_MASTER):
                self._lost(RedisConnectionError("Redis is no master any more"))  # the next one is asked for by Sentinel
        elif waiting.done():
            return  # nobody waits for it any more
        elif answer is not None and not isinstance(answer, bytes):
            waiting.set_exception(ResponseError("An answer of another kind"))
        elif asked.last:
            waiting.set_result(answer)

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
