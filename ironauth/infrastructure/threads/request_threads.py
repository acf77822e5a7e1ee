"""Threads for the synchronous parts of a request: the whole admin lane, and the few parts of the API lane.

Stock Django starts two threads per request and gives each a fresh database connection (asgiref PR#563). Here a few
single-thread executors live as long as the process, so their connections do too (CONN_MAX_AGE works again).
"""

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import cast

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, reset_queries
from django.http import StreamingHttpResponse

#: Threads, hence database connections, of the admin lane per process: staff are few, and a page is short.
THREADS = 4


class RequestThreads:
    """A bounded set of single-thread executors, shared by requests: each request keeps to one.

    A request takes the one with the fewest requests, and never waits for a free one: a slow reader of a large
    answer occupies its thread only while Python code runs there.
    """

    def __init__(self, threads: int = THREADS) -> None:
        """Prepare ``threads`` executors; each starts its thread with its first work."""
        self._lock = threading.Lock()
        self._executors = _executors(threads)
        self._requests = [0] * threads

    @asynccontextmanager
    async def context(self) -> AsyncIterator[None]:
        """Send thread-sensitive work of this block (``sync_to_async``) to one of the threads."""
        with self._lock:
            chosen = min(range(len(self._requests)), key=self._requests.__getitem__)
            self._requests[chosen] += 1
        try:
            async with ThreadSensitiveContext(executor=self._executors[chosen]):
                yield
        finally:
            with self._lock:
                self._requests[chosen] -= 1

    async def run[**P, R](self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a synchronous ``function`` that may use the ORM, and return its result.

        Inside stock Django's per-request context it joins that one, so that it sees the same connection.
        """
        if SyncToAsync.thread_sensitive_context.get(None) is not None:
            return await sync_to_async(function)(*args, **kwargs)
        async with self.context():
            return await sync_to_async(_with_fresh_connections)(function, *args, **kwargs)

    def close(self) -> None:
        """End the threads and their database connections; work already queued is finished first.

        Later work starts new ones.
        """
        ending, self._executors = self._executors, _executors(len(self._executors))
        for executor in ending:
            executor.submit(connections.close_all)
            executor.shutdown()


def _executors(count: int) -> list[ThreadPoolExecutor]:
    return [ThreadPoolExecutor(1, thread_name_prefix=f"request-{number}") for number in range(count)]


def _with_fresh_connections[**P, R](function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do on this thread what Django's request signals do around a request: drop broken and outdated connections."""
    reset_queries()
    close_old_connections()
    try:
        return function(*args, **kwargs)
    finally:
        close_old_connections()


#: The process's own set.
request_threads = RequestThreads()


def make_async(response: StreamingHttpResponse) -> None:
    """Have a synchronous body (a file, a generator) advanced in the request's thread, one part at a time.

    Django collects the whole of a synchronous iterator in memory before it sends the first byte, and warns. An async
    body is left alone. The closers stay with the response.
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
