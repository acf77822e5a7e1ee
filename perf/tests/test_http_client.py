"""The response parser, on responses whole, split and broken."""

import pytest

from perf.http_client import MAX_HEAD, Response, ResponseError, parse_response

PLAIN = b"HTTP/1.1 200 OK\r\ndate: now\r\nContent-Length: 5\r\nx-last: 1\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=1\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"


def test_a_whole_response_is_read() -> None:
    """Status and body come out, and the connection may be used again."""
    assert parse_response(PLAIN) == Response(200, b"hello", keep_alive=True)


@pytest.mark.parametrize("data", [PLAIN, CHUNKED], ids=["length", "chunked"])
def test_every_proper_beginning_is_incomplete(data: bytes) -> None:
    """However the network cuts a response, no part of it is taken for the whole."""
    assert [parse_response(data[:size]) for size in range(len(data))] == [None] * len(data)


def test_a_chunked_body_is_joined() -> None:
    """Chunks, with an extension on the first, become one body."""
    assert parse_response(CHUNKED) == Response(200, b"hello world", keep_alive=True)


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_statuses_without_a_body_end_with_the_head(status: bytes) -> None:
    """204 and 304 never have a body, even where a length is given (RFC 9112 §6.3)."""
    response = parse_response(b"HTTP/1.1 " + status + b"\r\ncontent-length: 9\r\n\r\n")
    assert response == Response(int(status[:3]), b"", keep_alive=True)


def test_a_closing_server_is_noticed() -> None:
    """Connection: close, in any case, says that the connection must not be reused."""
    response = parse_response(b"HTTP/1.1 503 Busy\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n")
    assert response == Response(503, b"", keep_alive=False)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nmore",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * MAX_HEAD,
    ],
)
def test_what_is_no_usable_response_is_refused(data: bytes) -> None:
    """A broken answer is an error, never a silent success or an endless wait."""
    with pytest.raises(ResponseError):
        parse_response(data)
