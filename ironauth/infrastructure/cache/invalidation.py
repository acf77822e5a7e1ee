"""How a revocation reaches every process: a row in its own transaction, a message, and a feed that reads the rows.

In this process cached entries are dropped when the transaction commits; in others on the message (typically within
0.1 s) or, without Redis, when the feed reads the row (within 2 s). A process whose feed cannot read the table stops
using its entries after ``IRONAUTH_L1_MAX_STALE_S``.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from django.conf import settings
from django.db import models, transaction

from ironauth.infrastructure.cache.gap_tracker import GapTracker, read_page
from ironauth.infrastructure.cache.memory import freshness
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.compiled import CompiledNumberedInsert, Param
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.models import Invalidation
from ironauth.infrastructure.telemetry import metrics
from ironauth.infrastructure.telemetry.logs import get_logger

#: How often the feed reads the table; seconds. Two readings may fail before entries stop being used (5 s).
POLL_S = 2.0
#: At least this much rest between readings, also when they fail or are slow; seconds.
REST_S = 0.2
#: Readings per ``IRONAUTH_L1_MAX_STALE_S``, when that is short.
POLLS_PER_STALE = 2.5
_INSERT = CompiledNumberedInsert(
    lambda: Invalidation(tag=Param("tag", models.CharField()), created_at=Param("now", models.DateTimeField()))
)


def invalidate(*tags: str) -> None:
    """Have every process stop using what carries one of ``tags``, when the current transaction commits. 1 query.

    Call it inside the transaction that makes the change; outside of one the rows are committed at once. A rollback
    undoes it. Redis is told on commit, which may block for its time limit; failing to is not an error.
    """
    wanted = list(dict.fromkeys(tags))
    if not wanted:
        return
    ids: list[tuple[int, str]] = []
    if len(wanted) == 1:
        ids.append((_INSERT.new_id(tag=wanted[0], now=clock.now()), wanted[0]))
    else:
        ids += [
            (row.pk, row.tag) for row in Invalidation.objects.bulk_create([Invalidation(tag=tag) for tag in wanted])
        ]
    transaction.on_commit(partial(_committed, ids), robust=True)


def _committed(ids: list[tuple[int, str]]) -> None:
    feed = invalidation_feed()
    feed.apply_own(ids)
    _count("own", len(ids))
    feed.committed(ids)


def _count(source: str, tags: int) -> None:
    if metrics.recorder is not None:
        metrics.recorder.count("ironauth_invalidations", source, by=tags)


class InvalidationFeed:
    """Keeps this process' knowledge current while it runs; one per process, on one event loop."""

    def __init__(self) -> None:
        self._history = GapTracker()
        self._callbacks: dict[str, list[Callable[[], None]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own_lock = threading.Lock()
        self._own: set[int] = set()  # rows of this process: applied when they were committed
        self._failing = False

    @property
    def position(self) -> int | None:
        """Return the id up to which every row is known or will never exist; None while the feed does not run."""
        return freshness.position

    @property
    def synced_at(self) -> float:
        """Return when the last complete reading began (monotonic seconds), minus infinity if there is none."""
        return freshness.synced_at

    def subscribe(self, tag: str, callback: Callable[[], None]) -> None:
        """Have ``callback`` called whenever ``tag`` is invalidated, or may have been without this process noticing.

        It runs on the feed's event loop; while no feed runs, on the thread that commits. It must be quick.
        Subscribing the same callback again changes nothing.
        """
        callbacks = self._callbacks.setdefault(tag, [])
        if callback not in callbacks:
            callbacks.append(callback)

    async def start(self) -> None:
        """Read the table once, and go on until ``stop``. A database that cannot be reached is tried again."""
        await self.stop()
        self._loop = asyncio.get_running_loop()
        self._history = GapTracker()
        await self._poll_and_report()
        self._tasks.append(self._loop.create_task(self._poll_forever(), name="invalidation-feed"))
        remote = token_cache().remote
        if remote is not None:
            self._tasks.append(self._loop.create_task(self._listen(remote.url), name="invalidation-channel"))

    async def stop(self) -> None:
        """End the feed; entries then live by their own age alone."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._loop = None
        freshness.stop()

    async def poll(self) -> None:
        """Read the table once and apply what is new; raises what reading raises."""
        started = time.monotonic()
        page = await database().read_dedicated(
            read_page, self._history.newest, self._history.gaps, self._history.written
        )
        fresh = self._history.advance(page, started)
        if fresh is None:
            freshness.restart(started, self._history.position, page.newest)
            with self._own_lock:
                self._own.clear()
            self._call(tuple(self._callbacks))
            return
        with self._own_lock:
            theirs = {tag: row_id for row_id, tag in fresh if row_id not in self._own}
            position = self._history.position
            self._own.difference_update(row_id for row_id, _ in fresh)
            self._own = {row_id for row_id in self._own if row_id > position}  # one read before it was noted as ours
        if theirs:
            freshness.apply(theirs)
            _count("feed", len(theirs))
        freshness.confirm(started, self._history.position)
        self._call(tuple(theirs))

    def apply_own(self, ids: list[tuple[int, str]]) -> None:
        """Apply rows that this process has committed; called on any thread.

        A reading sees them noted and applied, or neither: one that found them noted alone would confirm a position
        beyond a row that is not applied yet, and one that found them applied alone would apply them again.
        """
        with self._own_lock:
            if self._loop is not None:
                read = self._history.has_read  # what a reading has found already is not found again
                self._own.update(row_id for row_id, _ in ids if not read(row_id))
            freshness.apply({tag: row_id for row_id, tag in ids})

    def committed(self, ids: list[tuple[int, str]]) -> None:
        """Tell the callbacks and the other processes what this one has invalidated; called on any thread.

        The others are told before the answer, although it is a hint only: what is revoked has to be so everywhere
        at once. Blocks for at most Redis' time limit.
        """
        tags = [tag for _, tag in ids]
        loop = self._loop
        try:
            if loop is None:
                self._call(tags)
            else:
                loop.call_soon_threadsafe(self._call, tags)
        except RuntimeError:  # the loop was closed before the feed was stopped
            self._call(tags)
        remote = token_cache().remote
        if remote is not None:
            from ironauth.infrastructure.cache import broadcast  # noqa: PLC0415 - with Redis only, which takes 8 MiB

            broadcast.publish(remote, ids)

    async def _poll_forever(self) -> None:
        while True:
            interval_s = min(POLL_S, settings.IRONAUTH_L1_MAX_STALE_S / POLLS_PER_STALE)
            rested = time.monotonic() - freshness.synced_at
            await asyncio.sleep(max(REST_S, interval_s - rested))
            await self._poll_and_report()

    async def _poll_and_report(self) -> None:
        """Poll; whatever goes wrong is logged, once per outage, and tried again: this task must never die."""
        try:
            await self.poll()
        except Unavailable:
            if not self._failing:
                get_logger().warning("invalidation_feed_lost", max_stale_s=settings.IRONAUTH_L1_MAX_STALE_S)
            self._failing = True
        except Exception:  # noqa: BLE001 - see the docstring
            if not self._failing:
                get_logger().error("invalidation_feed_failed", exc_info=True)
            self._failing = True
        else:
            if self._failing:
                get_logger().info("invalidation_feed_recovered")
            self._failing = False

    async def _listen(self, url: str) -> None:
        """Apply messages forever; a mistake in handling one is logged, and listening begins anew."""
        from ironauth.infrastructure.cache import broadcast  # noqa: PLC0415 - as above

        while True:
            try:
                await broadcast.listen(url, self._on_message)
            except Exception:  # noqa: BLE001 - this task must never die
                get_logger().error("invalidation_channel_failed", exc_info=True)
                await asyncio.sleep(POLL_S)

    def _on_message(self, row_id: int, tag: str) -> None:
        """Apply a message at once. Nobody vouches for it, so the row is applied again when the feed reads it."""
        with self._own_lock:
            if row_id in self._own:
                return  # an echo of our own
        freshness.apply({tag: row_id})
        _count("channel", 1)
        self._call((tag,))

    def _call(self, tags: Iterable[str]) -> None:
        for tag in tags:
            for callback in self._callbacks.get(tag, ()):
                try:
                    callback()
                except Exception:  # noqa: BLE001 - one subscriber's mistake must not keep the others from hearing
                    get_logger().error("invalidation_callback_failed", tag=tag, exc_info=True)


_feed = InvalidationFeed()


def invalidation_feed() -> InvalidationFeed:
    """Return the process's feed; it runs between the server's start-up and shutdown."""
    return _feed
