"""What a worker starts with is put onto huge pages: nothing else changes, and nothing grows."""

import os
import subprocess
import sys
import threading

import pytest
from django.conf import settings

from ironauth.server import huge_heap

PROGRAM = """
import mmap
from ironauth.server import huge_heap
kept = [str(number) for number in range(1_000_000)]
sparse = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
sparse[:: 2 << 20] = b"x" * 32
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * mmap.PAGESIZE
before = resident()
pages = huge_heap.collapse()
print(pages, (resident() - before) >> 20, kept == [str(number) for number in range(1_000_000)])
"""


def _ran(tunables: str) -> list[str]:
    env = {**os.environ, "GLIBC_TUNABLES": tunables}
    command = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(command, env=env, cwd=settings.BASE_DIR, capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_memory_in_use_moves_and_stays_what_it_is() -> None:
    """What is used sparsely does not grow; a kernel without huge pages moves nothing."""
    pages, grown_mib, unchanged = _ran("glibc.malloc.hugetlb=1")
    assert unchanged == "True"
    assert int(grown_mib) < 16
    release = tuple(map(int, os.uname().release.split(".")[:2]))
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as enabled:  # noqa: PTH123 - of the kernel
        possible = release >= (6, 1) and "[never]" not in enabled.read()
    assert int(pages) >= 10 or not possible


def test_an_operators_choice_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who switched huge pages off has none of these either, now or later."""
    assert _ran("glibc.malloc.hugetlb=0")[0] == "0"
    done: list[int] = []
    monkeypatch.setattr(huge_heap, "collapse", lambda: done.append(1))
    monkeypatch.setattr(huge_heap, "LATER_S", 0.0)
    for tunables, times in (("glibc.malloc.hugetlb=0", 0), ("a=1:glibc.malloc.hugetlb=1", 1)):
        monkeypatch.setenv("GLIBC_TUNABLES", tunables)
        before = set(threading.enumerate())
        huge_heap.collapse_later()
        for timer in set(threading.enumerate()) - before:
            timer.join()
        assert len(done) == times


SMAPS = """\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                {first} kB
7f0001000000-7f0001400000 rw-p 00000000 fd:00 1234       /usr/lib/x.so
Rss:                4096 kB
7f0002000000-7f0002400000 r--p 00000000 00:00 0
Rss:                4096 kB
55d000000000-55d000400000 rw-p 00000000 00:00 0                          [heap]
Rss:                4096 kB
7ffd00000000-7ffd00400000 rw-p 00000000 00:00 0                          [stack]
Rss:                4096 kB
"""


@pytest.mark.parametrize(("first", "taken"), [(3687, True), (3686, False)])
def test_mappings_are_private_without_a_file_and_used(first: int, taken: bool) -> None:
    """Nine tenths have to be in memory: below that it would grow."""
    heap = (0x55D000000000, 0x55D000400000)
    expected = [(0x7F0000000000, 0x7F0000400000), heap] if taken else [heap]
    assert list(huge_heap._mappings(SMAPS.format(first=first))) == expected
