"""Turns for requests that may keep one of few threads for seconds: client networks come one after another.

A sign-in to the admin waits for its hash on a thread of the lane. Many of them from one network occupied all threads,
and nobody else saw a page.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ironauth.infrastructure.core.errors import Overloaded


class Turns:
    """Lets ``at_once`` requests run, of one network at most ``of_one``; the others wait, and networks alternate.

    Not thread-safe: it belongs to one event loop, and so does everything that calls it.
    """

    def __init__(self, *, at_once: int, of_one: int, waiting_of_one: int, wait_s: float) -> None:
        """``waiting_of_one``: requests of one network that may wait, each for ``wait_s`` seconds at most."""
        self.at_once = at_once
        self.of_one = of_one
        self.waiting_of_one = waiting_of_one
        self.wait_s = wait_s
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, network: str) -> AsyncIterator[None]:
        """Run this block in a turn of ``network``. Errors: `Overloaded`, when too many of it wait, or for too long."""
        if self._is_free(network):
            self._running[network] += 1
        else:
            await self._wait(network)
        try:
            yield
        finally:
            self._end(network)

    def _is_free(self, network: str) -> bool:
        return self._running.total() < self.at_once and self._running[network] < self.of_one

    async def _wait(self, network: str) -> None:
        """Wait for a turn, which is counted when this returns."""
        line = self._waiting.setdefault(network, deque())
        if len(line) >= self.waiting_of_one:
            raise Overloaded
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(called)
        try:
            async with asyncio.timeout(self.wait_s):
                await called
        except BaseException as error:
            if called.done() and not called.cancelled():
                self._end(network)  # it was called at the moment at which it gave up
            else:
                self._withdraw(network, called)
            if isinstance(error, TimeoutError):
                raise Overloaded from None
            raise

    def _withdraw(self, network: str, called: "asyncio.Future[None]") -> None:
        line = self._waiting.get(network, deque())
        if called in line:
            line.remove(called)
            if not line:
                del self._waiting[network]

    def _end(self, network: str) -> None:
        self._running[network] -= 1
        if not self._running[network]:
            del self._running[network]
        self._go_on()

    def _go_on(self) -> None:
        """Call those who may run now; the network of each is the last one from then on."""
        while network := next((each for each in self._waiting if self._is_free(each)), None):
            line = self._waiting[network]
            called = line.popleft()
            if not called.done():  # else its request was cancelled, and has not run since
                called.set_result(None)
                self._running[network] += 1
            if line:
                self._waiting.move_to_end(network)
            else:
                del self._waiting[network]
