"""Both sides of every bound on one request: what is just allowed is answered, one more is refused at once."""

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from perf.limits.client import connected

#: What the README promises, and not what the code says: a bound moved by mistake is found.
MAX_HEADER_FIELDS, MAX_HEADER_BYTES, MAX_TARGET_BYTES, API_BODY_BYTES = 100, 16 * 1024, 8 * 1024, 64 * 1024
HEAD = b"GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\n"
CLOSE = b"Connection: close\r\n"
POST = b"POST /api/v1/access/signin HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
#: The refusal of a request that is too large comes at once, whatever else the client would still send; seconds.
AT_ONCE_S = 2.0
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Case(NamedTuple):
    """One request, the statuses it may be answered with, and whether the connection must end with that answer."""

    name: str
    request: bytes
    expected: tuple[str, ...]
    ends: bool = True


class Outcome(NamedTuple):
    """What came of a case."""

    case: Case
    how: str
    seconds: float
    answers: int

    @property
    def right(self) -> bool:
        """Whether exactly one answer came, in time, and it was the expected one."""
        return self.how in self.case.expected and self.answers == 1 and self.seconds <= AT_ONCE_S


#: A body that is no sign-in at all is 400 as soon as it is read, and hashes nothing.
READ = ("400",)


def cases() -> Iterator[Case]:
    """Return every bound, its allowed side first."""
    for count in (MAX_HEADER_FIELDS, MAX_HEADER_FIELDS + 1):
        fields = b"".join(b"x-%d: 1\r\n" % number for number in range(count - 2))
        yield Case(f"{count} header fields", HEAD + CLOSE + fields + b"\r\n", _either(count, MAX_HEADER_FIELDS, "431"))
    for size in (MAX_HEADER_BYTES, MAX_HEADER_BYTES + 1):
        others = b"Host: 127.0.0.1\r\n" + CLOSE
        value = b"v" * (size - len(others) - len(b"x-long: \r\n"))
        request = b"GET /ping HTTP/1.1\r\n" + others + b"x-long: " + value + b"\r\n\r\n"
        yield Case(f"{size:,} bytes of header fields", request, _either(size, MAX_HEADER_BYTES, "431"))
    for size in (MAX_TARGET_BYTES, MAX_TARGET_BYTES + 1):
        target = b"/ping?" + b"q" * (size - 5)  # the question mark is not counted
        request = b"GET " + target + HEAD.removeprefix(b"GET /ping") + CLOSE + b"\r\n"
        yield Case(f"URL of {size:,} bytes", request, _either(size, MAX_TARGET_BYTES, "414"))
    for size in (API_BODY_BYTES, API_BODY_BYTES + 1):
        body = b'"' + b"b" * (size - 2) + b'"'
        allowed = READ if size == API_BODY_BYTES else ("413",)
        yield Case(f"body of {size:,} bytes", POST + CLOSE + _length(size) + body, allowed)
        yield Case(f"body of {size:,} bytes, chunked", POST + CLOSE + _chunked(body), allowed)
    yield Case("Content-Length of 1 TiB, nothing sent", POST + _length(2**40), ("413",))
    yield Case("Content-Length of 30 digits", POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", ("400",))
    expecting = POST + b"Expect: 100-continue\r\n" + _length(API_BODY_BYTES + 1)
    yield Case("Expect: 100-continue, body too large: no 100", expecting, ("413",))
    yield from _endless()
    yield from _smuggling()


def _endless() -> Iterator[Case]:
    """Return what would never end by itself, cut where the server has long had enough."""
    yield Case("a field's value without end", HEAD + b"x-long: " + b"v" * 100_000, ("431",))
    yield Case("header fields without end", HEAD + b"x: y\r\n" * 20_000, ("431",))
    yield Case("a URL without end", b"GET /" + b"p" * 100_000, ("414",))
    yield Case("empty lines without end", b"\r\n" * 50_000, ("431",))
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n"
    yield Case("a chunk's extension without end", chunked + b"1;" + b"e" * 100_000, ("431",))
    yield Case("trailers without end", chunked + b"0\r\n" + b"x: y\r\n" * 20_000, ("431",))


def _smuggling() -> Iterator[Case]:
    """Return what a proxy may read otherwise than we do: it must never yield a second request."""
    chunk = b"0\r\n\r\n"
    both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    for name, framing in (
        ("Content-Length and Transfer-Encoding", both + chunk),
        ("two Content-Lengths that differ", b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        ("Content-Length: +5", b"Content-Length: +5\r\n\r\nhello"),
        ("Content-Length: 5, 5", b"Content-Length: 5, 5\r\n\r\nhello"),
        ("Transfer-Encoding: xchunked", b"Transfer-Encoding: xchunked\r\n\r\n" + chunk),
        ("Transfer-Encoding: chunked, gzip", b"Transfer-Encoding: chunked, gzip\r\n\r\n" + chunk),
        ("a blank before the colon", b"Transfer-Encoding : chunked\r\n\r\n" + chunk),
        ("a folded field", b"Transfer-Encoding:\r\n chunked\r\n\r\n" + chunk),
        ("a chunk size with a sign", b"Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n"),
        ("a chunk size of 20 digits", b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 20 + b"\r\n"),
        ("lines that end without CR", b"X: y\nContent-Length: 0\n\n"),
    ):
        yield Case(f"smuggling: {name}", POST + framing + SMUGGLED, ("400",))
    yield Case("smuggling: two Host fields", HEAD + b"Host: b\r\n\r\n" + SMUGGLED, ("400",))


def _either(size: int, most: int, refusal: str) -> tuple[str, ...]:
    return ("200",) if size <= most else (refusal,)


def _length(size: int) -> bytes:
    return b"Content-Length: %d\r\n\r\n" % size


def _chunked(body: bytes) -> bytes:
    return b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


async def try_all(address: tuple[str, int]) -> list[Outcome]:
    """Send each on a connection of its own, one after the other, and wait for its end."""
    outcomes = []
    for case in cases():
        async with connected(address) as client:
            began = time.monotonic()
            await client.send(case.request)
            end = await client.end(within_s=2 * AT_ONCE_S)
            outcomes.append(Outcome(case, end.how, time.monotonic() - began, end.answers))
    return outcomes


def wrong(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a line for each that was not as it must be."""
    return [
        f"{one.case.name}: {one.how}, {one.answers} answers after {one.seconds:.1f} s "
        f"(wanted: {' or '.join(one.case.expected)}, once, within {AT_ONCE_S:g} s)"
        for one in outcomes
        if not one.right
    ]
