"""The clients of the flood experiment, each in a process of its own so that none disturbs the others' timing.

Standard input is one ``Job`` as JSON; the ``Outcome`` goes to standard output, as JSON too.
"""

import itertools
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from perf.load.fixed_rate import run_fixed
from perf.load.sources import Constant, SignIn, Source, get
from perf.load.workloads import SEEDED_PEOPLE
from perf.rig.seed import PASSWORD, email_of
from perf.rig.site_setup import ROOT

_SPARE_S = 30  # beyond its own duration, for importing, draining and writing the outcome


class Job(msgspec.Struct, frozen=True):
    """What one client does: ``/me`` with ``tokens``, or sign-ins, at a fixed ``rate``.

    It begins at ``begin_at`` (monotonic seconds, one clock for all processes); ``first_person`` is signed in first.
    """

    what: Literal["me", "sign-in"]
    port: int
    connections: int
    ramp_s: float
    seconds: float
    begin_at: float
    rate: float
    tokens: Sequence[str] = ()
    first_person: int = 0


class Outcome(msgspec.Struct):
    """What a client saw, in ns, from the intended send time; see ``FixedRateResult``."""

    latencies: list[int]
    failures: dict[str, int]
    dues: list[int] = []
    shed: list[int] = []
    lags: list[int] = []
    waited: int = 0
    no_retry_after: int = 0
    scheduling: str = ""


def start(job: Job) -> subprocess.Popen[bytes]:
    """Start the client, which does the job by itself."""
    command = [sys.executable, "-m", "perf.experiments.flood.clients"]
    # A group of its own: Ctrl-C reaches only the experiment, which ends its clients.
    client = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
    try:
        if client.stdin is not None:
            # Not on the command line, which everybody may read: there are tokens in it.
            with suppress(BrokenPipeError), client.stdin as pipe:  # one that died tells by its exit status
                pipe.write(msgspec.json.encode(job))
            client.stdin = None
    except BaseException:
        client.kill()
        client.wait()
        raise
    return client


def together(jobs: Sequence[Job]) -> list[Outcome]:
    """Do the jobs at the same time, and return what each client saw; they end with this call, whatever happens.

    Raises:
        RuntimeError: a client ended without an outcome; what it said is on standard error.
    """
    clients: list[subprocess.Popen[bytes]] = []
    try:
        clients.extend(start(job) for job in jobs)
        said = [
            client.communicate(timeout=job.ramp_s + job.seconds + max(job.begin_at - time.monotonic(), 0) + _SPARE_S)[0]
            for client, job in zip(clients, jobs, strict=True)
        ]
    finally:
        for client in clients:
            if client.poll() is None:
                client.kill()
                client.wait()
    if failed := [client.returncode for client in clients if client.returncode]:
        raise RuntimeError(f"a client of the flood ended with {failed[0]}")
    return [msgspec.json.decode(output, type=Outcome) for output in said]


def sources(job: Job) -> list[Source]:
    """Make one source for each connection."""
    host = f"127.0.0.1:{job.port}"
    if job.what == "me":
        tokens = itertools.islice(itertools.cycle(job.tokens), job.connections)
        return [Constant(get("/api/v1/access/me", host, token)) for token in tokens]
    serials = itertools.count(job.first_person)
    people = (email_of(serial % SEEDED_PEOPLE) for serial in serials)
    return [SignIn(host, people, PASSWORD) for _ in range(job.connections)]


def perform(job: Job) -> Outcome:
    """Do a job in this process."""
    address = "127.0.0.1", job.port
    requests = sources(job)
    time.sleep(max(job.begin_at - time.monotonic(), 0))
    seen = run_fixed(address, requests, rate=job.rate, seconds=job.seconds, ramp_s=job.ramp_s)
    return Outcome(
        seen.latencies, dict(seen.failures), seen.dues, seen.shed, seen.lags, seen.waited, seen.no_retry_after,
        seen.scheduling,
    )  # fmt: skip


def main() -> int:
    """Do the job that stands on standard input."""
    outcome = perform(msgspec.json.decode(sys.stdin.buffer.read(), type=Job))
    sys.stdout.buffer.write(msgspec.json.encode(outcome))
    return 0


if __name__ == "__main__":
    sys.exit(main())
