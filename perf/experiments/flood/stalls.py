"""When the machine itself stood still: a real-time thread on each core that asks for 1 ms of sleep and gets more.

Virtual machines are stopped by their hypervisor, above all when all their cores are busy and use up a quota. Nothing in
the machine runs then, so what a server was doing cannot be held against it. Real-time threads wake before everything
else here, by interrupt; woken more than 3 ms late, they were not the only ones.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from perf.rig.site_setup import ROOT

STALL_NS = 3_000_000  # the kernel's own work on a core stays below 1 ms
_NAP_S = 0.001
_PRIORITY = 2  # above the clients', which are real-time too
_SPARE_S = 15

type Stall = tuple[int, int]  # from, to: monotonic ns, one clock for all processes


@contextmanager
def watching(seconds: float) -> Iterator[list[Stall]]:
    """Watch every core for ``seconds``; when the block is left, the list holds the stalls.

    Without the privilege that real-time threads need, there are none in it.
    """
    stalls: list[Stall] = []
    command = [sys.executable, "-m", "perf.experiments.flood.stalls", "--seconds", str(seconds), "--core"]
    watchers = []
    try:
        for core in sorted(os.sched_getaffinity(0)):
            watcher = subprocess.Popen(  # its own group: Ctrl-C reaches only the experiment, which ends it
                [*command, str(core)], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, process_group=0
            )
            watchers.append(watcher)
        yield stalls
        for watcher in watchers:
            said, _ = watcher.communicate(timeout=seconds + _SPARE_S)
            stalls += msgspec.json.decode(said, type=list[Stall])
        stalls.sort()
    finally:
        for watcher in watchers:
            if watcher.poll() is None:
                watcher.kill()
                watcher.wait()


def undisturbed(begun: Sequence[int], lasted: Sequence[int], stalls: Sequence[Stall]) -> list[int]:
    """Return what ``lasted`` (ns) of the requests ``begun`` then, without those during which a core stood still."""
    return [
        length
        for start, length in zip(begun, lasted, strict=True)
        if not any(start < end and begin < start + length for begin, end in stalls)
    ]


def watch(core: int, seconds: float) -> list[Stall]:
    """Watch one core; empty where real-time scheduling is not permitted."""
    os.sched_setaffinity(0, {core})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except PermissionError:
        return []
    stalls = []
    before = time.perf_counter_ns()
    end = before + int(seconds * 1e9)
    while before < end:
        time.sleep(_NAP_S)
        after = time.perf_counter_ns()
        if after - before > STALL_NS:
            stalls.append((before, after))
        before = after
    return stalls


def main() -> int:
    """Watch one core and print its stalls as JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--core", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    sys.stdout.buffer.write(msgspec.json.encode(watch(options.core, options.seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
