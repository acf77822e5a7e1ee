"""Working through sessions that end by batches: those of clients and those of everybody.

Each batch is a transaction of its own that also notes how far it got, so a process that dies takes nothing with it.
Every serving process does it, and the purge.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from django.db import transaction

from ironauth.infrastructure.cache.invalidation import invalidation_feed
from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.core.lifecycle import on_shutdown, on_startup
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.telemetry.logs import get_logger
from tokens.sessions.ends import of_clients, of_everybody

#: Units of work that end a batch each, and return whether there may be more.
STEPS: Final[tuple[Callable[[], bool], ...]] = (of_clients.end_batch, of_everybody.end_batch)
#: Their tags wake every process.
TAGS: Final = (of_clients.TAG, of_everybody.TAG)
REST_S: Final = 0.02  # seconds between batches, for others
POLL_S: Final = 30.0  # seconds until a process looks by itself

log = get_logger()


def end_all() -> None:
    """End all that waits, each batch in a transaction of its own; for commands, which have no server to wait for.

    One step that fails keeps no other one back.

    Raises:
        Exception: The first error there was.
    """
    failed: Exception | None = None
    for step in STEPS:
        more = True
        try:
            while more:
                with transaction.atomic():
                    more = step()
        except Exception as error:  # noqa: BLE001 - it is raised below
            failed = failed or error
    if failed is not None:
        raise failed


class _Ending:
    """Ends what waits while this process serves; on its event loop."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    async def start(self) -> None:
        await self.stop()
        self._wake = asyncio.Event()
        for tag in TAGS:
            invalidation_feed().subscribe(tag, self.wake)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="sessions-ending")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def wake(self) -> None:
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                self._wake.clear()
                await self._end_all()
            except Exception:  # this task must never die
                log.exception("session_ending_failed")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), POLL_S)

    async def _end_all(self) -> None:
        """Try each step, whatever has become of another."""
        for step in STEPS:
            more = True
            try:
                while more:
                    more = await database().write(step)
                    await asyncio.sleep(REST_S)
            except Unavailable:
                pass  # the pool has logged it
            except Exception:  # the next one may work
                log.exception("session_ending_failed")


_ending = _Ending()


def connect() -> None:
    """Have servers work through what waits."""
    on_startup(_ending.start)
    on_shutdown(_ending.stop)
