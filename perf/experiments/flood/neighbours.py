"""Programs beside the server that keep every core busy, as another service on the same machine does."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_BUSY = "while True: pass"


@contextmanager
def busy_neighbours() -> Iterator[Sequence["subprocess.Popen[bytes]"]]:
    """Keep one process busy for each core, at normal priority, in a session of its own as a service would be."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        while len(started) < len(os.sched_getaffinity(0)):
            command = [sys.executable, "-I", "-c", _BUSY]
            started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True))
        yield started
    finally:
        for one in started:
            one.kill()
        for one in started:
            one.wait()
