"""When Python's cyclic garbage collector walks everything: small rounds, at rest if there is any, never what stays.

Left to itself it does so in the middle of whatever request makes one object too many, and with it walks all that lives
long: 35 ms once every page was rendered, in which the event loop stands still. Here the young generations are
collected as always. A full round comes when the loop is at rest, at the latest after a minute, and early when much has
come to stay. What survives in number is frozen: no later round walks it. *No pause* in docs/decisions has the figures.
"""

import asyncio
import gc
import time
from typing import Final

#: Seconds between two looks; between full rounds of a loop at rest; and of one that never is.
LOOK_S, REST_S, BUSY_S = 1.0, 10.0, 60.0
#: CPU time of the loop's thread within a look, as a part of it, up to which it is at rest.
AT_REST: Final = 0.02
#: Objects that have come to stay, at which a full round is made at once, and after which what survives it is frozen.
#: They take about 1 ms; on a machine a third as fast, 3 to 4.
MOST_WALKED = 2_000
#: Objects frozen since the start, at most: of what is frozen, garbage that refers to itself is never found. All pages
#: and all that is imported late come to 80,000.
MOST_FROZEN = 100_000
#: What stays beyond that is walked in each round. So a round at once waits until as much has come as this part of it,
#: as Python's own rounds do.
GROWTH: Final = 0.25
#: Young rounds after which Python begins a full one by itself: none are as many (an int of C).
_NEVER: Final = 2**31 - 1


class FullRounds:
    """The full rounds of this process, from ``start`` until ``stop``; on one event loop."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._thresholds = gc.get_threshold()
        self._frozen = 0  # at the start
        self._stays = 0  # after the last round, not frozen
        self._round_at = self._cpu_s = 0.0

    def start(self) -> None:
        """Freeze all there is, and decide from now on when everything else is walked."""
        gc.collect()
        gc.freeze()
        self._frozen = gc.get_freeze_count()
        self._thresholds = gc.get_threshold()
        gc.set_threshold(self._thresholds[0], self._thresholds[1], _NEVER)
        self._round_at, self._cpu_s = time.monotonic(), time.thread_time()
        self._arm()

    def stop(self) -> None:
        """Leave it to Python again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            gc.set_threshold(*self._thresholds)

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._arm()
        cpu_s = time.thread_time()
        rests = cpu_s - self._cpu_s <= AT_REST * LOOK_S
        self._cpu_s = cpu_s
        since_s = time.monotonic() - self._round_at
        come = len(gc.get_objects(generation=2)) - self._stays
        if since_s >= (REST_S if rests else BUSY_S) or come >= max(MOST_WALKED, GROWTH * self._stays):
            self._collect()

    def _collect(self) -> None:
        self._round_at = time.monotonic()
        gc.collect()
        stays = self._stays = len(gc.get_objects())
        if MOST_WALKED <= stays <= MOST_FROZEN - (gc.get_freeze_count() - self._frozen):
            gc.freeze()
            self._stays = 0
