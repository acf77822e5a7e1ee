"""Untagged Django cache values in Redis; both faces, sync and async. Imported only where there is a Redis.

They have no second level in the process: nothing could tell it that another process changed one.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django_redis.cache import RedisCache
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from ironauth.infrastructure.threads.circuit_breaker import Breaker

#: What a caller waits for Redis at most before it goes on without; seconds. The fault matrix allows 250 ms in all; a
#: quarter of a second was all of it, and what a busy machine adds came on top.
LIMIT_S = 0.2
#: Connections to Redis per event loop: a command takes about 0.2 ms, so these carry 80,000 a second.
ASYNC_CONNECTIONS = 16
#: How long clear() may take, since it visits every key of the server; seconds. Each command has LIMIT_S.
CLEAR_LIMIT_S = 10.0
#: Keys removed per step of clear().
SCAN_COUNT = 1000
#: How uvloop's RuntimeError ends, where asyncio raises an OSError: written on a connection that was reset.
_RESET = "the handler is closed"
# INCRBY alone would make a missing key; the script is one step, so that none expires in between.
_INCR = "if redis.call('EXISTS', KEYS[1]) == 1 then return redis.call('INCRBY', KEYS[1], ARGV[1]) else return false end"


class RemoteCache(RedisCache):  # type: ignore[misc]  # django-redis ships no types
    """Redis through django-redis (sync) and redis.asyncio (async); a failure is a miss, never an exception.

    During an outage nothing is found, nothing is stored, ``add`` and ``touch`` return False, and ``incr`` raises
    ValueError as it does for a missing key. A value that is not ours is a miss too.
    """

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = {
            "SERIALIZER": "ironauth.infrastructure.cache.signed_pickle.SignedPickle",
            "SOCKET_CONNECT_TIMEOUT": LIMIT_S,
            "SOCKET_TIMEOUT": LIMIT_S,
            # One retry: a connection that Redis closed while idle is no outage. The library's default sleeps.
            "CONNECTION_POOL_KWARGS": {
                "retry": Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
            },
            **params.get("OPTIONS", {}),
        }
        super().__init__(server, {**params, "OPTIONS": options})
        self.url = server
        self.breaker = Breaker("redis")
        self._loops: dict[asyncio.AbstractEventLoop, tuple[Redis, AsyncGenerator[Redis]]] = {}
        self._loops_lock = threading.Lock()

    # ------------------------------------------------------------ sync
    def attempt[T](self, call: Callable[[], T], miss: T) -> T:
        """Return what ``call``, which speaks to Redis, returns; ``miss`` when it fails or an outage is on."""
        if not self.breaker.allows():
            return miss
        try:
            result = call()
        except ResponseError as error:  # refused, for instance for want of memory; the server is there
            self.breaker.unusable(error)
            return miss
        except (RedisError, OSError) as error:
            self.breaker.failed(error)
            return miss
        self.breaker.succeeded()
        return result

    def get(self, key: Any, default: Any = None, version: int | None = None, client: Any = None) -> Any:
        """Return the value, or ``default``."""
        name = self.client.make_key(key, version=version)
        return self._decoded(self.attempt(lambda: self.raw().get(name), None), default)

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        """Store the value, if Redis can be reached."""
        self.attempt(lambda: self.client.set(key, value, timeout, version=version), False)

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Store the value unless there is one; return whether it was stored."""
        return self.attempt(lambda: bool(self.client.add(key, value, timeout, version=version)), False)

    def delete(self, key: Any, version: int | None = None) -> bool:
        """Remove the value; return whether there was one."""
        return self.attempt(lambda: bool(self.client.delete(key, version=version)), False)

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Give the value a new time-out; return whether there was one."""
        life = self._life_ms(timeout)
        name = self.client.make_key(key, version=version)

        def touch() -> bool:
            client = self.raw()
            if life is None:  # PERSIST says 0 also for a key that never expires, and django-redis believes it
                client.persist(name)
                return bool(client.exists(name))
            return bool(client.pexpire(name, max(life, 0)))

        return self.attempt(touch, False)

    def incr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        """Add ``delta`` in one step; raise ValueError when there is no number."""
        name = self.client.make_key(key, version=version)
        return self._number(key, self.attempt(lambda: self.raw().eval(_INCR, 1, name, delta), None))

    def has_key(self, key: Any, version: int | None = None) -> bool:
        """Return whether there is a value."""
        return self.attempt(lambda: bool(self.client.has_key(key, version=version)), False)

    def clear(self) -> None:
        """Remove every key under this cache's prefix, and no one else's: FLUSHDB would take all."""
        self.attempt(self._clear, None)

    def raw(self) -> Any:
        """Return the sync redis-py client."""
        return self.client.get_client(write=True)

    def _clear(self) -> None:
        client = self.raw()
        keys = list(client.scan_iter(match=self._everything(), count=SCAN_COUNT))
        for start in range(0, len(keys), SCAN_COUNT):
            client.unlink(*keys[start : start + SCAN_COUNT])

    # ------------------------------------------------------------ async
    async def aattempt[T](self, call: Callable[[Redis], Awaitable[T]], miss: T, limit_s: float | None = None) -> T:
        """Return what ``call`` returns for this loop's client, in ``limit_s`` or LIMIT_S; ``miss`` as ``attempt``."""
        if not self.breaker.allows():
            return miss
        try:
            async with asyncio.timeout(LIMIT_S if limit_s is None else limit_s):
                result = await call(self.aclient())
        except ResponseError as error:
            self.breaker.unusable(error)
            return miss
        except (RedisError, OSError, RuntimeError) as error:  # TimeoutError is an OSError
            if isinstance(error, RuntimeError) and not str(error).endswith(_RESET):
                raise
            self.breaker.failed(error)
            return miss
        self.breaker.succeeded()
        return result

    async def aget(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        """See get()."""
        name = self.client.make_key(key, version=version)
        return self._decoded(await self.aattempt(lambda redis: redis.get(name), None), default)

    async def aset(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        """See set()."""
        life = self._life_ms(timeout)
        if life is not None and life <= 0:
            await self.adelete(key, version)
            return
        name, data = self.client.make_key(key, version=version), self.client.encode(value)
        await self.aattempt(lambda redis: redis.set(name, data, px=life), None)

    async def aadd(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """See add()."""
        life = self._life_ms(timeout)
        name, data = self.client.make_key(key, version=version), self.client.encode(value)
        if life is not None and life <= 0:  # stored and expired at once; what was there stays
            return not await self.aattempt(lambda redis: redis.exists(name), 1)
        return bool(await self.aattempt(lambda redis: redis.set(name, data, px=life, nx=True), None))

    async def adelete(self, key: Any, version: int | None = None) -> bool:
        """See delete()."""
        name = self.client.make_key(key, version=version)
        return bool(await self.aattempt(lambda redis: redis.delete(name), 0))

    async def atouch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """See touch()."""
        life = self._life_ms(timeout)
        name = self.client.make_key(key, version=version)
        if life is None:
            await self.aattempt(lambda redis: redis.persist(name), None)
            return bool(await self.aattempt(lambda redis: redis.exists(name), 0))
        return bool(await self.aattempt(lambda redis: redis.pexpire(name, max(life, 0)), 0))

    async def aincr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        """See incr()."""
        name = self.client.make_key(key, version=version)
        return self._number(key, await self.aattempt(lambda redis: redis.eval(_INCR, 1, name, str(delta)), None))

    async def aclear(self) -> None:
        """See clear()."""

        async def clear(redis: Redis) -> None:
            keys = [key async for key in redis.scan_iter(match=self._everything(), count=SCAN_COUNT)]
            for start in range(0, len(keys), SCAN_COUNT):
                await redis.unlink(*keys[start : start + SCAN_COUNT])

        await self.aattempt(clear, None, CLEAR_LIMIT_S)

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
        pool = BlockingConnectionPool.from_url(
            self.url,
            max_connections=ASYNC_CONNECTIONS,
            timeout=LIMIT_S,
            socket_timeout=LIMIT_S,
            socket_connect_timeout=LIMIT_S,
            retry=AsyncRetry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
        )
        client = Redis.from_pool(pool)
        try:
            yield client
        finally:
            with self._loops_lock:
                self._loops.pop(loop, None)
            await client.aclose()

    # ------------------------------------------------------------ both
    def _life_ms(self, timeout: Any) -> int | None:
        if timeout is DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        return None if timeout is None else int(timeout * 1000)

    def _decoded(self, data: bytes | str | None, default: Any) -> Any:
        if data is None:
            return default
        try:
            return self.client.decode(data)
        except Exception as error:  # noqa: BLE001 - unpickling may raise anything, for instance of an older class
            self.breaker.unusable(error)
            return default

    def _everything(self) -> str:
        escaped = "".join(f"[{char}]" if char in "*?[" else char for char in f"{self.key_prefix}:")
        return f"{escaped}*"

    @staticmethod
    def _number(key: Any, value: int | None) -> int:
        if value is None:
            raise ValueError(f"Key {key!r} not found, or not a whole number")
        return value
