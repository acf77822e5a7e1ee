"""Argon2 in memory that is kept: the library's own answers, wiped after each, and bounded."""

import mmap
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from argon2.low_level import Type, ffi, hash_secret_raw
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from ironauth.infrastructure.hashing import argon2 as argon2_raw
from ironauth.infrastructure.hashing.argon2 import Argon2Failure, raw_hash

KIB = 1024


@given(
    st.binary(max_size=300),
    st.binary(min_size=8, max_size=64),
    st.integers(1, 3),
    st.integers(32, 300),
    st.integers(1, 4),
    st.integers(4, 80),
    st.sampled_from(Type),
    st.sampled_from([16, 19]),
)
def test_answers_are_the_librarys(
    secret: bytes, salt: bytes, time_cost: int, memory: int, lanes: int, length: int, variety: Type, version: int
) -> None:
    """For any input the result is what the library computes in memory of its own."""
    theirs = hash_secret_raw(secret, salt, time_cost, memory, lanes, length, variety, version)
    ours = raw_hash(
        secret,
        salt,
        time_cost=time_cost,
        memory_kib=memory,
        parallelism=lanes,
        hash_len=length,
        variety=variety,
        version=version,
    )
    assert ours == theirs


def run(memory_kib: int = 64, salt: bytes = b"saltsalt") -> bytes:
    """Hash once, as cheaply as ``memory_kib`` allows."""
    return raw_hash(b"secret", salt, time_cost=1, memory_kib=memory_kib, parallelism=1, hash_len=16)


def written(memory: argon2_raw._Memory) -> Any:
    """Return the memory of one run, to be looked at and written to."""
    return ffi.buffer(ffi.cast("uint8_t *", memory.address), 64 * KIB)


def test_memory_is_kept_and_wiped() -> None:
    """The next run finds the same memory, without a trace of the run before."""
    seen: list[bytes] = []

    def look() -> None:
        run()
        first = argon2_raw._kept.memory
        assert first is not None
        seen.append(bytes(written(first)))
        run()
        assert argon2_raw._kept.memory is first
        written(first)[:4] = b"mark"  # what is looked at is what Argon2 writes to
        run()
        seen.append(bytes(written(first)))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [bytes(64 * KIB)] * 2


def test_large_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """What exceeds the limit is kept for its own run only, one that Argon2 refuses too; what meets it stays."""
    monkeypatch.setattr(argon2_raw, "KEPT_BYTES", 128 * KIB)

    def kept_after(memory_kib: int, salt: bytes = b"saltsalt") -> bool:
        with suppress(Argon2Failure):
            run(memory_kib, salt)
        return argon2_raw._kept.memory is not None

    with ThreadPoolExecutor(1) as fresh:
        assert [fresh.submit(kept_after, size).result() for size in (128, 129, 64)] == [True, False, True]
        assert [fresh.submit(kept_after, size, b"short").result() for size in (128, 129)] == [True, False]


def test_threads_do_not_share_memory() -> None:
    """Parallel runs are as right as single ones."""
    salts = [bytes([number]) * 8 for number in range(64)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda salt: run(256, salt), salts)) == [run(256, salt) for salt in salts]


def test_parameters_argon2_refuses() -> None:
    """A salt of eight bytes is the least; what the library refuses is refused with its words."""
    assert run(salt=bytes(8))
    with pytest.raises(Argon2Failure, match="Salt is too short"):
        run(salt=bytes(7))


def test_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without memory fails with that error, and so does Argon2 when it finds less than it needs."""

    def refuse(*_args: object) -> mmap.mmap:
        raise OSError(12, "Cannot allocate memory")

    with monkeypatch.context() as short, ThreadPoolExecutor(1) as fresh:
        short.setattr(mmap, "mmap", refuse)
        with pytest.raises(MemoryError):
            fresh.submit(run).result()
    monkeypatch.setattr(argon2_raw, "_provide", lambda _size: None)
    with ThreadPoolExecutor(1) as fresh, pytest.raises(MemoryError):
        fresh.submit(run).result()


def test_without_functions_for_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none can be made the library hashes in its own memory, and nothing is kept."""
    usual = run()
    with monkeypatch.context() as bare, ThreadPoolExecutor(1) as fresh:
        bare.setattr(argon2_raw, "_ALLOCATE", denied)
        bare.setattr(argon2_raw, "_callbacks", argon2_raw._made_for_c()[0])
        assert fresh.submit(run).result() == usual
        assert fresh.submit(lambda: argon2_raw._kept.memory).result() is None


def test_a_kernel_without_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory is kept in small ones."""
    usual = run()
    with monkeypatch.context() as small, ThreadPoolExecutor(1) as fresh:
        small.setattr(mmap, "MADV_HUGEPAGE", 12345)
        assert fresh.submit(run).result() == usual
        assert fresh.submit(lambda: argon2_raw._kept.memory).result() is not None


def denied(_function: object) -> object:
    """Fail as the system does where memory may not be both written and executed."""
    raise MemoryError("Cannot allocate write+execute memory")


@pytest.mark.skipif(sys.platform != "linux", reason="a confinement of Linux")
def test_it_is_kept_where_no_code_may_be_written() -> None:
    """Under what systemd's MemoryDenyWriteExecute= does (prctl PR_SET_MDWE; kernels since 6.3 know it)."""
    script = (
        "import ctypes; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)\n"
        "from ironauth.infrastructure.hashing import argon2 as raw\n"
        "raw.raw_hash(b's', b'saltsalt', time_cost=1, memory_kib=64, parallelism=1, hash_len=16)\n"
        "print(raw._kept.memory is not None)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], cwd=settings.BASE_DIR, capture_output=True, text=True, check=True
    )
    assert said.stdout == "True\n"


ENDS_MEANWHILE = """
import threading, time
from ironauth.infrastructure.hashing import argon2 as argon2_raw

def hash_on():
    while True:
        argon2_raw.raw_hash(b"p" * 16, b"s" * 16, time_cost=20, memory_kib=65536, parallelism=1, hash_len=32)

for _ in range(2):
    threading.Thread(target=hash_on, daemon=True).start()
time.sleep(0.5)
"""


def test_a_process_may_end_while_its_threads_hash() -> None:
    """What Argon2 writes to stays until nobody writes: the process ends well, not by a fault of its memory."""
    ended = subprocess.run([sys.executable, "-c", ENDS_MEANWHILE], timeout=60, check=False)
    assert ended.returncode == 0
