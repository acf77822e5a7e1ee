"""One timer for each connection, which looks at a deadline when it fires; Uvicorn makes and cancels one a request."""

import asyncio
import math
from collections.abc import Callable


class Deadline:
    """Calls ``expire`` when the deadline has passed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[], None]) -> None:
        """Prepare a deadline that is not set yet.

        Args:
            loop: where the timer runs.
            expire: called when the deadline has passed.
        """
        self.at = math.inf  # loop time; infinite while a request is answered
        self._loop = loop
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def set(self, seconds: float) -> None:
        """Expire in ``seconds``; a timer that fires earlier is kept, as it looks at the deadline."""
        self.at = deadline = self._loop.time() + seconds
        if self._timer_at > deadline:
            self.cancel()
            self._start_timer()

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = math.inf

    def _start_timer(self) -> None:
        self._timer_at = self.at
        self._timer = self._loop.call_at(self.at, self._look)

    def _look(self) -> None:
        """Expire, or look again; while a request is answered there is no timer, and its end sets one."""
        self._timer = None
        self._timer_at = math.inf
        if self.at <= self._loop.time():
            self._expire()
        elif self.at < math.inf:
            self._start_timer()
