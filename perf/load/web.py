"""One keep-alive connection to a loopback server, for a client that needs the header fields of its answers."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlencode

from perf.load.closed_loop import refuse_remote
from perf.load.http_response import MAX_HEAD, ResponseError

ANSWER_S = 15.0  # longest wait for an answer: the server sheds what takes it over 4 s


@dataclass(frozen=True)
class Reply:
    """One answer; ``fields`` by their names in lower case, with a list for those that may come several times."""

    status: int
    fields: Mapping[str, Sequence[str]]
    body: bytes

    def field(self, name: str) -> str:
        """Return the value of a field, "" when it is missing."""
        return ", ".join(self.fields.get(name, ()))

    def cookies(self) -> dict[str, str]:
        """Return the cookies that are set, by name."""
        pairs = (line.partition(";")[0].partition("=") for line in self.fields.get("set-cookie", ()))
        return {name: value for name, _, value in pairs}


class Connection:
    """Sends a request, reads its answer; opened at the first one, and anew after ``close``."""

    def __init__(self, address: tuple[str, int]) -> None:
        refuse_remote(address)
        self._address = address
        self._host = f"{address[0]}:{address[1]}"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection up."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def send(
        self,
        method: str,
        target: str,
        *,
        form: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request, with a form in its body unless ``form`` is None, and return the answer.

        Raises ``TimeoutError`` after ``ANSWER_S``, ``OSError`` or ``EOFError`` when the connection is lost,
        ``ResponseError`` for what is no HTTP/1.1 answer with a length.
        """
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in (fields or {}).items()]
        body = b""
        if form is not None:
            body = urlencode(form).encode()
            lines += ["Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}"]
        try:
            async with asyncio.timeout(ANSWER_S):
                if self._streams is None:
                    self._streams = await asyncio.open_connection(*self._address, limit=MAX_HEAD)
                reader, writer = self._streams
                writer.write("\r\n".join([*lines, "", ""]).encode() + body)
                reply = await _read(reader)
        except BaseException:
            self.close()
            raise
        if reply.field("connection") == "close":
            self.close()
        return reply


async def _read(reader: asyncio.StreamReader) -> Reply:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")  # RFC 9110 §5.5
    first, *lines = head[:-4].split("\r\n")
    fields: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields.setdefault(name.lower(), []).append(value.strip())
    length = fields.get("content-length", [""])[0]
    if not first.startswith("HTTP/1.1 ") or not first[9:12].isdigit() or not length.isdigit():
        raise ResponseError("no HTTP/1.1 answer with a length")
    return Reply(int(first[9:12]), fields, await reader.readexactly(int(length)))
