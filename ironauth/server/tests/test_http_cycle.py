"""Our cycle writes what Uvicorn's writes, to the byte, and refuses what it refuses."""

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from ironauth.infrastructure.core.asgi_types import WHOLE_ANSWER
from ironauth.server import response as http_cycle
from ironauth.server.response import FastResponseCycle

LENGTH = (b"Content-Length", b"2")
JSON = (b"content-type", b"application/json")
CHUNKED = (b"Transfer-Encoding", b"chunked")


class Wire(asyncio.Transport):
    """Collects what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        """Take the bytes."""
        self.written.append(bytes(data))

    def close(self) -> None:
        """Note the end."""
        self.closed = True

    def is_closing(self) -> bool:
        """Return whether it has been closed."""
        return self.closed

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""


def head(*fields: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    """Return the first message of a response."""
    return {"type": "http.response.start", "status": status, "headers": list(fields)}


def body(content: bytes = b"", *, more: bool = False) -> dict[str, Any]:
    """Return another one."""
    return {"type": "http.response.body", "body": content, "more_body": more}


async def outcome(
    kind: type[RequestResponseCycle], messages: list[dict[str, Any]], *, method: str, keep_alive: bool
) -> tuple[bytes, bool, bool, int, str]:
    """Send the messages; return the bytes, whether closed, complete, how often told so, and the first error."""
    wire = Wire()
    told: list[int] = []
    cycle = kind(
        scope={"type": "http", "method": method, "headers": [], "path": "/"},  # type: ignore[typeddict-item]
        transport=wire,
        flow=FlowControl(wire),
        logger=logging.getLogger("test"),
        access_logger=logging.getLogger("test"),
        access_log=False,
        default_headers=[(b"date", b"Sat, 21 Nov 2026 08:00:00 GMT")],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: told.append(1),
    )
    cycle.more_body = False
    error = ""
    for message in messages:
        try:
            await cycle.send(message)  # type: ignore[arg-type]
        except RuntimeError as raised:
            error = str(raised)
            break
    return b"".join(wire.written), wire.closed, cycle.response_complete, len(told), error


CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "whole": [head(JSON, LENGTH), body(b"ok")],
    "again, from kept lines": [head(JSON, LENGTH), body(b"ok")],
    "upper case": [head((b"Content-Type", b"application/json"), LENGTH), body(b"ok")],
    "in parts": [head(LENGTH), body(b"o", more=True), body(b"k")],
    "empty": [head((b"content-length", b"0")), body()],
    "no content": [head(status=204), body()],
    "not modified": [head(JSON, status=304), body()],
    "chunked by default": [head(JSON), body(b"ok")],
    "chunked in parts": [head(CHUNKED), body(b"o", more=True), body(b"", more=True), body(b"k")],
    "both framings": [head(LENGTH, CHUNKED), body(b"ok")],
    "close": [head((b"Connection", b"keep-alive, Close"), LENGTH), body(b"ok")],
    "other connection option": [head((b"connection", b"x"), LENGTH), body(b"ok")],
    "without fields": [{"type": "http.response.start", "status": 200}, {"type": "http.response.body"}],
    "too long": [head(LENGTH), body(b"okay")],
    "too short": [head(LENGTH), body(b"o")],
    "body first": [body(b"ok")],
    "head twice": [head(LENGTH), head(LENGTH)],
    "after the end": [head(LENGTH), body(b"ok"), body(b"more")],
    "name with a line break": [head((b"x\r\ny", b"1"), LENGTH), body(b"ok")],
    "value with a line break": [head((b"content-type", b"a\r\nset-cookie: b=c"), LENGTH), body(b"ok")],
    "fields as lists": [
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [[b"content-type", b"a/b"], [b"content-length", b"2"]],
        },
        body(b"ok"),
    ],
}


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_the_bytes_are_uvicorns(name: str, method: str, keep_alive: bool) -> None:
    """Twice, so that lines are made and then found; the head alone is not sent when no body follows."""
    theirs = await outcome(RequestResponseCycle, CONVERSATIONS[name], method=method, keep_alive=keep_alive)
    for _ in range(2):
        ours = await outcome(FastResponseCycle, CONVERSATIONS[name], method=method, keep_alive=keep_alive)
        assert ours[1:] == theirs[1:]
        assert ours[0] == theirs[0] or (ours[4] and theirs[0].startswith(ours[0]))


async def test_head_and_body_are_one_write() -> None:
    """One system call instead of two."""
    wire_lengths = []
    for kind in (RequestResponseCycle, FastResponseCycle):
        wire = Wire()
        cycle = kind(
            {"type": "http", "method": "GET"},  # type: ignore[typeddict-item]
            wire, FlowControl(wire), logging.getLogger("test"), logging.getLogger("test"), False, [],
            asyncio.Event(), False, True, lambda: None,
        )  # fmt: skip
        await cycle.send(head(LENGTH))  # type: ignore[arg-type]
        await cycle.send(body(b"ok"))  # type: ignore[arg-type]
        wire_lengths.append(len(wire.written))
    assert wire_lengths == [2, 1]


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("content", [b"ok", b"x" * (http_cycle.JOINED_BYTES + 1)])
async def test_a_whole_answer_has_the_bytes_of_its_two_messages(content: bytes, method: str, keep_alive: bool) -> None:
    """Its lines were made before; everything else about the answer is as ever."""
    length = b"%d" % len(content)
    lines = b"content-type: application/json\r\ncontent-length: %s\r\n" % length
    whole = {"type": WHOLE_ANSWER, "status": 200, "lines": lines, "body": content}
    messages = [head(JSON, (b"content-length", length)), body(content)]
    expected = await outcome(FastResponseCycle, messages, method=method, keep_alive=keep_alive)
    assert await outcome(FastResponseCycle, [whole], method=method, keep_alive=keep_alive) == expected
    again = await outcome(FastResponseCycle, [whole, whole], method=method, keep_alive=keep_alive)
    assert again[:4] == expected[:4]  # one answer, whatever follows
    assert again[4]


def made_cycle(wire: Wire) -> FastResponseCycle:
    """Return the cycle of a GET whose answer goes to ``wire``."""
    return FastResponseCycle(
        {"type": "http", "method": "GET"},  # type: ignore[typeddict-item]
        wire, FlowControl(wire), logging.getLogger("test"), logging.getLogger("test"), False, [],
        asyncio.Event(), False, True, lambda: None,
    )  # fmt: skip


@pytest.mark.parametrize("more_body", [True, False])
@pytest.mark.parametrize("parts", [[body(b"ok")], [body(b"o", more=True), body(b"k")]])
async def test_a_last_answer_closes_unless_more_of_the_body_comes(parts: list[dict[str, Any]], more_body: bool) -> None:
    """Closing with data unread would reset the connection: then it is left to who is told of the answer's end."""
    wire = Wire()
    cycle = made_cycle(wire)
    cycle.more_body, cycle.keep_alive = more_body, False
    for message in (head(LENGTH), *parts):
        assert (wire.closed, cycle.body_left) == (False, False)
        await cycle.send(message)
    assert cycle.response_complete
    assert (wire.closed, cycle.body_left) == (not more_body, more_body)


async def test_a_client_that_has_left_gets_no_whole_answer() -> None:
    """Nothing is written to a connection that is gone."""
    wire = Wire()
    cycle = made_cycle(wire)
    cycle.disconnected = True
    await cycle.send({"type": WHOLE_ANSWER, "status": 200, "lines": b"", "body": b""})
    assert wire.written == []


def test_kept_lines_are_bounded_and_hold_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application that invents values gets its lines made each time; what may be secret is never kept."""
    monkeypatch.setattr(http_cycle, "_kept", {})
    for number in range(http_cycle.MAX_KEPT + 10):
        http_cycle.line(b"Content-Type", b"text/%d" % number)
    for name in (b"set-cookie", b"x-auth-subject", b"location", b"x-request-id", b"www-authenticate"):
        http_cycle.line(name, b"value")
    assert len(http_cycle._kept) == http_cycle.MAX_KEPT
    assert {name for name, _ in http_cycle._kept} == {b"content-type"}
