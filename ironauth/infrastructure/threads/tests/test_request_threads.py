"""The threads for synchronous parts of requests."""

import asyncio
import threading

import pytest
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections

from ironauth.infrastructure.threads.request_threads import RequestThreads


async def test_work_is_spread_and_bounded() -> None:
    """A hundred units at once use exactly the threads there are, and errors come back."""
    threads = RequestThreads(3)
    names = await asyncio.gather(*(threads.run(lambda: threading.current_thread().name) for _ in range(100)))
    assert len(set(names)) == 3
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 / 0)
    threads.close()


async def test_closed_threads_can_be_used_again() -> None:
    """A lifespan that ended and began again in one process (tests, reloads) finds working threads."""
    threads = RequestThreads(1)
    first = await threads.run(threading.current_thread)
    threads.close()
    assert not first.is_alive()
    assert await threads.run(lambda: 1) == 1
    threads.close()


async def test_one_context_is_one_thread() -> None:
    """Everything thread-sensitive in a block runs on the same thread, whatever else goes on."""
    threads = RequestThreads(2)
    async with threads.context():
        first = await sync_to_async(threading.get_ident)()
        await threads.run(lambda: None)
        assert await sync_to_async(threading.get_ident)() == first
    threads.close()


async def test_stock_djangos_context_is_joined() -> None:
    """Under Django's own handler the work runs where the request's other synchronous code runs."""
    threads = RequestThreads(1)
    async with ThreadSensitiveContext():
        outer = await sync_to_async(threading.get_ident)()
        assert await threads.run(threading.get_ident) == outer
    threads.close()


@pytest.mark.django_db(transaction=True)
async def test_a_connection_lives_as_long_as_its_thread() -> None:
    """The second unit of work finds the first one's connection open."""

    def connection_id() -> int:
        connections["default"].ensure_connection()
        return id(connections["default"].connection)

    threads = RequestThreads(1)
    assert await threads.run(connection_id) == await threads.run(connection_id)
    threads.close()
