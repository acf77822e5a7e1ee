"""Redis for the event loop and for threads: bounded in time, and a failure counts as a miss.

Imported only where there is a Redis.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from ironauth.infrastructure.cache import redis_connections
from ironauth.infrastructure.cache.redis_line import RedisLine
from ironauth.infrastructure.threads.circuit_breaker import Breaker

#: Seconds that a caller waits for Redis at most before it goes on without. The fault matrix allows 250 ms in all: a
#: wait of a quarter of a second used all of it up, and a busy machine added more.
LIMIT_S = 0.2
#: Connections to Redis per event loop: a command takes about 0.2 ms, so these carry 80,000 a second.
ASYNC_CONNECTIONS = 16
#: How uvloop's RuntimeError ends, where asyncio raises an OSError: written on a connection that was reset.
_RESET = "the handler is closed"
#: What may be raised where Redis is away; of RuntimeErrors only those that ``is_outage`` knows.
OUTAGES: Final = (RedisError, OSError, RuntimeError)  # TimeoutError is an OSError


def is_outage(error: Exception) -> bool:
    """Return whether one of ``OUTAGES`` says that Redis is away, and not that somebody made a mistake."""
    return not isinstance(error, RuntimeError) or str(error).endswith(_RESET)


class _OfLoop(NamedTuple):
    """What one event loop has: its connections cannot serve another."""

    client: Redis
    line: RedisLine
    life: AsyncGenerator[object]


class RedisClient:
    """The connections of this process to one Redis.

    After a failure commands are misses without asking, until the breaker lets the next one through.
    """

    #: What the names of all keys begin with.
    key_prefix: Final = "ironauth"

    def __init__(self, url: str) -> None:
        """Open no connection yet; ``url`` is REDIS_URL."""
        self.url = url
        self.breaker = Breaker("redis")
        self._loops: dict[asyncio.AbstractEventLoop, _OfLoop] = {}
        self._loops_lock = threading.Lock()
        self._for_threads = redis_connections.for_threads(url, limit_s=LIMIT_S)

    # ------------------------------------------------------------ threads
    def attempt[T](self, call: Callable[[Any], T], miss: T) -> T:
        """Return what ``call`` returns for the threads' client; ``miss`` when it fails or an outage is on."""
        if not self.breaker.allows():
            return miss
        try:
            result = call(self._for_threads)
        except ResponseError as error:  # refused, for instance for want of memory; the server is there
            self.breaker.unusable(error)
            return miss
        except (RedisError, OSError) as error:
            self.breaker.failed(error)
            return miss
        self.breaker.succeeded()
        return result

    # ------------------------------------------------------------ event loops
    async def aattempt[T](self, call: Callable[[Redis], Awaitable[T]], miss: T) -> T:
        """Return what ``call`` returns for this loop's client, within LIMIT_S; ``miss`` as ``attempt``."""

        async def limited() -> T:
            async with asyncio.timeout(LIMIT_S):
                return await call(self.aclient())

        return await self._tried(limited, miss)

    async def aget(self, key: str) -> bytes | None:
        """Return what Redis holds under ``key``, within LIMIT_S; None also where it fails or an outage is on."""
        return await self._tried(lambda: self._of_loop().line.get(key), None)

    async def aput(self, entries: Sequence[tuple[str, bytes, int]]) -> bool:
        """Store entries (key, bytes, milliseconds), within LIMIT_S; return whether Redis has taken all."""

        async def put() -> bool:
            await self._of_loop().line.put(entries)
            return True

        return await self._tried(put, False)

    async def _tried[T](self, call: Callable[[], Awaitable[T]], miss: T) -> T:
        if not self.breaker.allows():
            return miss
        try:
            result = await call()
        except ResponseError as error:
            self.breaker.unusable(error)
            return miss
        except OUTAGES as error:
            if not is_outage(error):
                raise
            self.breaker.failed(error)
            return miss
        self.breaker.succeeded()
        return result

    def aclient(self) -> Redis:
        """Return the running loop's client: its connections cannot serve another. It is closed with the loop."""
        return self._of_loop().client

    def _of_loop(self) -> _OfLoop:
        loop = asyncio.get_running_loop()
        with self._loops_lock:
            found = self._loops.get(loop)
        if found is None:
            life = self._client_of(loop)
            try:
                life.__anext__().send(None)  # it awaits nothing before it yields
            except StopIteration as opened:
                client, line = opened.value
                made = _OfLoop(client, line, life)
                with self._loops_lock:
                    self._loops[loop] = made
                return made
            raise RuntimeError("An async generator that awaits nothing did not yield")
        return found

    async def disconnect(self) -> None:
        """Close the running loop's connections; the next command opens new ones."""
        with self._loops_lock:
            found = self._loops.get(asyncio.get_running_loop())
        if found is not None:
            await found.life.aclose()

    async def _client_of(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[tuple[Redis, RedisLine]]:
        # A generator, because a loop that ends closes those that were begun in it, and nothing else.
        pool = redis_connections.pool_of_loop(self.url, limit_s=LIMIT_S, connections=ASYNC_CONNECTIONS)
        client, line = Redis.from_pool(pool), RedisLine(pool.make_connection, limit_s=LIMIT_S)
        try:
            yield client, line
        finally:
            with self._loops_lock:
                self._loops.pop(loop, None)
            line.close()
            await client.aclose()
