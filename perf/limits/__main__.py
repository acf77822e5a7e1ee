"""Prove the server's limits with slow, greedy and malformed clients: ``python -m perf.limits``.

Exit status: 0 every limit held; 1 one did not; 2 something did not start; 130 interrupted.
"""

import asyncio
import multiprocessing
import signal
import sys
import tempfile
import threading
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from ironauth.tests.services import storage_binaries_missing
from perf import runner
from perf.findings import Finding
from perf.limits import hash_queue, pool
from perf.limits.boundaries import Outcome, try_all
from perf.limits.client import End
from perf.limits.crowds import Crowd, crowds
from perf.limits.pool import Witnessed, testify
from perf.limits.report import finding
from perf.load.workloads import Site
from perf.rig.console import leave_by_interrupt, say, status_of
from perf.rig.processes import Server, StartError, free_port
from perf.rig.site_setup import ROOT, prepare_site, site_environment
from perf.soak_sampling import held_by

NAME: Final = "limits"
#: Open files of the server: its bounds on connections and requests follow from it, and are small enough to be passed.
OPEN_FILES: Final = 1_024
REQUESTS: Final = OPEN_FILES - 256  # as server.py computes it
CONNECTIONS: Final = REQUESTS + 128
SAMPLE_S: Final = 0.1
SETTLE_S: Final = 3.0
TESTIMONY_S: Final = 60.0  # the longest that is asked of the ordinary client
HYPOTHESIS: Final = (
    "Whatever a client sends, or fails to send, costs it its connection within the stated time, and the server a few "
    "kilobytes for each connection, all of which come back; an ordinary client is served meanwhile."
)


class Crowded(NamedTuple):
    """What a crowd came to, what it cost in memory (MiB), and what an ordinary client saw."""

    crowd: Crowd
    ends: list[End]
    before_mib: float
    peak_mib: float
    after_mib: float
    beside: Witnessed


def main() -> int:
    """Run what the command line asks for."""
    leave_by_interrupt()
    parser = runner.parser("limits", __doc__, quick="without what takes a minute")
    only = f"crowds, or '{hash_queue.NAME}', whose name contains it, and no database"
    parser.add_argument("--only", default="", metavar="TEXT", help=only)
    given = parser.parse_args()
    return status_of(lambda: _run(given))


def _run(given: Any) -> int:
    quick = given.quick or bool(given.only)
    found = runner.keep(NAME, HYPOTHESIS, lambda: _measure(given), quick=quick, update_readme=given.update_readme)
    return 0 if found.kept else 1


def _measure(given: Any) -> Finding:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ironauth-limits-")))
        processes = beside(stack)
        outcomes, crowded = _http(folder, stack, processes, given)
        scenes = []
        if given.only in hash_queue.NAME:
            scenes = hash_queue.measure(folder, processes, quick=given.quick)
        refusals = []
        missing = storage_binaries_missing()
        if not given.only and not missing:
            say("Postgres: every connection taken")
            refusals = pool.measure(folder, stack, processes, quick=given.quick)
    return finding(outcomes, crowded, refusals, scenes, missing=missing, requests=REQUESTS, connections=CONNECTIONS)


def beside(stack: ExitStack) -> Executor:
    """Return the process of the ordinary client, which ends with ``stack`` and by Ctrl-C, without a word."""
    # Spawned: a forked child would share the pool's sockets and threads.
    context = multiprocessing.get_context("spawn")
    ended_silently = (signal.SIGINT, signal.SIG_DFL)
    processes = ProcessPoolExecutor(1, mp_context=context, initializer=signal.signal, initargs=ended_silently)
    stack.enter_context(processes)

    def end() -> None:  # its own way out would hear the testimony to its end, a minute at most
        for child in multiprocessing.active_children():
            child.terminate()

    stack.callback(end)
    return processes


def _http(folder: Path, stack: ExitStack, processes: Executor, given: Any) -> tuple[list[Outcome], list[Crowded]]:
    """Start a server on SQLite with few open files; try every bound, then one crowd after the other."""
    port = free_port()
    environment = site_environment(folder, port=port, hash_threads=1)
    say("preparing a database and a server")
    prepare_site(environment, people=2)
    serving = [sys.executable, "manage.py", "serve", "--workers", "1", "--port", str(port)]
    command = ["sh", "-c", f'ulimit -n {OPEN_FILES} && exec "$0" "$@"', *serving]
    log = folder / "limits.log"
    server = stack.enter_context(Server(command, folder=ROOT, port=port, environment=environment, log=log))
    say("bounds of one request, both sides")
    outcomes = asyncio.run(try_all(server.address))
    wanted = [
        crowd
        for crowd in crowds(requests=REQUESTS, connections=CONNECTIONS)
        if given.only in crowd.name and not (given.quick and crowd.slow)
    ]
    token = Site(server).sign_in(1)[0].access_token
    crowded = []
    # The last, which takes most, comes again: what the process keeps of the first time, it has for the second.
    for crowd in [*wanted, *(replace(one, name=f"{one.name}, again") for one in wanted[-1:])]:
        say(f"{crowd.count:,} times: {crowd.name}")
        crowded.append(_crowd(server, crowd, token, processes))
    return outcomes, crowded


def _crowd(server: Server, crowd: Crowd, token: str, processes: Executor) -> Crowded:
    """Let a crowd loose, look at the server's memory meanwhile, and hear the ordinary client."""
    before = _memory_mib(server)
    seconds = min(max(crowd.until_s, 3.0), TESTIMONY_S)
    beside = processes.submit(testify, server.address, server.host, token, seconds)
    over, seen = threading.Event(), [before]

    def look() -> None:
        while not over.wait(SAMPLE_S):
            seen.append(_memory_mib(server))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        ends = asyncio.run(crowd.behave(server.address, crowd.count))
        testimony = beside.result()
    finally:
        over.set()
        looking.join()
    time.sleep(SETTLE_S)
    return Crowded(crowd, ends, before, max(seen), _memory_mib(server), testimony)


def _memory_mib(server: Server) -> float:
    held = held_by(server.pid)
    if held is None:
        raise StartError("the server ended while its memory was looked at")
    return held.rss_bytes / 2**20


if __name__ == "__main__":
    sys.exit(main())
