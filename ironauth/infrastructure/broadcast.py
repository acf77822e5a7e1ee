"""Telling other processes about an invalidation at once, through Redis. A hint: the database remains the truth."""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from ironauth.infrastructure.logs import get_logger
from ironauth.infrastructure.plain_caches import RemoteCache

CHANNEL = "ironauth:invalidate"
#: Bounds of the wait before the next attempt to subscribe; seconds.
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 5.0
#: A subscription that has heard nothing for so long asks whether the server is still there; seconds.
HEALTH_CHECK_S = 10
#: How long a message waits for others, and for the answer of its request to leave first; seconds.
GATHER_S = 0.001
#: Messages in one round trip: 500 take the loop 3 ms, and all of them have the cache's time limit.
AT_ONCE = 500
#: Longest tag that is believed to be one (the column's length).
MAX_TAG = 80


def publish(remote: RemoteCache, ids: Iterable[tuple[int, str]]) -> None:
    """Send each ``<id> <tag>``; blocks for at most the cache's time limit, and never raises."""
    messages = _messages(ids)

    def send() -> None:
        if len(messages) == 1:  # a pipeline for one costs twice its time
            remote.raw().publish(CHANNEL, messages[0])
            return
        pipe = remote.raw().pipeline(transaction=False)
        for message in messages:
            pipe.publish(CHANNEL, message)
        pipe.execute()

    remote.attempt(send, None)


class Sender:
    """Sends what is handed to it after the answer is on its way: who signs out need not wait for Redis.

    What is handed over while Redis works on the last messages goes in one round trip. For one event loop.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, str]] = []
        self._task: asyncio.Task[None] | None = None

    def send(self, remote: RemoteCache, ids: Iterable[tuple[int, str]]) -> None:
        """Have each ``<id> <tag>`` sent; call it on the event loop. Losing Redis loses them, and is no error."""
        self._waiting.extend(ids)
        if not self._is_sending():
            self._task = asyncio.get_running_loop().create_task(self._run(remote), name="invalidation-sender")

    async def finish(self) -> None:
        """Return when all has been sent, or given up after the cache's time limit."""
        if self._task is not None and self._is_sending():
            await self._task

    def _is_sending(self) -> bool:
        """Tell whether a task of this very loop will take what is waiting; one of a loop that ended never does."""
        task = self._task
        return task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop()

    async def _run(self, remote: RemoteCache) -> None:
        await asyncio.sleep(GATHER_S)
        while self._waiting:
            messages = _messages(self._waiting[:AT_ONCE])
            del self._waiting[:AT_ONCE]
            await remote.aattempt(partial(_apublish, messages), None)


async def _apublish(messages: list[str], redis: Redis) -> None:
    if len(messages) == 1:
        await redis.publish(CHANNEL, messages[0])
        return
    async with redis.pipeline(transaction=False) as pipe:
        for message in messages:
            pipe.publish(CHANNEL, message)
        await pipe.execute()


def _messages(ids: Iterable[tuple[int, str]]) -> list[str]:
    return [f"{row_id} {tag}" for row_id, tag in ids]


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


async def listen(url: str, heard: Callable[[int, str], None]) -> None:
    """Call ``heard`` for every message, for ever; reconnects by itself."""
    wait_s = FIRST_WAIT_S
    lost = False
    while True:
        client = Redis.from_url(url, health_check_interval=HEALTH_CHECK_S, retry=Retry(NoBackoff(), 0))
        try:
            async with client, client.pubsub(ignore_subscribe_messages=True) as channel:
                await channel.subscribe(CHANNEL)
                while True:
                    message = await channel.get_message(timeout=HEALTH_CHECK_S)
                    wait_s, lost = FIRST_WAIT_S, False
                    if message is not None and (parsed := parse(message.get("data"))) is not None:
                        heard(*parsed)
        except (RedisError, OSError) as error:
            if not lost:  # once per outage; the cache's breaker reports what it costs
                get_logger().warning("invalidation_channel_lost", error=type(error).__name__)
                lost = True
        await asyncio.sleep(wait_s)
        wait_s = min(wait_s * 2, LONGEST_WAIT_S)
