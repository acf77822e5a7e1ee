"""Argon2 in a process beside this one, so that its memory holds up no thread of the server.

A run of Argon2 maps 64 MiB, fills them and gives them back. While the kernel does that, no other thread of the same
process gets new memory. One that waits for it with the interpreter's lock stops all of them, the event loop too. The
record is docs/decisions/hashing-apart.md; `child` is what runs there.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from ironauth.infrastructure.hashing import argon2, child
from ironauth.infrastructure.hashing.argon2 import Argon2Failure, Run

#: What the process gets of the environment: how memory is given, and where libraries are. No secret.
INHERITED: Final = ("GLIBC_TUNABLES", "LD_LIBRARY_PATH")
#: Seconds within which it says that it is ready, on a machine that is busy.
_READY_S: Final = 20.0
#: Seconds within which it ends once its lines are closed; what it computes meanwhile takes a tenth of one.
_END_S: Final = 5.0
_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from ironauth.infrastructure.hashing.child import main; main(sys.argv[2:])"
)


class _Lost(Exception):
    """The process has ended, or did not begin."""


class _Child:
    """One process, and a line to it for each thread of the pool."""

    def __init__(self, threads: int, nice: int) -> None:
        """Start the process, and wait until it is ready.

        Raises:
            _Lost: It could not be started.
        """
        pairs = [socket.socketpair() for _ in range(threads)]
        self._lines = [ours for ours, _ in pairs]
        theirs = [there.fileno() for _, there in pairs]
        arguments = [json.dumps(sys.path), argon2.choice().library.name, str(nice), *map(str, theirs)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and numbers
                [sys.executable, "-I", "-c", _PROGRAM, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=theirs,
                env={name: os.environ[name] for name in INHERITED if name in os.environ},
            )
        except OSError as error:
            raise _Lost from error
        finally:
            for _, there in pairs:
                there.close()
        self._free: SimpleQueue[socket.socket] = SimpleQueue()
        try:
            for line in self._lines:
                line.settimeout(_READY_S)
                line.recv(1, socket.MSG_PEEK)
                line.settimeout(None)
                child.receive(line.fileno())
                self._free.put(line)
        except (EOFError, OSError) as error:
            self.end()
            raise _Lost from error

    def ask(self, request: bytes) -> bytes:
        """Return the answer to one request.

        Raises:
            _Lost: The process has ended.
        """
        line = self._free.get()
        answer = None
        try:
            child.send(line.fileno(), request)
            answer = child.receive(line.fileno())
        except (EOFError, OSError) as error:
            raise _Lost from error
        finally:
            if answer is None:  # whatever happened: nobody else may read what was meant for this request
                _shut_down(line)
            self._free.put(line)  # also one that is shut down: the next to use it finds out at once
        return answer

    def end(self) -> None:
        """Shut the lines down, at which the process ends, and wait for that."""
        for line in self._lines:
            _shut_down(line)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __del__(self) -> None:
        """Close the lines. ``end`` must not: a thread that writes to one then might write to another file."""
        for line in self._lines:
            line.close()


def _shut_down(line: socket.socket) -> None:
    with suppress(OSError):  # the other end has gone
        line.shutdown(socket.SHUT_RDWR)


class HashProcess:
    """Computes Argon2 in a process that is started when it is first needed, and anew when it was lost. Thread-safe."""

    def __init__(self, threads: int, nice: int) -> None:
        """Prepare it.

        Args:
            threads: How many threads may ask at once.
            nice: Niceness of the process's threads; 0 leaves them alone.
        """
        self._threads = threads
        self._nice = nice
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def compute(self, run: Run) -> bytes:
        """Return the result of one run. One whose process was lost is computed once more, in a new one.

        Raises:
            MemoryError: The system has no memory for it, or for the process.
            Argon2Failure: Argon2 refuses the parameters.
        """
        request = child.packed(run)
        for _ in range(2):
            asked = None
            try:
                asked = self._running()
                answer = asked.ask(request)
            except _Lost:
                self._forget(asked)
                continue
            kind, rest = answer[:1], answer[1:]
            if kind == child.HASH:
                return rest
            if kind == child.REFUSED:
                raise Argon2Failure(rest.decode())
            break
        raise MemoryError

    def close(self) -> None:
        """End the process; a later run starts a new one."""
        self._forget(self._child)

    def _running(self) -> _Child:
        with self._lock:
            if self._child is None:
                self._child = _Child(self._threads, self._nice)
            return self._child

    def _forget(self, lost: _Child | None) -> None:
        with self._lock:
            if lost is None or self._child is not lost:
                return
            self._child = None
        lost.end()
