"""Clients with bad manners: raw connections that send what they like, when they like, and note how they end."""

import asyncio
import contextlib
import re
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from perf.http_client import refuse_remote

#: What a connection is given up after, seconds; longer than every time limit of the server.
PATIENCE_S = 100.0
_LOOK_S = 0.1
_ESTABLISHED = 1  # tcp_info.tcpi_state, its first byte: include/net/tcp_states.h of Linux
CUT_OFF, SILENT, OPEN = "cut off", "closed without a word", "still open"
STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) ")  # a problem document names HTTP/1.1 too, but no status after it


class End(NamedTuple):
    """How a connection ended: the status of its last answer, or one of the words above, and after how many seconds.

    ``answers``: how many there were; ``received``: their bytes.
    """

    how: str
    seconds: float
    answers: int = 0
    received: bytes = b""


class Rude:
    """One connection."""

    def __init__(self, made: socket.socket) -> None:
        self._socket = made
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._received = b""

    async def send(self, data: bytes) -> bool:
        """Send; False when the server has hung up."""
        try:
            await self._loop.sock_sendall(self._socket, data)
        except OSError:
            return False
        return True

    async def send_slowly(self, parts: Iterable[bytes], *, every_s: float) -> None:
        """Send part after part, a pause after each, until the server answers or hangs up."""
        for part in parts:
            if not await self.send(part):
                return
            await asyncio.sleep(every_s)
            if self.answered():
                return

    def answered(self) -> bool:
        """Return whether an answer, or the end of the connection, is here already."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) is not None
        except BlockingIOError:
            return False
        except OSError:
            return True

    async def read(self, *, size: int = 65_536) -> bytes:
        """Return the next bytes, none at the end of the connection."""
        part = await self._loop.sock_recv(self._socket, size)
        self._received += part
        return part

    @property
    def whole(self) -> bool:
        """Whether a whole answer is here."""
        return whole(self._received)

    async def end(self, *, within_s: float = PATIENCE_S) -> End:
        """Read until the server closes, at most ``within_s``."""
        try:
            async with asyncio.timeout(within_s):
                while await self.read():
                    pass
        except TimeoutError:
            return self._ended(OPEN)
        except OSError:
            return self._ended("" if self._received else CUT_OFF)
        return self._ended("")

    async def answer(self) -> End:
        """Return the first answer, as soon as the whole of it is here; else how the connection ended without one."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not whole(self._received):
                    if not await self.read():
                        break
        except TimeoutError:
            return self._ended(OPEN)
        except OSError:
            return self._ended("" if self._received else CUT_OFF)
        return self._ended("")

    async def cut_off(self, *, within_s: float = PATIENCE_S) -> End:
        """Read nothing, and return when the server has had enough of that, at most ``within_s`` later."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _ESTABLISHED:
                return self._ended(CUT_OFF)
            await asyncio.sleep(_LOOK_S)
        return self._ended(OPEN)

    def _ended(self, how: str) -> End:
        statuses = STATUS_LINE.findall(self._received)
        known = statuses[-1].decode() if statuses else SILENT
        return End(how or known, time.monotonic() - self._began, len(statuses), self._received)

    def close(self) -> None:
        """Close, whatever is under way."""
        self._socket.close()


def whole(received: bytes) -> bool:
    """Return whether a whole answer (not an interim one) is in ``received``: head, and a body of its length."""
    head, found, body = received.partition(b"\r\n\r\n")
    if not found:
        return False
    if head.startswith(b"HTTP/1.1 100 "):
        return whole(body)
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.split(b":")[1])
    return True


@contextlib.asynccontextmanager
async def connected(address: tuple[str, int], *, receive_buffer: int = 0) -> AsyncIterator[Rude]:
    """Open one connection for the block; ``receive_buffer``: bytes the kernel may keep for it (0: its own choice).

    Raises:
        ValueError: the address is not loopback.
        OSError: nobody listens.
    """
    refuse_remote(address)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        made.setblocking(False)
        if receive_buffer:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(made, address)
        yield Rude(made)


def told(ends: Sequence[End]) -> str:
    """Return how connections ended, as a table's cell: "408: 500"."""
    return ", ".join(f"{how}: {count:,}" for how, count in sorted(Counter(end.how for end in ends).items()))


def span(ends: Sequence[End]) -> str:
    """Return the first and the last end's seconds, as a table's cell."""
    if not ends:
        return ""
    return f"{min(end.seconds for end in ends):.1f} to {max(end.seconds for end in ends):.1f}"
