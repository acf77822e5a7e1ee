"""The process that `apart` starts: it computes what its lines ask for, and ends when the server has closed them.

It imports little, because its memory is paid for each worker. A line is one end of a pair of sockets. A message is its
length and its bytes; `apart` uses the functions below for its end too.
"""

import os
import signal
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from argon2.low_level import Type

from ironauth.infrastructure.hashing import argon2
from ironauth.infrastructure.hashing.argon2 import Argon2Failure, Library, Run
from ironauth.infrastructure.hashing.priority import lower_priority

#: The first byte of an answer; the rest is the hash, or the library's message.
HASH, REFUSED, NO_MEMORY = b"h", b"r", b"m"
_LENGTH: Final = struct.Struct("<I")
#: The numbers of a run, and how long its secret is; secret and salt follow.
_RUN: Final = struct.Struct("<7I")


def send(line: int, message: bytes) -> None:
    """Write one message.

    Args:
        line: A file descriptor.
        message: Its bytes.

    Raises:
        OSError: The other end is closed.
    """
    rest = memoryview(_LENGTH.pack(len(message)) + message)
    while rest:
        rest = rest[os.write(line, rest) :]


def receive(line: int) -> bytes:
    """Return the next message.

    Raises:
        EOFError: The other end is closed.
        OSError: The same.
    """
    return _exactly(line, _LENGTH.unpack(_exactly(line, _LENGTH.size))[0])


def packed(run: Run) -> bytes:
    """Return the message that asks for a run."""
    numbers = run.time_cost, run.memory_kib, run.parallelism, run.hash_len, run.variety.value, run.version
    return _RUN.pack(*numbers, len(run.secret)) + run.secret + run.salt


def unpacked(message: bytes) -> Run:
    """Return the run that a message asks for."""
    time_cost, memory_kib, parallelism, hash_len, variety, version, secret = _RUN.unpack_from(message)
    given = message[_RUN.size :]
    return Run(given[:secret], given[secret:], time_cost, memory_kib, parallelism, hash_len, Type(variety), version)


def main(arguments: Sequence[str]) -> None:
    """Compute what the lines ask for until the server has closed them.

    Args:
        arguments: The name of the library, the niceness, and the lines' file descriptors.
    """
    library, nice, *lines = arguments
    # The server ends this process by closing its lines. A signal to the whole group, as Ctrl-C is, would take the
    # hashes away from what the server still answers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    fastest = argon2.by_name(library)
    threads = [threading.Thread(target=_serve, args=(int(line), fastest, int(nice)), daemon=True) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve(line: int, library: Library, nice: int) -> None:
    refused = lower_priority(nice)
    try:
        with suppress(EOFError, OSError):  # the server has gone
            send(line, refused.encode())
            while True:
                send(line, _answer(receive(line), library))
    finally:
        os.close(line)  # whatever ended this thread: who waits for its answer hears of it


def _answer(request: bytes, library: Library) -> bytes:
    try:
        return HASH + argon2.compute(unpacked(request), library)
    except MemoryError:
        return NO_MEMORY
    except Argon2Failure as error:
        return REFUSED + str(error).encode()


def _exactly(line: int, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(line, size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
