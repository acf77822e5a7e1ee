"""The memory that a worker starts with, on huge pages (madvise(2), ``MADV_COLLAPSE``, Linux 6.1).

Beside threads that hash 64 MiB at a time a request finds little of what it needs in the caches, not even where it is:
60 MiB in pages of 4 KiB are more than a processor remembers the places of. On pages of 2 MiB the five requests of a
sign-in at a client took 9.3 ms of CPU time besides the hash instead of 9.9, and the process no more memory; done once
more after its first seconds, for what requests have compiled and read, 2 to 3 % less again.
"""

import ctypes
import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

HUGE_PAGE = 2 << 20
_COLLAPSE = 25  # MADV_COLLAPSE
#: A mapping that is used less, as a thread's stack, would grow.
USED_SHARE = 0.9
#: Seconds from a worker's start to the second time.
LATER_S = 10.0
_MAPS = Path("/proc/self/smaps")
_HEAD = re.compile(r"[0-9a-f]+-")
#: Private memory without a file: ``7f0c00000000-7f0c00200000 rw-p 00000000 00:00 0``, or the heap that grows by brk(2).
_ANONYMOUS = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p 0+ 00:00 0 *(\[heap\])?")


def collapse() -> int:
    """Put what is in memory now onto huge pages, and return how many there are.

    0 where the system has none, or the operator wants none: where ``serve`` has not set glibc's tunable.
    """
    if not _is_wanted():
        return 0
    made = 0
    with suppress(OSError, AttributeError):  # not Linux; not to be read
        madvise = ctypes.CDLL(None).madvise
        for begin, end in _mappings(_MAPS.read_text(encoding="ascii", errors="replace")):
            for page in range(begin + -begin % HUGE_PAGE, end - HUGE_PAGE + 1, HUGE_PAGE):
                made += madvise(ctypes.c_void_p(page), ctypes.c_size_t(HUGE_PAGE), _COLLAPSE) == 0
    return made


def collapse_later() -> None:
    """Do so once more in `LATER_S` seconds, on a thread: for what the first requests have compiled and read."""
    if _is_wanted():
        timer = threading.Timer(LATER_S, collapse)
        timer.daemon = True
        timer.start()


def _is_wanted() -> bool:
    return "glibc.malloc.hugetlb=1" in os.environ.get("GLIBC_TUNABLES", "").split(":")


def _mappings(text: str) -> Iterator[tuple[int, int]]:
    """Return the mappings that are used nearly whole."""
    found: tuple[int, int] | None = None
    for line in text.splitlines():
        if line.startswith("Rss:") and found is not None:
            begin, end = found
            if int(line.split()[1]) * 1024 >= USED_SHARE * (end - begin):
                yield found
        elif _HEAD.match(line):
            plain = _ANONYMOUS.fullmatch(line)
            found = (int(plain[1], 16), int(plain[2], 16)) if plain else None
