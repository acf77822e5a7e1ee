"""One reading for all who ask for the same thing at the same time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class _Flight:
    __slots__ = ("landed", "sequence", "task")

    def __init__(self, task: asyncio.Task[Any], landed: asyncio.Future[Any], sequence: int) -> None:
        self.task = task  # the loop itself keeps only a weak reference
        self.landed = landed
        self.sequence = sequence


class SingleFlight:
    """Readings under way, by event loop and key."""

    def __init__(self) -> None:
        self._flights: dict[tuple[int, str], _Flight] = {}

    async def join[T](self, key: str, sequence: int, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the reading of ``key`` under way, or of a new one.

        The reading is a task of its own: when a caller is cancelled, it goes on for the others.

        Args:
            key: what is read.
            sequence: a number that changes with every invalidation. A reading that began under another one is not
                joined: it may have missed what this caller relies on.
            read: starts a reading.

        Raises:
            Exception: what ``read`` raises.
        """
        loop = asyncio.get_running_loop()
        place = (id(loop), key)
        flight = self._flights.get(place)
        if flight is None or flight.sequence != sequence or flight.landed.get_loop() is not loop:
            flight = self._start(place, sequence, read, loop)
        # shield: a cancelled caller must cancel neither the future nor the others who wait for it
        result: T = await asyncio.shield(flight.landed)
        return result

    def _start(
        self,
        place: tuple[int, str],
        sequence: int,
        read: Callable[[], Coroutine[Any, Any, Any]],
        loop: asyncio.AbstractEventLoop,
    ) -> _Flight:
        landed: asyncio.Future[Any] = loop.create_future()
        flight = _Flight(loop.create_task(read()), landed, sequence)
        self._flights[place] = flight

        def land(task: asyncio.Task[Any]) -> None:
            if self._flights.get(place) is flight:
                del self._flights[place]
            if landed.done():
                return
            if task.cancelled():
                landed.cancel()
            elif (error := task.exception()) is not None:
                landed.set_exception(error)
                landed.exception()  # marked as seen: when every caller was cancelled, nobody else will look
            else:
                landed.set_result(task.result())

        flight.task.add_done_callback(land)
        return flight
