"""The raw hash rate: Argon2id in N threads of a process that does nothing else, scheduled like the hash pool.

As the pool runs it, in memory that is kept; or with ``--library`` as the library does alone.
``python -m perf.rig.hash_rate --threads 2 --seconds 10`` prints hashes per second as JSON.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from argon2.low_level import Type, hash_secret_raw

from ironauth.infrastructure.hashing.argon2 import raw_hash

_NICE = 19  # as the hash pool's threads: the two sides must lose the same share to other work on the machine
_SECRET = b"correct horse battery staple"
_SALT, _HASH_BYTES = b"0123456789abcdef", 32  # 16 bytes and 32, as accounts.passwords.hashing
_ROOT = Path(__file__).resolve().parents[2]
_SPARE_S = 30  # beyond its own duration, for starting and ending a process


class HashRate(msgspec.Struct, frozen=True):
    """What ``threads`` threads did: hashes finished per second of the window; one hash' time and CPU time in ms."""

    threads: int
    rate: float
    mean_ms: float
    slowest_ms: float
    cpu_ms: float


def measure(
    *,
    threads: int,
    seconds: float,
    ramp_s: float,
    time_cost: int,
    memory_kib: int,
    parallelism: int,
    library: bool = False,
) -> HashRate:
    """Hash without pause for ``ramp_s + seconds`` in every thread; count what finishes in the last ``seconds``."""
    start = time.monotonic() + ramp_s
    stop = start + seconds
    times: list[float] = []
    cpu_times: list[float] = []

    def hash_once() -> None:
        if library:
            hash_secret_raw(_SECRET, _SALT, time_cost, memory_kib, parallelism, _HASH_BYTES, Type.ID)
        else:
            raw_hash(
                _SECRET,
                _SALT,
                time_cost=time_cost,
                memory_kib=memory_kib,
                parallelism=parallelism,
                hash_len=_HASH_BYTES,
            )

    def work() -> None:
        _yield_to_others()
        while (began := time.monotonic()) < stop:
            cpu_began = time.thread_time()
            hash_once()
            if start <= (ended := time.monotonic()) < stop:
                times.append(ended - began)
                cpu_times.append(time.thread_time() - cpu_began)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if not times:
        return HashRate(threads, 0.0, 0.0, 0.0, 0.0)
    mean_ms, cpu_ms = (1_000 * statistics.fmean(values) for values in (times, cpu_times))
    return HashRate(threads, len(times) / seconds, mean_ms, 1_000 * max(times), cpu_ms)


def in_a_process(
    *,
    threads: int,
    seconds: float,
    ramp_s: float,
    cost: Mapping[str, int],
    tunables: str,
    cores: Iterable[int] = (),
    bindings: Path | None = None,
    library: bool = False,
) -> HashRate:
    """Measure in a fresh process, on ``cores`` (all when empty), with these GLIBC_TUNABLES.

    ``cost``: ``time-cost``, ``memory-kib`` and ``parallelism``; ``bindings``: a folder with another build of Argon2;
    ``library``: as it hashes alone, with memory of its own for each hash.
    Raises ``subprocess.CalledProcessError`` when the process fails, ``TimeoutExpired`` when it hangs.
    """
    arguments = [sys.executable, "-m", "perf.rig.hash_rate", "--threads", str(threads)]
    arguments += ["--seconds", str(seconds), "--ramp", str(ramp_s)]
    arguments += ["--cores", ",".join(str(core) for core in sorted(cores)), *(["--library"] if library else [])]
    for name, value in cost.items():
        arguments += [f"--{name}", str(value)]
    environment = {**os.environ, "GLIBC_TUNABLES": tunables}
    if bindings is not None:
        environment["PYTHONPATH"] = str(bindings)
    done = subprocess.run(  # killed by run() itself when late or interrupted: its group is not the terminal's
        arguments,
        cwd=_ROOT,
        env=environment,
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
    """Measure with the given parameters and print the result as one JSON object."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--ramp", type=float, default=0.5, help="seconds before the window")
    parser.add_argument("--time-cost", type=int, default=3)
    parser.add_argument("--memory-kib", type=int, default=65_536)
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--cores", default="", help="run on these only, e.g. 0,1")
    parser.add_argument("--library", action="store_true", help="memory of its own for each hash")
    options = parser.parse_args()
    if options.cores:
        os.sched_setaffinity(0, {int(core) for core in options.cores.split(",")})
    rate = measure(
        threads=options.threads,
        seconds=options.seconds,
        ramp_s=options.ramp,
        time_cost=options.time_cost,
        memory_kib=options.memory_kib,
        parallelism=options.parallelism,
        library=options.library,
    )
    sys.stdout.buffer.write(msgspec.json.encode(rate) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
