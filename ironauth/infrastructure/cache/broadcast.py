"""Telling other processes about an invalidation at once, through Redis. A hint: the database remains the truth."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ironauth.infrastructure.cache import redis_connections
from ironauth.infrastructure.cache.redis_client import OUTAGES, RedisClient, is_outage
from ironauth.infrastructure.telemetry.logs import get_logger

CHANNEL = "ironauth:invalidate"
#: Bounds of the wait before the next attempt to subscribe; seconds.
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 5.0
#: A subscription that has received nothing for so long asks whether the server is still there; seconds.
HEALTH_CHECK_S = 10
#: Messages in one round trip: all of them have the cache's time limit, which 50,000 would pass.
AT_ONCE = 500
#: Longest tag that is believed to be one (the column's length).
MAX_TAG = 80


def publish(remote: RedisClient, ids: Iterable[tuple[int, str]]) -> None:
    """Send each ``<id> <tag>``; blocks for at most the cache's time limit for every ``AT_ONCE``, and never raises.

    Args:
        remote: Redis; while its circuit breaker is open nothing is sent.
        ids: The row's id and the tag of each invalidation.
    """
    messages = [f"{row_id} {tag}" for row_id, tag in ids]

    def send(some: list[str], redis: Any) -> None:
        if len(some) == 1:  # a pipeline for one costs twice its time
            redis.publish(CHANNEL, some[0])
            return
        pipe = redis.pipeline(transaction=False)
        for message in some:
            pipe.publish(CHANNEL, message)
        pipe.execute()

    for start in range(0, len(messages), AT_ONCE):
        remote.attempt(partial(send, messages[start : start + AT_ONCE]), None)


def parse(data: object) -> tuple[int, str] | None:
    """Return the id and the tag of a message, or None when it is not one of ours."""
    if not isinstance(data, bytes) or len(data) > MAX_TAG * 4 + 20:
        return None
    try:
        number, _, tag = data.decode().partition(" ")
        row_id = int(number)
    except ValueError:
        return None
    return (row_id, tag) if 0 < row_id < 2**63 and 0 < len(tag) <= MAX_TAG else None


async def listen(url: str, on_message: Callable[[int, str], None]) -> None:
    """Call ``on_message`` for every message, forever; reconnects by itself.

    Args:
        url: The address of Redis.
        on_message: Takes the row's id and the tag, in the event loop.
    """
    wait_s = FIRST_WAIT_S
    lost = False
    while True:
        client = redis_connections.subscriber(url, health_check_s=HEALTH_CHECK_S)
        try:
            async with client, client.pubsub(ignore_subscribe_messages=True) as channel:
                await channel.subscribe(CHANNEL)
                while True:
                    message = await channel.get_message(timeout=HEALTH_CHECK_S)
                    wait_s, lost = FIRST_WAIT_S, False
                    if message is not None and (parsed := parse(message.get("data"))) is not None:
                        on_message(*parsed)
        except OUTAGES as error:
            if not is_outage(error):
                raise
            if not lost:  # once per outage; the cache's breaker reports what it costs
                get_logger().warning("invalidation_channel_lost", error=type(error).__name__)
                lost = True
        await asyncio.sleep(wait_s)
        wait_s = min(wait_s * 2, LONGEST_WAIT_S)
