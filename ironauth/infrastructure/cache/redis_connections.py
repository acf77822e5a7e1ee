"""How Redis is entered: one server by its address, or the one that Sentinel names as the master.

Behind Sentinel each new connection asks for the master's address, and one on which a former master refuses a write is
closed; so the next command meets the new one. Imported only where there is a Redis.
"""

from typing import Any, Final

import redis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.asyncio.sentinel import SentinelConnectionPool as AsyncSentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from ironauth.config import storage

_SETTING: Final = "REDIS_URL"


class _LoopPool(AsyncSentinelConnectionPool, BlockingConnectionPool):
    """A pool of connections to the master; who finds all of them in use waits for one."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        """Close its connections; with all of them those to the Sentinels, which redis-py leaves open."""
        await super().disconnect(inuse_connections)
        if inuse_connections:
            for sentinel in self.sentinel_manager.sentinels:
                await sentinel.aclose()


class _ThreadPool(SentinelConnectionPool):
    """A pool of connections to the master, for threads."""

    def disconnect(self, inuse_connections: bool = True) -> None:
        """Close its connections; with all of them those to the Sentinels, which redis-py leaves open."""
        super().disconnect(inuse_connections)
        if inuse_connections:
            for sentinel in self.sentinel_manager.sentinels:
                sentinel.close()


def for_threads(url: str, *, limit_s: float) -> redis.Redis:
    """Return a client for threads.

    Args:
        url: REDIS_URL.
        limit_s: Seconds that a connection and an answer may take.
    """
    limits: dict[str, Any] = {"socket_timeout": limit_s, "socket_connect_timeout": limit_s}
    # One retry: a connection that Redis closed while idle is no outage. The library's default sleeps.
    retry = Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,))
    behind = _behind(url)
    if behind is None:
        return redis.Redis.from_url(url, **limits, retry=retry)
    asked = Sentinel(behind.hosts, sentinel_kwargs=_asking(behind, limit_s, Retry(NoBackoff(), 0)))  # type: ignore[no-untyped-call]  # redis-py's
    pool = _ThreadPool(behind.service, asked, **_entry(behind), **limits, retry=retry)  # type: ignore[no-untyped-call]  # redis-py's
    return redis.Redis.from_pool(pool)


def pool_of_loop(url: str, *, limit_s: float, connections: int) -> BlockingConnectionPool:
    """Return a pool for one event loop.

    Args:
        url: REDIS_URL.
        limit_s: Seconds that a connection, an answer, and the wait for a free connection may take.
        connections: The most that there are at once.
    """
    limits: dict[str, Any] = {"socket_timeout": limit_s, "socket_connect_timeout": limit_s}
    bounds: dict[str, Any] = {
        "max_connections": connections,
        "timeout": limit_s,
        "retry": AsyncRetry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
        **limits,
    }
    behind = _behind(url)
    if behind is None:
        return BlockingConnectionPool.from_url(url, **bounds)
    asked = AsyncSentinel(behind.hosts, sentinel_kwargs=_asking(behind, limit_s, AsyncRetry(NoBackoff(), 0)))  # type: ignore[no-untyped-call]  # redis-py's
    return _LoopPool(behind.service, asked, **_entry(behind), **bounds)  # type: ignore[no-untyped-call]  # redis-py's


def subscriber(url: str, *, health_check_s: int) -> Redis:
    """Return a client of the running loop for a subscription, which may wait for as long as nothing is said.

    Args:
        url: REDIS_URL.
        health_check_s: Seconds of silence after which the server is asked for a sign of life.
    """
    options: dict[str, Any] = {"health_check_interval": health_check_s, "retry": AsyncRetry(NoBackoff(), 0)}
    behind = _behind(url)
    if behind is None:
        return Redis.from_url(url, **options)
    asked = AsyncSentinel(behind.hosts, sentinel_kwargs=_asking(behind, health_check_s, AsyncRetry(NoBackoff(), 0)))  # type: ignore[no-untyped-call]  # redis-py's
    return Redis.from_pool(_LoopPool(behind.service, asked, **_entry(behind), **options))  # type: ignore[no-untyped-call]  # redis-py's


def _behind(url: str) -> storage.Sentinels | None:
    """Return who is asked for the master; None for a server that is entered directly."""
    by_sentinel = url.partition("://")[0] in storage.SENTINEL_SCHEMES
    return storage.sentinels(url, _SETTING) if by_sentinel else None


def _entry(behind: storage.Sentinels) -> dict[str, Any]:
    """Return how the master is entered."""
    entry: dict[str, Any] = {"db": behind.database, **_tls(behind)}
    if behind.password:
        entry |= {"username": behind.username or None, "password": behind.password}
    return entry


def _asking(behind: storage.Sentinels, limit_s: float, retry: object) -> dict[str, Any]:
    """Return how a Sentinel is asked: once, and when all of them are silent they share the time of one answer."""
    share_s = limit_s / len(behind.hosts)
    return {"socket_timeout": share_s, "socket_connect_timeout": share_s, "retry": retry, **_tls(behind)}


def _tls(behind: storage.Sentinels) -> dict[str, Any]:
    return {"ssl": True} if behind.tls else {}
