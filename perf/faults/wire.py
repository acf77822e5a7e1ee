"""Connections to IronAuth whose worker is known: which process answered is what the promises are about."""

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import msgspec

from perf.load.http_response import Response, ResponseError, parse_response

ANSWER_S = 10.0  # whoever waits longer has got no answer
IDLE_S = 0.4  # a server that ends closes connections that were idle for FAREWELL_S (0.5 s); less what a busy loop adds
TRIES = 12  # connections opened in the hope of another worker; the kernel chooses
CHUNK = 65_536  # bytes read at once


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


class Line:
    """One connection, kept alive; ``worker`` is the process that holds its other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._last_used = time.monotonic()
        self.worker = 0

    @property
    def usable(self) -> bool:
        """Whether the next request may go this way: nobody has closed it."""
        return not self._reader.at_eof() and not self._writer.is_closing()

    @property
    def local_port(self) -> int:
        """This end's port, by which the kernel knows the connection."""
        port: int = self._writer.get_extra_info("sockname")[1]
        return port

    async def ask(self, method: str, path: str, *, token: str = "", body: object = None) -> Answer:
        """Send one request and return its answer.

        Raises:
            LostError: the connection ended before the answer was complete, or nothing came in ``ANSWER_S``.
        """
        content = b"" if body is None else msgspec.json.encode(body)
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n"
        head += "Content-Type: application/json\r\n" if content else ""
        head += f"Authorization: Bearer {token}\r\n" if token else ""
        began = time.monotonic()
        idle_s, self._last_used = began - self._last_used, began
        try:
            async with asyncio.timeout(ANSWER_S):
                self._writer.write(head.encode() + b"\r\n" + content)
                response, retry = await self._answer()
        except TimeoutError as error:
            self.close()
            raise LostError("timeout", self.worker) from error
        except ResponseError as error:
            self.close()
            raise LostError("reset", self.worker) from error
        except OSError as error:
            self.close()
            raise LostError("idle" if idle_s > IDLE_S else "reset", self.worker) from error
        except BaseException:
            self.close()  # what comes later would be taken for the next answer
            raise
        self._last_used = time.monotonic()
        return Answer(response.status, response.body, began, time.monotonic(), self.worker, retry)

    async def _answer(self) -> tuple[Response, bool]:
        received = b""
        while (response := parse_response(received)) is None:
            data = await self._reader.read(CHUNK)
            if not data and received:
                raise ResponseError("half an answer")
            if not data:
                raise ConnectionResetError
            received += data
        if not response.keep_alive:
            self.close()
        return response, b"\r\nretry-after:" in received.partition(b"\r\n\r\n")[0].lower()

    def close(self) -> None:
        """Close it; the other end hears of it at once."""
        self._writer.transport.abort()


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
    try:
        async with asyncio.timeout(ANSWER_S):
            return Line(*await asyncio.open_connection("127.0.0.1", port))
    except (OSError, TimeoutError) as error:
        raise LostError("refused", 0) from error


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
