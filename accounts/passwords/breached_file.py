"""Making the list of breached passwords, in memory that does not grow with it: sorted pieces on disk, then merged."""

import heapq
import itertools
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from accounts.passwords.breached import MAGIC, RECORD_BYTES, prefix_of

PIECE: Final = 500_000  # records sorted in memory at a time: 100 MiB
#: Records read at a time from each piece while merging: 32 KiB; the two thousand pieces of a billion take 64 MiB.
READ_AHEAD: Final = 4_096
LONGEST_LINE: Final = 4_096  # bytes; the longest password, 1,024 code points, has as many in UTF-8
#: SHA-1 in hexadecimal, with or without the count of "Pwned Passwords".
_HASH: Final = re.compile(rb"([0-9A-Fa-f]{40})(?::([0-9]+))?")


class _Run(NamedTuple):
    """A sorted stretch of the file of pieces; first and one past the last record."""

    start: int
    end: int


def records(source: BinaryIO, *, seen_at_least: int = 1) -> Iterator[bytes]:
    """Yield the record of each line: a SHA-1 in hexadecimal with or without ``:count``, or a password.

    A line that is no UTF-8 is taken for Latin-1, and one longer than any password is left out.

    Args:
        source: The lines.
        seen_at_least: Leaves out hashes with a smaller count.
    """
    for line in _lines(source):
        hashed = _HASH.fullmatch(line)
        if hashed is None:
            yield prefix_of(_text(line))
        elif hashed[2] is None or int(hashed[2]) >= seen_at_least:
            yield bytes.fromhex(hashed[1][: 2 * RECORD_BYTES].decode())


def build(found: Iterable[bytes], target: Path) -> int:
    """Write the list of these records to ``target``, in place of the one there in one step; return how many it has.

    Needs twice the list's size on its disk: 16 bytes for each password. When it fails, or there is no record, the list
    there stays.

    Args:
        found: Records, as ``records`` yields them, in any order and with repetitions.
        target: The path of the list.
    """
    new = target.with_name(f"{target.name}.{os.getpid()}")
    with tempfile.TemporaryFile(dir=target.parent) as pieces:
        runs = _sorted_runs(iter(found), pieces)
        pieces.flush()
        if not runs:
            return 0
        try:
            count = _merge(pieces, runs, new)
            new.replace(target)
        finally:
            new.unlink(missing_ok=True)
    return count


def _merge(pieces: BinaryIO, runs: Iterable[_Run], new: Path) -> int:
    """Write the records of all runs to ``new`` in order, each once; return how many there are."""
    count = 0
    with new.open("wb") as file:
        file.write(MAGIC)
        for record, _ in itertools.groupby(heapq.merge(*(_read(pieces, run) for run in runs))):
            file.write(record)
            count += 1
        file.flush()
        os.fsync(file.fileno())
    return count


def _sorted_runs(found: Iterator[bytes], pieces: BinaryIO) -> list[_Run]:
    """Write the records to ``pieces`` in sorted runs. What comes in order, as "Pwned Passwords" does, is one run."""
    runs: list[_Run] = []
    last = b""
    while piece := sorted(set(itertools.islice(found, PIECE))):
        pieces.write(b"".join(piece))
        if runs and piece[0] >= last:
            runs[-1] = _Run(runs[-1].start, runs[-1].end + len(piece))
        else:
            start = runs[-1].end if runs else 0
            runs.append(_Run(start, start + len(piece)))
        last = piece[-1]
    return runs


def _read(pieces: BinaryIO, run: _Run) -> Iterator[bytes]:
    for start in range(run.start, run.end, READ_AHEAD):
        size = (min(start + READ_AHEAD, run.end) - start) * RECORD_BYTES
        block = os.pread(pieces.fileno(), size, start * RECORD_BYTES)
        yield from (block[at : at + RECORD_BYTES] for at in range(0, size, RECORD_BYTES))


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that are neither empty nor too long, without their ends."""
    whole = True  # False in the middle of a line that is too long
    while part := source.readline(LONGEST_LINE + 2):
        ended = part.endswith(b"\n")
        line = part.rstrip(b"\r\n")
        if whole and line and len(line) <= LONGEST_LINE and (ended or len(part) < LONGEST_LINE + 2):
            yield line
        whole = ended


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")
