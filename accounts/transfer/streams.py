"""Reading large files a record at a time: JSON arrays, JSON lines and CSV. Memory does not grow with the file."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TextIO

from accounts.transfer.records import MalformedError

_CHUNK: Final = 1 << 16  # characters
MAX_VALUE: Final = 1 << 24  # characters of one value; a realm's settings have about 10^5
_SPACE: Final = " \t\r\n"


class _Reader:
    """The next token of a JSON text that is read in chunks."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._decode = json.JSONDecoder().raw_decode

    def _more(self, chunk: int = _CHUNK) -> bool:
        more = self._file.read(chunk)
        self._text += more
        return bool(more)

    def peek(self) -> str:
        """Return the next character that is no white space; empty at the end."""
        while True:
            self._text = self._text.lstrip(_SPACE)
            if self._text or not self._more():
                return self._text[:1]

    def take(self, expected: str) -> None:
        """Skip ``expected``; raises ``MalformedError`` where something else comes."""
        if self.peek() != expected:
            raise MalformedError(f"The file is not JSON: expected {expected!r}, found {self.peek() or 'its end'!r}.")
        self._text = self._text[1:]

    def value(self) -> Any:
        """Return the next value; raises ``MalformedError``."""
        self.peek()
        chunk = _CHUNK
        while True:
            try:
                found, end = self._decode(self._text)
            except json.JSONDecodeError as error:
                # Where the text breaks off, more of it may help; each time as much again, so that the time is linear.
                if len(self._text) > MAX_VALUE or not self._more(chunk):
                    raise MalformedError(f"The file is not JSON: {error.msg}.") from error
                chunk = max(chunk, len(self._text))
                continue
            if end == len(self._text) and self._more():
                continue  # a number may go on
            self._text = self._text[end:]
            return found


def array_of(file: TextIO, *keys: str) -> Iterator[Any]:
    """Yield the elements of a JSON array: of the file itself, or of the first of ``keys`` in the file's object.

    Args:
        file: Read piece by piece, never whole.
        *keys: Names under which an export may hold its array.

    Raises:
        MalformedError: The file is not JSON, or has no such array.
    """
    reader = _Reader(file)
    if reader.peek() == "[":
        yield from _elements(reader)
        return
    reader.take("{")
    while reader.peek() != "}":
        name = reader.value()
        reader.take(":")
        if name in keys and reader.peek() == "[":
            yield from _elements(reader)
            return
        reader.value()
        if reader.peek() == ",":
            reader.take(",")
    raise MalformedError(f"The file has no list {' or '.join(map(repr, keys))}: is it an export of this system?")


def _elements(reader: _Reader) -> Iterator[Any]:
    reader.take("[")
    while reader.peek() != "]":
        yield reader.value()
        if reader.peek() != "]":
            reader.take(",")


def lines_of(file: TextIO) -> Iterator[Any]:
    """Yield the object of each line; ``None`` for a line that is not JSON."""
    for line in file:
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError:
                yield None


def rows_of(file: TextIO) -> Iterator[dict[str, Any]]:
    """Yield each row of a CSV file with a header."""
    csv.field_size_limit(MAX_VALUE)
    yield from csv.DictReader(file)


def records_of(path: Path, *keys: str) -> Iterator[Any]:
    """Yield the records of a file by what it is: CSV by its name, a JSON array, an object with one, or JSON lines.

    Args:
        path: The file.
        *keys: Names under which an export may hold its array.

    Raises:
        MalformedError: It is none of them.
        OSError: It cannot be read.
        UnicodeDecodeError: It is not UTF-8.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        if path.suffix.lower() == ".csv":
            yield from rows_of(file)
            return
        first = file.readline(_CHUNK)
        file.seek(0)
        yield from lines_of(file) if _is_whole_object(first, keys) else array_of(file, *keys)


def _is_whole_object(line: str, keys: tuple[str, ...]) -> bool:
    """Tell whether the first line is one record, as in JSON lines, and no object that holds the list."""
    try:
        found = json.loads(line)
    except ValueError:
        return False
    return isinstance(found, dict) and not any(isinstance(found.get(key), list) for key in keys)
