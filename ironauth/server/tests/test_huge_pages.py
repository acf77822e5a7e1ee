"""Starting again with huge pages, on real processes."""

import os
import signal
import subprocess
import sys

from django.conf import settings

SHOW_TUNABLES = (
    "import os; from ironauth.server import huge_pages as h; h.use_huge_pages(); print(os.environ['GLIBC_TUNABLES'])"
)


def _tunables(**environment: str) -> str:
    env = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"} | environment
    command = [sys.executable, "-c", SHOW_TUNABLES]
    return subprocess.run(
        command, env=env, cwd=settings.BASE_DIR, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_starts_itself_again_with_huge_pages() -> None:
    """Without the tunable the process replaces itself by one that has it, once."""
    assert _tunables() == "glibc.malloc.hugetlb=1"


def test_other_tunables_are_kept() -> None:
    """Tunables that the operator set stay, before ours."""
    assert _tunables(GLIBC_TUNABLES="glibc.malloc.arena_max=2") == "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1"


def test_an_operators_choice_is_respected() -> None:
    """Who switched huge pages off keeps them off."""
    assert _tunables(GLIBC_TUNABLES="glibc.malloc.hugetlb=0") == "glibc.malloc.hugetlb=0"


def test_an_interrupt_while_it_starts_again_is_kept() -> None:
    """Between the two interpreters SIGINT waits; `unblock_interrupts` delivers it."""
    script = (
        "import os, signal; from ironauth.server import huge_pages; again = 'GLIBC_TUNABLES' in os.environ\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "if again: os.kill(os.getpid(), signal.SIGINT); print('waits', flush=True); huge_pages.unblock_interrupts()\n"
        "huge_pages.use_huge_pages(); print('never')"
    )
    env = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, env=env, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (-signal.SIGINT, "waits\n")
