"""Many clients at once that are slow, silent or greedy: each kind, and how its connections must end."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

from perf.limits.boundaries import HEAD, POST
from perf.limits.client import CUT_OFF, SILENT, End, Rude, connected

PING = HEAD + b"\r\n"
LARGE = b"GET /api/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"  # 190 KB, the largest answer anybody gets
EVERY_S = 1.0  # between two bytes of a slow client
#: The server's time limits, seconds: a head, a body, between two requests, and for an answer that is not taken.
HEAD_S, BODY_S, KEEP_ALIVE_S, WRITE_S = 10.0, 10.0, 65.0, 60.0
LATE_S = 3.0  # how late an end may be: timers are exact, two busy cores are not
LITTLE = 4_096  # bytes of a receive buffer: the kernel at the other end must not take the whole answer
PIPELINED = 20  # requests of one connection that reads nothing: 4 MB of answers
BUSY_S = 15.0  # what answering those takes, and the kernel to be full of them, before anybody is waited for
FLOOD = 20_000  # requests of one connection that reads
STREAMED, PART = 16 * 2**20, 2**16  # bytes of a chunked body, and of each chunk
UNFINISHED = 400  # clients that send all of a body but its last byte
LARGEST, USUAL = 2**20, 2**16  # bytes of a body for the admin's largest form, and for anything else
STATIC = b"POST /static/ironauth/pages.css HTTP/1.1\r\nHost: 127.0.0.1\r\n"
ADMIN = b"POST /admin/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n"
type Act = Callable[[Rude], Coroutine[Any, Any, End]]
type Behave = Callable[[tuple[str, int], int], Coroutine[Any, Any, list[End]]]


@dataclass(frozen=True)
class Crowd:
    """``count`` clients that ``behave`` alike, and must end in one of ``ends`` between two moments (seconds).

    ``full``: they take every place there is, so that others may be told 503. ``busy``: they ask for more than the
    server can answer meanwhile, so that others wait their turn. ``flat``: the server's memory must not follow what they
    send.
    """

    name: str
    behave: Behave
    count: int
    ends: tuple[str, ...]
    from_s: float
    until_s: float
    slow: bool = False  # takes a minute: not for a quick run
    full: bool = False
    busy: bool = False
    flat: bool = False

    def wrong(self, ends: Sequence[End]) -> int:
        """Return how many did not end as they must."""
        late = self.until_s + LATE_S
        return sum(end.how not in self.ends or not self.from_s - 0.5 <= end.seconds <= late for end in ends)


def _each(act: Act, *, receive_buffer: int = 0) -> Behave:
    """Return clients that connect one after the other and then all act at once; one that cannot connect fails all."""

    async def behave(address: tuple[str, int], count: int) -> list[End]:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(connected(address, receive_buffer=receive_buffer)) for _ in range(count)
            ]
            return list(await asyncio.gather(*(act(client) for client in clients)))

    return behave


@_each
async def silent(client: Rude) -> End:
    """Connect and say nothing."""
    return await client.end()


@_each
async def slow_heads(client: Rude) -> End:
    """Send a head byte by byte (Slowloris)."""
    await client.send(HEAD + b"x: ")
    await client.send_slowly(repeat(b"y", 60), every_s=EVERY_S)
    return await client.end()


@_each
async def slow_bodies(client: Rude) -> End:
    """Announce a body and send it byte by byte."""
    await client.send(POST + b"Content-Length: 1000\r\n\r\n")
    await client.send_slowly(repeat(b" ", 60), every_s=EVERY_S)
    return await client.end()


@_each
async def unmet_expectations(client: Rude) -> End:
    """Ask for 100-continue, get it, and send nothing."""
    await client.send(POST + b"Expect: 100-continue\r\nContent-Length: 10\r\n\r\n")
    end = await client.end()
    return end if b"HTTP/1.1 100 Continue" in end.received else end._replace(how=f"{end.how} without 100")


@_each
async def idle(client: Rude) -> End:
    """Ask once, and keep the connection."""
    await client.send(PING)
    return await client.end()


@partial(_each, receive_buffer=LITTLE)
async def never_reading(client: Rude) -> End:
    """Ask for large answers, and read none of them."""
    await client.send(LARGE * PIPELINED)
    return await client.cut_off()


@partial(_each, receive_buffer=LITTLE)
async def slowly_reading(client: Rude) -> End:
    """Read a large answer in sips: slower than anybody's network, and not to be cut off."""
    await client.send(LARGE)
    while await client.read(size=LITTLE) and not client.whole:  # noqa: ASYNC110 - a pause, no waiting
        await asyncio.sleep(0.05)
    return await client.answer()


@_each
async def pipelining(client: Rude) -> End:
    """Send thousands of requests without waiting for answers, and read these."""
    sending = asyncio.create_task(client.send(PING * (FLOOD - 1) + HEAD + b"Connection: close\r\n\r\n"))
    end = await client.end()
    await sending
    return end if end.answers == FLOOD else end._replace(how=f"{end.how}, {end.answers:,} answers")


@_each
async def streaming(client: Rude) -> End:
    """Send a body of 16 MiB without saying how long it is, and read the answer when there is one."""
    await client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
    chunk = b"%x\r\n%s\r\n" % (PART, b"b" * PART)
    await client.send_slowly(repeat(chunk, STREAMED // PART), every_s=0.0)
    return await client.end()


def unfinished(head: bytes, size: int) -> Behave:
    """Return clients that send a body of ``size`` bytes but for the last one, and wait."""

    @_each
    async def behave(client: Rude) -> End:
        await client.send(head + b"Content-Length: %d\r\n\r\n" % size)
        await client.send_slowly(repeat(b"b" * PART, size // PART - 1), every_s=0.0)
        await client.send(b"b" * (PART - 1))
        return await client.end()

    return behave


def crowds(*, requests: int, connections: int) -> list[Crowd]:
    """Return every crowd for a server that answers ``requests`` at once on ``connections``."""
    many = min(500, requests // 2)
    return [
        Crowd("connect and send nothing", silent, many, (SILENT,), HEAD_S, HEAD_S),
        Crowd("a head, one byte a second", slow_heads, many, ("408",), HEAD_S, HEAD_S + EVERY_S),
        Crowd("a body, one byte a second", slow_bodies, many, ("408",), BODY_S, BODY_S + EVERY_S),
        Crowd("100-continue, then nothing", unmet_expectations, many, ("408",), BODY_S, BODY_S),
        Crowd("a large answer in sips", slowly_reading, 50, ("200",), 0.0, 10.0),
        Crowd("20,000 pipelined requests each", pipelining, 4, ("200",), 0.0, 30.0, busy=True),
        Crowd("a chunked body of 16 MiB", streaming, 50, ("413",), 0.0, 10.0, busy=True),
        Crowd(
            "1 MiB for a static file, unfinished",
            unfinished(STATIC, LARGEST),
            UNFINISHED,
            ("413",),
            0.0,
            5.0,
            flat=True,
        ),
        Crowd(
            "1 MiB for the admin without a session, unfinished",
            unfinished(ADMIN, LARGEST),
            UNFINISHED,
            ("413",),
            0.0,
            5.0,
            flat=True,
        ),
        Crowd(
            "64 KiB for the API, unfinished",
            unfinished(POST, USUAL),
            UNFINISHED,
            ("408", "503"),
            0.0,
            BODY_S,
            flat=True,
        ),
        Crowd("more connections than there may be", silent, 2 * connections, (SILENT,), 0.0, HEAD_S),
        Crowd(
            "more requests than there may be",
            slow_bodies,
            requests + 100,
            ("408", "503"),
            0.0,
            BODY_S + EVERY_S,
            full=True,
        ),
        Crowd("one request, then idle", idle, many, ("200",), KEEP_ALIVE_S, KEEP_ALIVE_S, slow=True),
        Crowd(
            "20 large answers each, unread",
            never_reading,
            many,
            (CUT_OFF,),
            0.0,
            WRITE_S + BUSY_S,
            slow=True,
            busy=True,
        ),
    ]
