"""Which build of Argon2 is in use, in words, and what a hash takes with it.

``python -m ironauth.infrastructure.hashing.argon2_build`` prints both. `argon2` chooses.
"""

import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution

from ironauth.infrastructure.hashing.argon2 import CFFI, choice, raw_hash

#: Bytes of salt and of result, as the password hasher uses them (RFC 9106 §3.1, §4).
SALT_BYTES, HASH_BYTES = 16, 32
#: Tags of wheels built to run anywhere (PEP 600, PEP 656, and the other systems' own).
_PORTABLE = ("manylinux", "musllinux", "macosx", "win")
REMEDY = "make argon2-native compiles it for this CPU: a hash takes about two thirds of the time then"


def is_native() -> bool:
    """Return whether the bindings were compiled on this machine or one like it; False when that cannot be told."""
    try:
        wheel = distribution("argon2-cffi-bindings").read_text("WHEEL") or ""
    except PackageNotFoundError:
        return False
    tags = [line.partition(":")[2].strip() for line in wheel.splitlines() if line.startswith("Tag:")]
    return bool(tags) and not any(platform in tag for tag in tags for platform in _PORTABLE)


@cache
def build() -> str:
    """Return the build that hashes passwords of the default parameters: ``libsodium``, ``native`` or ``wheel``."""
    library = choice().library
    if library.name != CFFI.name:
        return library.name
    return "native" if is_native() else "wheel"


def described() -> str:
    """Return the build in words, with what is wrong and what would be faster."""
    found, refused = build(), choice().refused
    words = {
        "libsodium": f"libsodium, with its code for this CPU; {REMEDY}",
        "native": "argon2-cffi, compiled for this CPU",
        "wheel": f"argon2-cffi, the portable wheel; {REMEDY}",
    }
    return f"{words[found]}. {refused}" if refused else words[found]


def one_hash(*, time_cost: int, memory_kib: int, parallelism: int) -> bytes:
    """Compute one Argon2id hash of a constant text under a random salt.

    Args:
        time_cost: passes over the memory.
        memory_kib: memory of the run; KiB.
        parallelism: lanes.
    """
    return raw_hash(
        secret=b"measured",
        salt=os.urandom(SALT_BYTES),
        time_cost=time_cost,
        memory_kib=memory_kib,
        parallelism=parallelism,
        hash_len=HASH_BYTES,
    )


def measure_ms(*, threads: int, rounds: int, time_cost: int, memory_kib: int, parallelism: int) -> float:
    """Return the median time of one hash in milliseconds while several threads hash at once.

    Args:
        threads: threads that hash.
        rounds: hashes of each thread.
        time_cost: passes over the memory.
        memory_kib: memory of each run; KiB.
        parallelism: lanes.
    """

    def timed(_number: int) -> float:
        started = time.perf_counter()
        one_hash(time_cost=time_cost, memory_kib=memory_kib, parallelism=parallelism)
        return 1000 * (time.perf_counter() - started)

    with ThreadPoolExecutor(threads) as pool:
        return statistics.median(pool.map(timed, range(threads * rounds)))


def main() -> int:
    """Print the build and the time of a hash at the default cost."""
    took = measure_ms(threads=1, rounds=5, time_cost=3, memory_kib=65_536, parallelism=1)
    sys.stdout.write(f"Argon2id, t=3, m=64 MiB, p=1: {took:.0f} ms a hash ({described()})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
