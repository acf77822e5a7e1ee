"""The least of HTTP/1.1 a load generator needs: one complete response out of the bytes received so far."""

from typing import NamedTuple

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
