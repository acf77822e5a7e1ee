"""Answers of one turn of the loop leave together, and nothing overtakes them."""

import asyncio

import pytest

from ironauth.server import response as http_writes
from ironauth.server.response import WriteCoalescer

BUSY = ("one", "other")
ALONE = ("one",)


class Wire(asyncio.Transport):
    """A transport that remembers what was done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[bytes | str] = []

    def write(self, data: bytes) -> None:  # type: ignore[override] # a narrower type than asyncio's
        self.done.append(data)

    def write_eof(self) -> None:
        self.done.append("eof")

    def close(self) -> None:
        self.done.append("close")

    def is_closing(self) -> bool:
        return "close" in self.done

    def get_write_buffer_size(self) -> int:
        return 5


async def test_answers_wait_for_each_other_until_the_turn_ends() -> None:
    """None is written while others are still being made; then each connection gets its own, in one piece."""
    wires = [Wire(), Wire()]
    joined = [WriteCoalescer(wire, asyncio.get_running_loop(), BUSY) for wire in wires]
    joined[0].answer(b"a")
    joined[1].answer(b"b")
    joined[0].answer(b"c")
    assert (wires[0].done, wires[1].done) == ([], [])
    assert joined[0].get_write_buffer_size() == 7
    await asyncio.sleep(0)
    assert (wires[0].done, wires[1].done) == ([b"ac"], [b"b"])


async def test_one_request_alone_waits_for_nobody() -> None:
    """There is nothing to send it with."""
    wire = Wire()
    WriteCoalescer(wire, asyncio.get_running_loop(), ALONE).answer(b"a")
    assert wire.done == [b"a"]


async def test_no_more_than_so_many_wait() -> None:
    """A turn of the loop may be long."""
    wires = [Wire() for _ in range(http_writes.MOST_TOGETHER)]
    for wire in wires:
        assert wires[0].done == []
        WriteCoalescer(wire, asyncio.get_running_loop(), BUSY).answer(b"a")
    assert [wire.done for wire in wires] == [[b"a"]] * len(wires)


@pytest.mark.parametrize(
    ("method", "arguments", "done"),
    [("write", [b"b"], [b"a", b"b"]), ("write_eof", [], [b"a", "eof"]), ("close", [], [b"a", "close"])],
)
async def test_nothing_overtakes_an_answer(method: str, arguments: list[bytes], done: list[bytes | str]) -> None:
    """A part of a stream, an end, a close come after it; nothing is written to a closed connection."""
    wire = Wire()
    joined = WriteCoalescer(wire, asyncio.get_running_loop(), BUSY)
    joined.answer(b"a")
    getattr(joined, method)(*arguments)
    await asyncio.sleep(0)
    assert wire.done == done
    wire.close()
    before = list(wire.done)
    joined.answer(b"late")
    await asyncio.sleep(0)
    assert wire.done == before
