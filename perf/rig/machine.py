"""What a result depends on apart from the code: processor, cores, kernel, versions, commit, storage."""

import os
import platform
import re
import sqlite3
import subprocess
from importlib.metadata import version
from pathlib import Path

import msgspec

from ironauth.infrastructure.hashing.argon2_build import build

QUIET_CORES = 0.15  # kept busy by others; more is reported. The kernel's network work alone shows as up to 0.1
_PACKAGES = (
    "Django", "djangorestframework", "adrf", "uvicorn", "uvloop", "httptools", "msgspec", "joserfc",
    "argon2-cffi", "argon2-cffi-bindings", "pynacl", "structlog",
)  # fmt: skip


class Machine(msgspec.Struct, frozen=True):
    """A description a reader needs before comparing figures."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    huge_pages: str
    load_average: float
    python: str
    versions: dict[str, str]
    commit: str


def describe(root: Path) -> Machine:
    """Describe this machine and the checkout at ``root``; unknown parts say "unknown"."""
    return Machine(
        cpu=_first(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo")),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        kernel=platform.release(),
        huge_pages=_first(r"\[(\w+)\]", Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        load_average=os.getloadavg()[0],
        python=platform.python_version(),
        versions={name: version(name) for name in _PACKAGES} | {"SQLite": sqlite3.sqlite_version, "Argon2 by": build()},
        commit=_commit(root),
    )


def file_system(path: Path) -> str:
    """Return the type of the file system ``path`` is on, e.g. "ext4" or "tmpfs"."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        mount, fs_type = line.split()[1:3]
        if path.resolve().is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, fs_type
    return kind


def _first(pattern: str, path: Path) -> str:
    match = re.search(pattern, path.read_text()) if path.exists() else None
    return match.group(1).strip() if match else "unknown"


def _commit(root: Path) -> str:
    head = _git(root, "rev-parse", "--short=12", "HEAD")
    if not head:
        return "not committed yet"
    # Results written by the run before are no change of what is measured.
    changed = _git(root, "status", "--porcelain", "--", ".", ":!perf/results", ":!docs/performance")
    return f"{head} + uncommitted changes" if changed else head


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
