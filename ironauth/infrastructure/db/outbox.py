"""Outboxes: delivering the entries that wait in a table. Claimed on database threads, sent on threads of its own.

A queue is looked at every two seconds, not when something is put into it: work that starts with the answer to one
request and not to another could be seen on the clock. Several workers may deliver the same queue. Each entry is claimed
by one of them for ``LEASE_S`` seconds, so a worker that dies delays it by that. A failed entry is tried again at
growing intervals, for a day. A kind of entry is a table, units of work on it, and a `QueueDelivery`.
"""

import asyncio
import random
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import ClassVar, Final
from uuid import UUID

from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from ironauth.infrastructure.threads.executor import BoundedExecutor

POLL_S: Final = 2.0  # seconds between two looks at a queue, a quarter more or less
THREADS: Final = 4  # entries sent at once by one process: each thread mostly waits for somebody else's server
MAX_DUE: Final = 100  # entries looked at in one reading
LEASE_S: Final = 60  # seconds an entry belongs to the worker that claimed it
LONGEST_RETRY_S: Final = 3_600  # seconds; a server that is back after a night is noticed within the hour
JITTER: Final = 0.2  # of a wait, either way: what failed together is not tried together
GIVE_UP_S: Final = 86_400  # seconds after an entry was queued; a day later it is of no use

_random = random.SystemRandom()
log = get_logger()


def retry_after(tries: int, *, first_s: float) -> timedelta:
    """Return how long to wait after a failure: doubled each time, up to an hour, a fifth more or less.

    Args:
        tries: How often it has failed by now, from 1.
        first_s: Seconds after the first failure.
    """
    wait_s = min(float(LONGEST_RETRY_S), first_s * 2.0 ** min(tries - 1, 20))
    return timedelta(seconds=wait_s * _random.uniform(1 - JITTER, 1 + JITTER))


def is_too_old(queued_at: datetime, now: datetime) -> bool:
    """Return whether an entry that has failed once more is given up.

    Args:
        queued_at: When the entry was queued.
        now: The present time.
    """
    return now - queued_at >= timedelta(seconds=GIVE_UP_S)


class QueueDelivery[Claimed](ABC):
    """Delivers while it runs; one per process and queue, on one event loop."""

    #: What the threads and the task are called.
    name: ClassVar[str]
    #: The log event of an error that nobody expected.
    failed: ClassVar[str]
    #: Seconds a stopping process waits for what is on its way; the server has 10 in all.
    stop_s: ClassVar[float]

    def __init__(self) -> None:
        self._executor = BoundedExecutor(name=self.name, threads=THREADS)
        self._polling: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    @abstractmethod
    def due(self) -> Callable[[], list[UUID]]:
        """The unit of work that returns the entries that are due and free, by id, ``MAX_DUE`` at most."""

    @property
    @abstractmethod
    def claim(self) -> Callable[[UUID], Claimed | None]:
        """The unit of work that takes an entry; None when another worker was first."""

    @abstractmethod
    async def deliver(self, claimed: Claimed) -> None:
        """Send one entry and say in the queue how it went."""

    async def start(self) -> None:
        """Look at the queue until ``stop``; a database or server that cannot be reached is tried again."""
        await self.stop()
        self._stopping.clear()
        self._polling = asyncio.get_running_loop().create_task(self._poll_forever(), name=f"{self.name}-delivery")

    async def stop(self) -> None:
        """Take no more entries, and wait for those on their way, at most ``stop_s`` seconds."""
        polling, self._polling = self._polling, None
        self._stopping.set()
        if polling is not None:
            await asyncio.wait([polling], timeout=self.stop_s)
            polling.cancel()
        await asyncio.to_thread(self._executor.shutdown, wait=False)

    async def deliver_due(self) -> int:
        """Deliver every entry that is due and free; return how many were taken. Raises ``Unavailable``."""
        taken = 0
        more = True
        while more and not self._stopping.is_set():
            waiting = await database().read(self.due)
            more = len(waiting) == MAX_DUE
            secrets.SystemRandom().shuffle(waiting)  # several workers begin at different ends
            # An error in one must not leave the others without anybody who waits for them.
            results = await asyncio.gather(
                *(self._deliver_each(waiting) for _ in range(THREADS)), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
                taken += result
        return taken

    async def _poll_forever(self) -> None:
        while not self._stopping.is_set():
            try:
                await self.deliver_due()
            except Unavailable:
                pass  # the pool has logged it
            except Exception:
                log.exception(self.failed)
            rest = POLL_S * secrets.SystemRandom().uniform(0.75, 1.25)
            try:
                await asyncio.wait_for(self._stopping.wait(), rest)
            except TimeoutError:
                continue

    async def _deliver_each(self, waiting: list[UUID]) -> int:
        """Claim and deliver from the end of ``waiting`` until it is empty; return how many were claimed."""
        taken = 0
        while waiting and not self._stopping.is_set():
            claimed = await database().write(self.claim, waiting.pop())
            if claimed is not None:
                taken += 1
                await self.deliver(claimed)
        return taken
