"""The raw hash rate: Argon2id in N threads of a process that does nothing else, scheduled like the hash pool.

By the library that the server chooses. ``python -m perf.rig.hash_rate`` reads a `Job` as JSON from its input and prints
a `HashRate`.
"""

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from ironauth.infrastructure.hashing.argon2 import choice, raw_hash

_NICE = 19  # as the hash pool's threads: the two sides must lose the same share to other work on the machine
_SECRET = b"correct horse battery staple"
_SALT, _HASH_BYTES = b"0123456789abcdef", 32  # 16 bytes and 32, as accounts.passwords.hashing
_ROOT = Path(__file__).resolve().parents[2]
_SPARE_S = 30  # beyond its own duration, for starting and ending a process


class Cost(msgspec.Struct, frozen=True):
    """What one hash costs, as Argon2id has it."""

    time_cost: int
    memory_kib: int
    parallelism: int


class Job(msgspec.Struct, frozen=True):
    """Hash in ``threads`` threads on ``cores`` (all when empty); what the last ``seconds`` finish is counted."""

    threads: int
    seconds: float
    ramp_s: float
    cost: Cost
    cores: Sequence[int] = ()


class HashRate(msgspec.Struct, frozen=True):
    """What ``threads`` threads did: hashes finished per second of the window; one hash' time and CPU time in ms."""

    threads: int
    rate: float
    mean_ms: float
    slowest_ms: float
    cpu_ms: float


def measure(job: Job) -> HashRate:
    """Hash without pause in every thread."""
    choice()  # before the window, as a server does
    start = time.monotonic() + job.ramp_s
    stop = start + job.seconds
    times: list[float] = []
    cpu_times: list[float] = []

    def work() -> None:
        _yield_to_others()
        while (began := time.monotonic()) < stop:
            cpu_began = time.thread_time()
            raw_hash(_SECRET, _SALT, **msgspec.structs.asdict(job.cost), hash_len=_HASH_BYTES)
            if start <= (ended := time.monotonic()) < stop:
                times.append(ended - began)
                cpu_times.append(time.thread_time() - cpu_began)

    workers = [threading.Thread(target=work) for _ in range(job.threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if not times:
        return HashRate(job.threads, 0.0, 0.0, 0.0, 0.0)
    mean_ms, cpu_ms = (1_000 * statistics.fmean(values) for values in (times, cpu_times))
    return HashRate(job.threads, len(times) / job.seconds, mean_ms, 1_000 * max(times), cpu_ms)


def in_a_process(
    *, threads: int, seconds: float, ramp_s: float, cost: Mapping[str, int], tunables: str, cores: Iterable[int] = (),
    bindings: Path | None = None,
) -> HashRate:  # fmt: skip
    """Measure in a fresh process.

    Args:
        threads: as in `Job`, like ``seconds``, ``ramp_s``, ``cost`` and ``cores``.
        seconds: the window.
        ramp_s: before it.
        cost: of one hash.
        tunables: its GLIBC_TUNABLES.
        cores: where it runs.
        bindings: a folder with another build of Argon2.

    Raises:
        CalledProcessError: the process failed.
        TimeoutExpired: it hung.
    """
    environment = {**os.environ, "GLIBC_TUNABLES": tunables}
    if bindings is not None:
        environment["PYTHONPATH"] = str(bindings)
    done = subprocess.run(  # killed by run() itself when late or interrupted: its group is not the terminal's
        [sys.executable, "-m", "perf.rig.hash_rate"],
        cwd=_ROOT,
        env=environment,
        input=msgspec.json.encode(Job(threads, seconds, ramp_s, Cost(**cost), sorted(cores))),
        stdout=subprocess.PIPE,
        timeout=ramp_s + seconds + _SPARE_S,
        check=True,
        process_group=0,
    )
    return msgspec.json.decode(done.stdout, type=HashRate)


def _yield_to_others() -> None:
    native = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, native, _NICE)
    os.sched_setscheduler(native, os.SCHED_BATCH, os.sched_param(0))


def main() -> int:
    """Do the job that stands on standard input."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    if job.cores:
        os.sched_setaffinity(0, job.cores)
    sys.stdout.buffer.write(msgspec.json.encode(measure(job)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
