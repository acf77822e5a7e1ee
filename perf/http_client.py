"""The laboratory's HTTP/1.1: how a response is read, and one keep-alive connection for clients that need its fields.

The load generators of ``perf.load`` send prepared bytes and read with ``parse_response`` alone; ``perf.limits.client``
is rude on purpose, and the swarm has Locust's client. Everything else uses ``Connection``.
"""

import asyncio
import ipaddress
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

import msgspec

ANSWER_S = 15.0  # longest wait for an answer: the server sheds what takes it over 4 s
CHUNK = 65_536  # bytes read at once
MAX_HEAD = 16_384  # bytes; what the server's own guard allows a request head
FIRST_FINAL = 200  # RFC 9110 §15.2: interim (1xx) responses are only sent when asked for
NO_BODY = (204, 304)  # RFC 9112 §6.3: never a body, whatever the fields say
_STATUS_LINE = 13  # bytes: b"HTTP/1.1 200 "


class ResponseError(Exception):
    """The peer sent something that is not a response this client understands."""


class Response(NamedTuple):
    """One whole answer; ``keep_alive`` tells whether the connection may carry the next request."""

    status: int
    body: bytes
    keep_alive: bool


def parse_response(data: bytes) -> Response | None:
    """Return the response in ``data``, or None while it is incomplete.

    A request is sent only after the answer to the previous one, so bytes after the response are an error
    rather than the next response.

    Raises:
        ResponseError: not HTTP/1.1, an interim (1xx) response, no usable framing, a head over
            ``MAX_HEAD``, or bytes after the end of the response.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > MAX_HEAD or not data.startswith(b"HTTP/1.1 "[: len(data)]):
            raise ResponseError("no HTTP/1.1 response head")
        return None
    status = _status(data)
    head = data[:end].lower()
    body = data[end + 4 :]
    at = head.find(b"\r\ncontent-length:")
    if status in NO_BODY:
        length = 0
    elif at >= 0:
        length = _length(head, at + 17)
    elif b"\r\ntransfer-encoding: chunked" in head:
        decoded = _dechunk(body)
        if decoded is None:
            return None
        body, length = decoded, len(decoded)
    else:
        raise ResponseError("neither Content-Length nor chunked: the end of the body is unknown")
    if len(body) < length:
        return None
    if len(body) > length:
        raise ResponseError("bytes after the end of the response")
    return Response(status, body, b"\r\nconnection: close" not in head)


def _status(data: bytes) -> int:
    """Read the status code of a final response."""
    digits = data[9:12]
    if not data.startswith(b"HTTP/1.1 ") or not digits.isdigit() or data[12:_STATUS_LINE] not in b" \r":
        raise ResponseError("not an HTTP/1.1 status line")
    if (status := int(digits)) < FIRST_FINAL:
        raise ResponseError("interim response")
    return status


def _length(head: bytes, at: int) -> int:
    """Read the Content-Length that starts at ``at``."""
    stop = head.find(b"\r\n", at)
    value = head[at : stop if stop >= 0 else len(head)].strip()
    if not value.isdigit():
        raise ResponseError("Content-Length is not a number")
    return int(value)


def _dechunk(data: bytes) -> bytes | None:
    """Join a chunked body (RFC 9112 §7.1, no trailer fields); None while incomplete."""
    parts: list[bytes] = []
    at = 0
    while True:
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            return None
        try:
            size = int(data[at:line_end].split(b";")[0], 16)
        except ValueError:
            raise ResponseError("chunk size is not a hexadecimal number") from None
        start, at = line_end + 2, line_end + 2 + size + 2
        if len(data) < at:
            return None
        if data[at - 2 : at] != b"\r\n":
            raise ResponseError("chunk does not end where its size says")
        if size == 0:
            if len(data) > at:
                raise ResponseError("bytes after the end of the response")
            return b"".join(parts)
        parts.append(data[start : at - 2])


def refuse_remote(address: tuple[str, int]) -> None:
    """Raise ``ValueError`` unless the address is loopback: a load generator must not be pointed at anybody else."""
    if not ipaddress.ip_address(address[0]).is_loopback:
        raise ValueError(f"{address[0]} is not a loopback address: this load generator only measures its own machine")


@dataclass(frozen=True)
class Reply:
    """One answer; ``fields`` by their names in lower case, with a list for those that may come several times."""

    status: int
    fields: Mapping[str, Sequence[str]]
    body: bytes

    def field(self, name: str) -> str:
        """Return the value of a field, "" when it is missing."""
        return ", ".join(self.fields.get(name, ()))

    @property
    def text(self) -> str:
        """The body's beginning, for messages."""
        return self.body[:200].decode(errors="replace")

    def json(self) -> Any:
        """Decode the body. Raises ``msgspec.DecodeError`` for what is no JSON."""
        return msgspec.json.decode(self.body)

    def cookies(self) -> dict[str, str]:
        """Return the cookies that are set, by name."""
        pairs = (line.partition(";")[0].partition("=") for line in self.fields.get("set-cookie", ()))
        return {name: value for name, _, value in pairs}


class Connection:
    """Sends a request and reads its answer; opened at the first one, and anew once it was closed, by either side."""

    reopens = True  # whether the next request may find a new connection

    def __init__(
        self, address: tuple[str, int], *, host: str = "", source: str = "", tls: ssl.SSLContext | None = None,
        patience_s: float = ANSWER_S,
    ) -> None:  # fmt: skip
        """Note where to.

        Args:
            address: of the server.
            host: the name it is asked for by, in Host and in TLS; its address without one.
            source: the address to come from, where it matters.
            tls: what is trusted; without, nothing is encrypted.
            patience_s: longest wait for an answer, the opening included.
        """
        self._address = address
        self._host = host or f"{address[0]}:{address[1]}"
        self._options: dict[str, Any] = {"local_addr": (source, 0)} if source else {}
        if tls is not None:
            self._options |= {"ssl": tls, "server_hostname": host or address[0]}
        self._patience_s = patience_s
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def usable(self) -> bool:
        """Whether it is open: neither side has closed it."""
        return self._streams is not None and not (self._streams[0].at_eof() or self._streams[1].is_closing())

    @property
    def local_port(self) -> int:
        """This end's port, by which the kernel knows an open connection; 0 for a closed one."""
        return int(self._streams[1].get_extra_info("sockname")[1]) if self._streams else 0

    async def open(self) -> None:
        """Open it. Raises ``OSError`` where nothing listens."""
        self._streams = await asyncio.open_connection(*self._address, limit=MAX_HEAD, **self._options)

    def close(self) -> None:
        """Give it up; the other end hears of it at once."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def send(
        self, method: str, target: str, *, form: Mapping[str, str] | None = None, json: object = None, token: str = "",
        fields: Mapping[str, str] | None = None,
    ) -> Reply:  # fmt: skip
        """Send a request and return the answer.

        Args:
            method: of the request.
            target: path and query.
            form: the body, as a form.
            json: the body, as JSON.
            token: an access token.
            fields: further header fields.

        Raises:
            TimeoutError: there was no whole answer in time.
            OSError: the connection was refused or lost before a byte of it.
            ResponseError: it was half an answer, or none of HTTP/1.1.
        """
        kind, body = "application/json", b"" if json is None else msgspec.json.encode(json)
        if form is not None:
            kind, body = "application/x-www-form-urlencoded", urlencode(form).encode()
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in (fields or {}).items()]
        lines += [f"Authorization: Bearer {token}"] if token else []
        lines += [f"Content-Type: {kind}"] if body else []
        lines += [f"Content-Length: {len(body)}"] if body or method != "GET" else []
        try:
            async with asyncio.timeout(self._patience_s):
                if not self.usable:
                    await self._reopen()
                reply = await self._exchange("\r\n".join([*lines, "", ""]).encode() + body)
        except BaseException:
            self.close()  # what comes later would be taken for the next answer
            raise
        if reply.field("connection") == "close":
            self.close()
        return reply

    async def _reopen(self) -> None:
        self.close()
        if not self.reopens:
            raise ConnectionResetError
        await self.open()

    async def _exchange(self, request: bytes) -> Reply:
        assert self._streams is not None
        reader, writer = self._streams
        writer.write(request)
        received = b""
        while (response := parse_response(received)) is None:
            data = await reader.read(CHUNK)
            if not data:
                raise ResponseError("half an answer") if received else ConnectionResetError
            received += data
        return Reply(response.status, _fields(received), response.body)


def _fields(received: bytes) -> dict[str, list[str]]:
    """Return the header fields of a response by their names in lower case."""
    fields: dict[str, list[str]] = {}
    for line in received.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]:  # RFC 9110 §5.5
        name, _, value = line.partition(":")
        fields.setdefault(name.lower(), []).append(value.strip())
    return fields
