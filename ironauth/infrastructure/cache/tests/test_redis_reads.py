"""Questions to Redis on one connection: answers find those who asked, and a failure fails them in time."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from redis.asyncio import BlockingConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from ironauth.infrastructure.cache import redis_connections, redis_reads
from ironauth.infrastructure.cache.redis_reads import RedisReads
from ironauth.tests.services import PrivateRedis

LIMIT_S = 5.0
Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Closed:
    """A transport that cannot be written to."""

    def write(self, _data: bytes) -> None:
        """Refuse."""
        raise RuntimeError("closed")


def reads_of(pool: BlockingConnectionPool, limit_s: float = LIMIT_S) -> RedisReads:
    """Return a reader on connections like the pool's."""
    return RedisReads(pool.make_connection, limit_s=limit_s)


@pytest.fixture
async def pool(private_redis: PrivateRedis) -> AsyncIterator[BlockingConnectionPool]:
    """Connections to a Redis of this test."""
    made = redis_connections.pool_of_loop(private_redis.url, limit_s=LIMIT_S, connections=2)
    yield made
    await made.disconnect()


async def fill(pool: BlockingConnectionPool, **values: bytes) -> None:
    """Store values by redis-py."""
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]  # redis-py's
    for key, value in values.items():
        await connection.send_command("SET", key, value)
        await connection.read_response()
    await pool.release(connection)


async def test_answers_find_those_who_asked(pool: BlockingConnectionPool) -> None:
    """Many at once, of which some are cancelled: each gets the value of its own key, whatever bytes it holds."""
    await fill(pool, a=b"1", b=b"\r\n$-1\r\n", c=b"", d=b"x" * 100_000)
    reads = reads_of(pool)
    await reads.get("a")
    tasks = [asyncio.create_task(reads.get(key)) for key in "abcde" * 40]
    await asyncio.sleep(0)
    for task in tasks[::7]:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    wanted = [b"1", b"\r\n$-1\r\n", b"", b"x" * 100_000, None] * 40
    assert all(isinstance(one, asyncio.CancelledError) for one in found[::7])
    assert [one for number, one in enumerate(found) if number % 7] == [
        one for number, one in enumerate(wanted) if number % 7
    ]
    reads.close()


async def test_one_connection_for_all_who_ask_first(pool: BlockingConnectionPool) -> None:
    """It is opened once, and again after it was closed."""
    opened = []

    def connection() -> object:
        opened.append(pool.make_connection())  # type: ignore[no-untyped-call]  # redis-py's
        return opened[-1]

    reads = RedisReads(connection, limit_s=LIMIT_S)  # type: ignore[arg-type]  # as the pool makes it
    assert await asyncio.gather(*(reads.get("a") for _ in range(5))) == [None] * 5
    assert len(opened) == 1
    reads.close()
    assert await reads.get("a") is None
    assert len(opened) == 2
    reads.close()


async def test_a_question_that_cannot_be_written_takes_no_answer(pool: BlockingConnectionPool) -> None:
    """A key that is no text fails who asked, and is not waited for: the next one gets its own answer."""
    await fill(pool, a=b"1")
    reads = reads_of(pool)
    assert await reads.get("a") == b"1"
    with pytest.raises(UnicodeEncodeError):
        await reads.get("\ud800")
    assert not reads._waiting
    assert await reads.get("a") == b"1"
    written, reads._transport = reads._transport, Closed()  # type: ignore[assignment]  # it refuses to write
    with pytest.raises(RuntimeError):
        await reads.get("a")
    assert not reads._waiting
    reads._transport = written
    assert await reads.get("a") == b"1"
    reads.close()


async def test_what_redis_refuses_fails_the_one_question(pool: BlockingConnectionPool) -> None:
    """A key of another kind is an error for who asked; the next question is answered."""
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]  # redis-py's
    await connection.send_command("RPUSH", "list", "x")
    await connection.read_response()
    await pool.release(connection)
    reads = reads_of(pool)
    with pytest.raises(ResponseError):
        await reads.get("list")
    assert await reads.get("a") is None
    reads.close()


async def test_so_many_wait_at_most(pool: BlockingConnectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told at once that it has to do without."""
    monkeypatch.setattr(redis_reads, "MOST_WAITING", 3)
    reads = reads_of(pool)
    await reads.get("a")
    waiting = [asyncio.create_task(reads.get("a")) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(RedisConnectionError):
        await reads.get("a")
    assert await asyncio.gather(*waiting) == [None] * 3
    reads.close()


async def test_a_frozen_redis_fails_everybody_in_time(
    pool: BlockingConnectionPool, private_redis: PrivateRedis
) -> None:
    """All who wait fail with the first one's time limit; once it goes on, a new connection is opened."""
    await fill(pool, a=b"1")
    reads = reads_of(pool, limit_s=0.5)
    assert await reads.get("a") == b"1"
    process = private_redis.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    found = await asyncio.gather(*(reads.get("a") for _ in range(10)), return_exceptions=True)
    assert all(isinstance(one, TimeoutError) for one in found)
    assert 0.5 <= time.monotonic() - began < 5
    process.send_signal(signal.SIGCONT)
    reads._limit_s = LIMIT_S
    assert await reads.get("a") == b"1"
    reads.close()


async def test_a_connection_that_ends_fails_those_who_wait(
    pool: BlockingConnectionPool, private_redis: PrivateRedis
) -> None:
    """Killed while somebody waits: they fail; after its restart the next question is answered."""
    reads = reads_of(pool)
    await reads.get("a")
    process = private_redis.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    waiting = [asyncio.create_task(reads.get("a")) for _ in range(3)]
    await asyncio.sleep(0)
    process.kill()
    process.wait()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, OSError | RedisConnectionError) for one in found)
    private_redis.start()
    assert await reads.get("a") is None
    reads.close()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\n", b"$1\r\nx\r\n$1\r\ny\r\n"])
async def test_what_is_no_answer_ends_the_connection(answer: bytes) -> None:
    """Another protocol, or more answers than questions: nothing from there is taken for anybody's."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if b"GET" in data:
                writer.write(answer)
            else:
                writer.write(b"+OK\r\n" * data.count(b"*"))
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pool = redis_connections.pool_of_loop(f"redis://127.0.0.1:{port}/0?protocol=2", limit_s=LIMIT_S, connections=2)
    reads = reads_of(pool)
    if answer.startswith(b"$"):
        assert await reads.get("a") == b"x"
    else:
        with pytest.raises(RedisConnectionError):
            await reads.get("a")
    assert reads._transport is None
    await pool.disconnect()
    server.close()
    await server.wait_closed()
