"""Connections to IronAuth whose worker is known: which process answered is what the promises are about."""

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from perf.http_client import Connection, ResponseError

ANSWER_S = 10.0  # later, there is no answer
IDLE_S = 0.4  # a server that ends closes connections that were idle for DRAIN_S (0.5 s); less what a busy loop adds
TRIES = 12  # connections opened in the hope of another worker; the kernel chooses


class LostError(Exception):
    """No answer: ``refused``, ``reset`` (closed after the request was sent), ``idle`` or ``timeout``.

    ``idle``: reset without a byte where nothing was sent for ``IDLE_S`` before: the request and the server's closing
    passed each other, and clients try again (RFC 9112 §9.3.1). ``worker``: 0, unknown.
    """

    def __init__(self, kind: str, worker: int) -> None:
        super().__init__(kind)
        self.kind = kind
        self.worker = worker


@dataclass(frozen=True)
class Answer:
    """A whole answer; times are monotonic seconds. ``retry``: whether it says when to try again."""

    status: int
    body: bytes
    began: float
    ended: float
    worker: int
    retry: bool


class Line(Connection):
    """One connection, kept alive; ``worker`` is the process that holds its other end."""

    reopens = False  # it would be another worker's

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), patience_s=ANSWER_S)
        self._last_used = time.monotonic()
        self.worker = 0

    async def ask(self, method: str, path: str, *, token: str = "", body: object = None) -> Answer:
        """Send one request and return its answer.

        Raises:
            LostError: the connection ended before the answer was complete, or nothing came in ``ANSWER_S``.
        """
        began = time.monotonic()
        idle_s, self._last_used = began - self._last_used, began
        try:
            reply = await self.send(method, path, token=token, json=body)
        except TimeoutError as error:
            raise LostError("timeout", self.worker) from error
        except ResponseError as error:
            raise LostError("reset", self.worker) from error
        except OSError as error:
            raise LostError("idle" if idle_s > IDLE_S else "reset", self.worker) from error
        self._last_used = time.monotonic()
        return Answer(
            reply.status, reply.body, began, self._last_used, self.worker, retry=bool(reply.field("retry-after"))
        )


class Connector:
    """Opens lines to the workers behind ``ports``; ``pids`` names the processes that may hold the other ends."""

    def __init__(self, ports: Sequence[int], pids: Callable[[], list[int]]) -> None:
        self._ports = itertools.cycle(ports)
        self._pids = pids

    async def line(self, *, other_than: int = 0) -> Line:
        """Return a line that has answered /ping, to another worker than ``other_than`` where the kernel grants one.

        Raises:
            LostError: the connection was refused or ended, or /ping was not answered with 200.
        """
        line: Line | None = None
        for _ in range(TRIES):
            if line is not None:
                line.close()
            line = await self._open(next(self._ports))
            if line.worker != other_than:
                break
        if line is None:
            raise LostError("refused", 0)
        return line

    async def _open(self, port: int) -> Line:
        line = await connect(port)
        answer = await line.ask("GET", "/ping")
        if answer.status != HTTPStatus.OK:
            line.close()
            raise LostError(f"ping {answer.status}", 0)
        # By now somebody has accepted it: before, the kernel has no process for it.
        line.worker = holder(port, line.local_port, self._pids())
        return line


async def connect(port: int) -> Line:
    """Open a line to a port of this machine.

    Raises:
        LostError: nobody listens there.
    """
    line = Line(port)
    try:
        async with asyncio.timeout(ANSWER_S):
            await line.open()
    except OSError as error:
        raise LostError("refused", 0) from error
    return line


def holder(port: int, client_port: int, pids: Sequence[int]) -> int:
    """Return which of ``pids`` holds the server's end of a loopback connection, 0 when none does (proc(5))."""
    inode = ""
    ends = (f":{port:04X}", f":{client_port:04X}")
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
            inode = f"socket:[{fields[9]}]"
    return next((pid for pid in pids if inode in _open_files(pid)), 0)


def _open_files(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):  # it has ended
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed since it was listed
                found.add(str(file.readlink()))
    return found
