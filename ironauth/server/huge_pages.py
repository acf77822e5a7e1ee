"""Transparent huge pages for malloc; imports nothing of Django, so that it runs before seconds were spent on that."""

import os
import signal
import sys

TUNABLE = "glibc.malloc.hugetlb"
INTERRUPT = frozenset({signal.SIGINT})


def use_huge_pages() -> None:
    """Start this process again with transparent huge pages for malloc, once, where glibc offers them.

    Argon2id walks 64 MiB at random and spends a quarter of its time on TLB misses with 4 KiB pages: 138 ms became
    100 ms a hash (design §2). glibc reads its tunables before ``main``, so nothing short of a new ``exec`` sets them.
    Other tunables are kept, and one that sets ``hugetlb`` itself, even to 0, is respected. Where there is no glibc
    (musl, macOS) nothing happens; before glibc 2.35 the tunable is unknown and ignored.

    SIGINT waits from here on until ``unblock_interrupts``: the new interpreter would print a traceback while it begins.
    """
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    if TUNABLE in tunables or not _is_glibc():
        return
    os.environ["GLIBC_TUNABLES"] = ":".join(filter(None, [tunables, f"{TUNABLE}=1"]))
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPT)  # a mask outlives exec
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this very command, no shell


def unblock_interrupts() -> None:
    """Let SIGINT through again, one that has waited too."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPT)


def _is_glibc() -> bool:
    """Return whether the C library is the GNU one (``confstr`` knows the name nowhere else)."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (ValueError, OSError):
        return False
