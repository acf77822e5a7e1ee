"""How long the garbage collector and anything else held a worker's event loop since it was asked last."""

import asyncio
import gc
import time

import msgspec

#: Seconds between two moments at which the loop is looked at; what holds it shorter is not seen.
TICK_S = 0.005


class Pauses(msgspec.Struct):
    """What happened since the last question; times in ns.

    Attributes:
        walls: Of each collection, by generation: the time it took by the clock.
        cpus: And of its thread's CPU time, which other processes do not add to.
        late: How late the loop was at each tick.
        tracked: Objects that a full round would walk now.
        entries: Tokens in memory.
    """

    walls: tuple[list[int], list[int], list[int]]
    cpus: tuple[list[int], list[int], list[int]]
    late: list[int]
    tracked: int = 0
    entries: int = 0


class Watch:
    """Listens to the collector and to the loop's timers."""

    def __init__(self) -> None:
        self.seen = Pauses(([], [], []), ([], [], []), [])
        self._begun = self._begun_cpu = 0
        self._due_s = 0.0

    def start(self) -> None:
        """Begin, on the running loop, for as long as the process lives."""
        gc.callbacks.append(self._told)
        self._due_s = asyncio.get_running_loop().time()
        self._tick()

    def taken(self) -> Pauses:
        """Return what was seen, and begin anew."""
        seen, self.seen = self.seen, Pauses(([], [], []), ([], [], []), [])
        seen.tracked = len(gc.get_objects())
        return seen

    def _told(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begun, self._begun_cpu = time.perf_counter_ns(), time.thread_time_ns()
            return
        self.seen.walls[info["generation"]].append(time.perf_counter_ns() - self._begun)
        self.seen.cpus[info["generation"]].append(time.thread_time_ns() - self._begun_cpu)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        self.seen.late.append(max(0, round((now_s - self._due_s) * 1e9)))
        self._due_s = now_s + TICK_S
        loop.call_at(self._due_s, self._tick)
