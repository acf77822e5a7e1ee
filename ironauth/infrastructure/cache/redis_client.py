"""Redis for the event loop and for threads: bounded in time, and a failure counts as a miss.

Imported only where there is a Redis.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from ironauth.infrastructure.cache import redis_connections
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
        self._loops: dict[asyncio.AbstractEventLoop, tuple[Redis, AsyncGenerator[Redis]]] = {}
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
        if not self.breaker.allows():
            return miss
        try:
            async with asyncio.timeout(LIMIT_S):
                result = await call(self.aclient())
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
        loop = asyncio.get_running_loop()
        with self._loops_lock:
            found = self._loops.get(loop)
        if found is None:
            life = self._client_of(loop)
            try:
                life.__anext__().send(None)  # it awaits nothing before it yields
            except StopIteration as opened:
                client: Redis = opened.value
                with self._loops_lock:
                    self._loops[loop] = client, life
                return client
            raise RuntimeError("An async generator that awaits nothing did not yield")
        return found[0]

    async def disconnect(self) -> None:
        """Close the running loop's connections; the next command opens new ones."""
        with self._loops_lock:
            found = self._loops.get(asyncio.get_running_loop())
        if found is not None:
            await found[1].aclose()

    async def _client_of(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[Redis]:
        # A generator, because a loop that ends closes those that were begun in it, and nothing else.
        pool = redis_connections.pool_of_loop(self.url, limit_s=LIMIT_S, connections=ASYNC_CONNECTIONS)
        client = Redis.from_pool(pool)
        try:
            yield client
        finally:
            with self._loops_lock:
                self._loops.pop(loop, None)
            await client.aclose()
