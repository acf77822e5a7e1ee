"""Figures that outlive their process: a file for each worker, written anew ten times a second.

No process waits for another. When a worker is killed, its figures are there but for the last tenth of a second. A
file's lock (``flock``) ends with its process however that ends; the next worker takes the file over and counts on. So
no counter ever goes backwards, and a restart leaves no file behind.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

#: Counts by the name of a metric and the values of its labels: one, or a histogram's.
type Series = dict[tuple[str, ...], list[int]]

LOCK_SUFFIX: Final = ".lock"
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - memory: written to ten times a second
_decoder: Final = msgspec.msgpack.Decoder(list[tuple[tuple[str, ...], list[int]]])


class Figures(msgspec.Struct, frozen=True):
    """What a worker has counted; ``alive``: its process runs."""

    number: int
    alive: bool
    series: Series


class FiguresFile:
    """The file of one worker, that of no other living one."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.lock = lock  # a file descriptor; open as long as we live

    def read(self) -> Series:
        """Return what was written last, by this worker or one before it."""
        return _read(self.path)

    def write(self, series: Series) -> None:
        """Replace what is in the file; a reader sees the one or the other. A full disk keeps what was there."""
        new = self.path.with_suffix(".new")
        with suppress(OSError):
            new.write_bytes(msgspec.msgpack.encode(list(series.items())))
            new.replace(self.path)


def claim(folder: Path) -> FiguresFile:
    """Return the file of the lowest number in ``folder`` that no living process has.

    Raises:
        OSError: The folder cannot be written to.
    """
    number = 0
    while True:
        path = folder / str(number)
        lock = os.open(path.with_suffix(LOCK_SUFFIX), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            number += 1
            continue
        return FiguresFile(path, lock)


def read_all(folder: Path) -> list[Figures]:
    """Return the figures of every worker that counts, or counted, in ``folder``, by their numbers."""
    locks = sorted(folder.glob(f"*{LOCK_SUFFIX}"), key=lambda path: int(path.stem))
    return [Figures(int(lock.stem), _is_locked(lock), _read(lock.with_suffix(""))) for lock in locks]


@contextmanager
def shared_folder() -> Iterator[Path]:
    """Make a folder (mode 0700) in memory, or where temporary files go, and remove it in the end.

    Raises:
        OSError: It cannot be made.
    """
    place = SHARED_MEMORY if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="ironauth-metrics-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path) -> Series:
    try:
        return dict(_decoder.decode(path.read_bytes()))
    except FileNotFoundError:  # its worker has just begun
        return {}


def _is_locked(path: Path) -> bool:
    """Return whether a living process has the file; a worker that looks for one just now takes another."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
