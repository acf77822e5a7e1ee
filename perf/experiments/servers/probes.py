"""What servers in front of the same application do with requests that are not plain, and how their answers differ."""

import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection
from ssl import SSLContext
from typing import NamedTuple

SILENCE_S = 12.0  # longest wait for a server to end an unfinished head: ours does after 10 s
ENDLESS_BYTES = 2 * 1024 * 1024  # of a head that never ends; more than any server here takes
_BLOCK = 4_096
_READ_S = 2.0  # longest wait for an answer that should come at once
_HOST = b"Host: 127.0.0.1\r\n"
_JSON = b"Content-Type: application/json\r\n"
_UNLIKE = frozenset({"date"})  # fields that no two answers share


class Answer(NamedTuple):
    """An answer: its fields by lower-case name."""

    status: int
    fields: Mapping[str, str]
    body: bytes


def ask(address: tuple[str, int], path: str, fields: Mapping[str, str], tls: SSLContext | None = None) -> Answer:
    """GET a path, and return what was answered."""
    connection = (
        HTTPSConnection(*address, timeout=_READ_S, context=tls) if tls else HTTPConnection(*address, timeout=_READ_S)
    )
    try:
        connection.request("GET", path, headers=dict(fields))
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def refusals(address: tuple[str, int]) -> dict[str, str]:
    """Return what a server says to requests that are not plain, in words. Takes up to ``SILENCE_S``."""
    return {
        "no HTTP at all": _answer(address, [b"nonsense\r\n\r\n"]),
        "a field of 64 KiB": _answer(address, [b"GET /ping HTTP/1.1\r\n", _HOST, b"X: " + b"a" * 65_536 + b"\r\n\r\n"]),
        "101 fields": _answer(address, [b"GET /ping HTTP/1.1\r\n", _HOST, b"X: a\r\n" * 100, b"\r\n"]),
        "a body of 65 KiB": _answer(
            address,
            [b"POST /api/v1/access/signin HTTP/1.1\r\n", _HOST, _JSON, b"Content-Length: 66560\r\n\r\n", b"a" * 66_560],
        ),
        "a head without end": _endless(address),
        "half a head, then silence": _silence(address),
    }


def differences(wanted: Answer, seen: Answer) -> list[str]:
    """Return what tells two answers to the same request apart: both must have the same X-Request-ID."""
    found = [f"status {seen[0]}"] if seen[0] != wanted[0] else []
    found += ["body"] if seen[2] != wanted[2] else []
    for name in sorted(wanted[1].keys() | seen[1].keys()):
        if name not in _UNLIKE and seen[1].get(name) != wanted[1].get(name):
            found.append(f"{name}: {seen[1].get(name, 'missing')}")
    return found


def _answer(address: tuple[str, int], pieces: Sequence[bytes]) -> str:
    """Send and say what came back: the status and the kind of body."""
    with socket.create_connection(address, timeout=_READ_S) as connection:
        with suppress(OSError):  # it answered and closed before it had everything
            for piece in pieces:
                connection.sendall(piece)
        return _described(connection)


def _endless(address: tuple[str, int]) -> str:
    """Send one field that does not end, until the server has had enough."""
    with socket.create_connection(address, timeout=_READ_S) as connection:
        sent = connection.send(b"GET /ping HTTP/1.1\r\n" + _HOST + b"X: ")
        connection.setblocking(False)
        while sent < ENDLESS_BYTES:
            try:
                sent += connection.send(b"a" * _BLOCK)
            except BlockingIOError:
                pass
            except OSError:
                return f"refused after {sent // 1024} KiB: closed"
            time.sleep(0.001)  # the server reads meanwhile: what it took is what is counted
            try:
                connection.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                continue
            except OSError:
                return f"refused after {sent // 1024} KiB: closed"
            connection.settimeout(_READ_S)
            return f"refused after {sent // 1024} KiB: {_described(connection)}"
    return f"takes {sent // 1024} KiB and more"


def _silence(address: tuple[str, int]) -> str:
    """Send half a head and say how long the server waits for the rest."""
    with socket.create_connection(address, timeout=SILENCE_S) as connection:
        connection.sendall(b"GET /ping HTTP/1.1\r\nHost: 127")
        began = time.monotonic()
        try:
            connection.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return f"still waits after {SILENCE_S:.0f} s"
        except OSError:
            return f"closed after {time.monotonic() - began:.0f} s"
        return f"{_described(connection)} after {time.monotonic() - began:.0f} s"


def _described(connection: socket.socket) -> str:
    data = b""
    try:
        while b"\r\n\r\n" not in data and (piece := connection.recv(65_536)):
            data += piece
    except OSError:
        pass  # reset after the answer, or silence: what there is tells which
    if not data.startswith(b"HTTP/1."):
        return "closed without an answer"
    head = data.partition(b"\r\n\r\n")[0].lower().decode("latin1")
    kind = next((line.partition(":")[2].strip() for line in head.split("\r\n") if line.startswith("content-type:")), "")
    return f"{head[9:12]} {kind or 'without a body'}"
