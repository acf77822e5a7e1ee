"""What a worker does before its first request and after its last (ASGI lifespan protocol)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from django.conf import settings

from ironauth.infrastructure.cache.invalidation import invalidation_feed
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import lifecycle
from ironauth.infrastructure.core.asgi_types import Receive, Send
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing import argon2_build, argon2_log
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry import logs
from ironauth.server.garbage import FullRounds

_full_rounds = FullRounds()


async def run(receive: Receive, send: Send) -> None:
    """Serve one lifespan: start up, say so (or why not), wait for the end, shut down.

    A server that is told twice to stop cancels it: then the process is about to end, and nothing is left to do.

    Args:
        receive: gives the server's messages.
        send: takes the answers to them.
    """
    with suppress(asyncio.CancelledError):
        await _serve(receive, send)


async def _serve(receive: Receive, send: Send) -> None:
    message = await receive()
    if message["type"] != "lifespan.startup":
        raise RuntimeError(f"Expected lifespan.startup, got {message['type']}: serve this with an ASGI 3 server")
    try:
        await start()
    except Exception as error:  # noqa: BLE001 - whatever it is, the server must hear of it and stop
        logs.get_logger().error("startup_failed", exc_info=True)
        await stop()
        await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
        return
    await send({"type": "lifespan.startup.complete"})
    while (await receive())["type"] != "lifespan.shutdown":
        pass
    await stop()
    await send({"type": "lifespan.shutdown.complete"})


async def start() -> None:
    """Start the feed, warm the hash pool, run the apps' hooks; keep what is loaded out of collections.

    A database or Redis that cannot be reached stops nothing: both are tried again.

    Raises:
        Exception: what a hook raises.
    """
    await invalidation_feed().start()
    await _warm_hash_pool()
    await hash_pool().ping_workers()
    for hook in lifecycle.startup_hooks:
        await hook()
    _full_rounds.start()


async def stop() -> None:
    """Run the apps' hooks, stop the feed, close the pools and the connections to Redis, write the last log lines."""
    _full_rounds.stop()
    for hook in reversed(lifecycle.shutdown_hooks):
        await _tried(hook)
    await _tried(invalidation_feed().stop)
    await _tried(token_cache().disconnect)
    await _tried(lambda: asyncio.to_thread(hash_pool().shutdown))
    await _tried(lambda: asyncio.to_thread(database().close))
    logs.flush()


async def _tried(step: Callable[[], Awaitable[None]]) -> None:
    """Await ``step``; log its failure, since the steps after it must still be taken."""
    try:
        await step()
    except Exception:  # noqa: BLE001 - see the docstring
        logs.get_logger().error("shutdown_step_failed", exc_info=True)


async def _warm_hash_pool() -> None:
    """Run one hash of the configured cost, so that the pool's first estimate of waiting times is a measured one.

    The library that hashes is chosen before, on a thread of the pool.

    Raises:
        Argon2Wrong: There is none that computes Argon2.
    """
    pool = hash_pool()
    await pool.run(argon2_log.choose)
    started = time.perf_counter()
    cost = {
        "time_cost": settings.IRONAUTH_ARGON2_TIME_COST,
        "memory_kib": settings.IRONAUTH_ARGON2_MEMORY_KIB,
        "parallelism": settings.IRONAUTH_ARGON2_PARALLELISM,
    }
    await pool.run(partial(argon2_build.one_hash, **cost))
    logs.get_logger().info(
        "hash_pool_ready",
        threads=pool.stats().threads,
        mean_ms=round(1000 * pool.stats().mean_hash_s, 1),
        started_in_ms=round(1000 * (time.perf_counter() - started), 1),
        memory_bound_mib=pool.stats().threads * settings.IRONAUTH_ARGON2_MEMORY_KIB / 1024,
        argon2=argon2_build.build(),
    )
