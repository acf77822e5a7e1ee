"""What the machine does beside a measurement: CPU by core, run queue, context switches; as ``sar`` shows them.

A thread of the measuring process reads ``/proc`` every half second. One reading takes about a millisecond, so
it costs the load generator 0.2 % of its core.
"""

import os
import threading
import time
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

import msgspec

from perf.rig.processes import process_tree

INTERVAL_S: Final = 0.5
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_VOLUNTARY, _INVOLUNTARY = b"\nvoluntary_ctxt_switches:", b"\nnonvoluntary_ctxt_switches:"
# Columns of a cpu line of /proc/stat, proc(5); hard and soft interrupts count as system.
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)


class Core(msgspec.Struct, frozen=True):
    """How one core spent an interval, each in percent of it."""

    user: float
    system: float
    iowait: float
    steal: float
    idle: float


class Sample(msgspec.Struct, frozen=True):
    """One interval. ``at_s``: its end, in seconds since the sampler's origin.

    ``run_queue``: tasks running or ready at its end, without the sampler itself; ``load_1``: the load average over
    a minute. Switches are counted per second; the server's are those of all threads of its processes (involuntary:
    the scheduler took the core away), 0 where no server was named.
    """

    at_s: float
    cores: list[Core]
    run_queue: int
    load_1: float
    switches: float
    server_voluntary: float
    server_involuntary: float

    @property
    def busy(self) -> float:
        """CPU time used, in percent of all cores: user and system."""
        return sum(core.user + core.system for core in self.cores) / len(self.cores) if self.cores else 0.0


class Reading(NamedTuple):
    """The counters at one moment (monotonic seconds), as they stand since the start of the machine or of a thread."""

    at: float
    cores: list[list[int]]
    run_queue: int
    load_1: float
    switches: int
    server: tuple[int, int]


class Watcher:
    """A thread beside a measurement: ``_run`` begins when this is entered, and has to end once ``_over`` is set."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError


class Sampler(Watcher):
    """Samples while it is entered; ``samples`` is what it saw, complete after leaving.

    ``pid``: the server whose processes' switches are counted. ``origin``: the monotonic second ``at_s`` counts from.
    """

    def __init__(self, pid: int | None = None, *, origin: float | None = None, interval_s: float = INTERVAL_S) -> None:
        super().__init__()
        self.samples: list[Sample] = []
        self._pid = pid
        self._origin = time.monotonic() if origin is None else origin
        self._interval_s = interval_s

    def _run(self) -> None:
        # Once: a fork or a new worker during a round would be news in itself.
        members = process_tree(self._pid) if self._pid is not None else []
        last = read(members)
        while not self._over.wait(self._interval_s):
            now = read(members)
            self.samples.append(difference(last, now, self._origin))
            last = now


def read(members: Sequence[int]) -> Reading:
    """Read the counters of the machine and of the threads of these processes; ended ones count nothing."""
    with open("/proc/stat", "rb") as file:  # noqa: PTH123 - twice as fast as Path, and twice a second
        lines = file.read().split(b"\n")
    cores, switches, running = [], 0, 0
    for line in lines:
        if line.startswith(b"cpu") and not line.startswith(b"cpu "):
            cores.append([int(ticks) for ticks in line.split()[1:9]])
        elif line.startswith(b"ctxt "):
            switches = int(line[5:])
        elif line.startswith(b"procs_running "):
            running = int(line[14:])
    tasks = [_task_switches(task) for member in members for task in _tasks(member)]
    server = (sum(voluntary for voluntary, _ in tasks), sum(involuntary for _, involuntary in tasks))
    return Reading(time.monotonic(), cores, max(running - 1, 0), os.getloadavg()[0], switches, server)


def difference(first: Reading, last: Reading, origin: float) -> Sample:
    """Return what happened between two readings; a counter that fell (a thread ended) counts as unchanged."""
    seconds = max(last.at - first.at, _TICK_S)
    cores = [_core(before, after) for before, after in zip(first.cores, last.cores, strict=True)]
    per_second = [
        round(max(after - before, 0) / seconds, 1)
        for before, after in zip((first.switches, *first.server), (last.switches, *last.server), strict=True)
    ]
    return Sample(round(last.at - origin, 3), cores, last.run_queue, last.load_1, *per_second)


def _core(before: Sequence[int], after: Sequence[int]) -> Core:
    spent = [max(late - early, 0) for early, late in zip(before, after, strict=True)]
    whole = sum(spent) or 1
    parts = (
        spent[_USER] + spent[_NICE],
        spent[_SYSTEM] + spent[_IRQ] + spent[_SOFTIRQ],
        spent[_IOWAIT],
        spent[_STEAL],
        spent[_IDLE],
    )
    return Core(*(round(100 * part / whole, 1) for part in parts))


def _tasks(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/task/{task}/status" for task in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - fast
    except FileNotFoundError:
        return []  # the process has ended


def _task_switches(status: str) -> tuple[int, int]:
    """Return voluntary and involuntary context switches of one thread."""
    try:
        with open(status, "rb") as file:  # noqa: PTH123 - as in read()
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0  # it has ended since it was listed
    return _number_after(text, _VOLUNTARY), _number_after(text, _INVOLUNTARY)


def _number_after(text: bytes, name: bytes) -> int:
    at = text.find(name)
    return int(text[at + len(name) :].split(b"\n", 1)[0]) if at >= 0 else 0
