"""Synchronous bodies (files, generators) under an async server, one part at a time.

Django collects the whole of a synchronous iterator in memory before it sends the first byte, and warns.
"""

from collections.abc import AsyncGenerator, Iterator
from typing import cast

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse


def make_async(response: StreamingHttpResponse) -> None:
    """Have a synchronous body advanced in the request's thread; an async one is left alone.

    Its closers stay with the response.
    """
    if not response.is_async:
        response.streaming_content = _advanced_in_thread(iter(cast("Iterator[bytes]", response.streaming_content)))


async def _advanced_in_thread(parts: Iterator[bytes]) -> AsyncGenerator[bytes]:
    advance = sync_to_async(_advance)
    while (part := await advance(parts)) is not None:
        yield part


def _advance(parts: Iterator[bytes]) -> bytes | None:
    """Return the next part, or None after the last: StopIteration cannot cross a thread."""
    return next(parts, None)
