"""Questions to Redis on one connection: answers find those who asked, and a failure fails them in time."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from redis.asyncio import BlockingConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from ironauth.infrastructure.cache import redis_connections, redis_line
from ironauth.infrastructure.cache.redis_line import RedisLine
from ironauth.tests.services import PrivateRedis

LIMIT_S = 5.0
Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Closed:
    """A transport that cannot be written to."""

    def write(self, _data: bytes) -> None:
        """Refuse."""
        raise RuntimeError("closed")


def line_of(pool: BlockingConnectionPool, limit_s: float = LIMIT_S) -> RedisLine:
    """Return a reader on connections like the pool's."""
    return RedisLine(pool.make_connection, limit_s=limit_s)


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
    line = line_of(pool)
    await line.get("a")
    tasks = [asyncio.create_task(line.get(key)) for key in "abcde" * 40]
    await asyncio.sleep(0)
    for task in tasks[::7]:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    wanted = [b"1", b"\r\n$-1\r\n", b"", b"x" * 100_000, None] * 40
    assert all(isinstance(one, asyncio.CancelledError) for one in found[::7])
    assert [one for number, one in enumerate(found) if number % 7] == [
        one for number, one in enumerate(wanted) if number % 7
    ]
    line.close()


async def test_one_connection_for_all_who_ask_first(pool: BlockingConnectionPool) -> None:
    """It is opened once, and again after it was closed."""
    opened = []

    def connection() -> object:
        opened.append(pool.make_connection())  # type: ignore[no-untyped-call]  # redis-py's
        return opened[-1]

    line = RedisLine(connection, limit_s=LIMIT_S)  # type: ignore[arg-type]  # as the pool makes it
    assert await asyncio.gather(*(line.get("a") for _ in range(5))) == [None] * 5
    assert len(opened) == 1
    line.close()
    assert await line.get("a") is None
    assert len(opened) == 2
    line.close()


async def test_a_question_that_cannot_be_written_takes_no_answer(pool: BlockingConnectionPool) -> None:
    """A key that is no text fails who asked, and is not waited for: the next one gets its own answer."""
    await fill(pool, a=b"1")
    line = line_of(pool)
    assert await line.get("a") == b"1"
    with pytest.raises(UnicodeEncodeError):
        await line.get("\ud800")
    assert not line._waiting
    assert await line.get("a") == b"1"
    written, line._transport = line._transport, Closed()  # type: ignore[assignment]  # it refuses to write
    with pytest.raises(RuntimeError):
        await line.get("a")
    assert not line._waiting
    line._transport = written
    assert await line.get("a") == b"1"
    line.close()


async def test_what_redis_refuses_fails_the_one_question(pool: BlockingConnectionPool) -> None:
    """A key of another kind is an error for who asked; the next question is answered."""
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]  # redis-py's
    await connection.send_command("RPUSH", "list", "x")
    await connection.read_response()
    await pool.release(connection)
    line = line_of(pool)
    with pytest.raises(ResponseError):
        await line.get("list")
    assert await line.get("a") is None
    line.close()


async def test_so_many_wait_at_most(pool: BlockingConnectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told at once that it has to do without."""
    monkeypatch.setattr(redis_line, "MOST_WAITING", 3)
    line = line_of(pool)
    await line.get("a")
    waiting = [asyncio.create_task(line.get("a")) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(RedisConnectionError):
        await line.get("a")
    assert await asyncio.gather(*waiting) == [None] * 3
    line.close()


async def test_a_frozen_redis_fails_everybody_in_time(
    pool: BlockingConnectionPool, private_redis: PrivateRedis
) -> None:
    """All who wait fail with the first one's time limit; once it goes on, a new connection is opened."""
    await fill(pool, a=b"1")
    line = line_of(pool, limit_s=0.5)
    assert await line.get("a") == b"1"
    process = private_redis.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    found = await asyncio.gather(*(line.get("a") for _ in range(10)), return_exceptions=True)
    assert all(isinstance(one, TimeoutError) for one in found)
    assert 0.5 <= time.monotonic() - began < 5
    process.send_signal(signal.SIGCONT)
    line._limit_s = LIMIT_S
    assert await line.get("a") == b"1"
    line.close()


async def test_a_connection_that_ends_fails_those_who_wait(
    pool: BlockingConnectionPool, private_redis: PrivateRedis
) -> None:
    """Killed while somebody waits: they fail; after its restart the next question is answered."""
    line = line_of(pool)
    await line.get("a")
    process = private_redis.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    waiting = [asyncio.create_task(line.get("a")) for _ in range(3)]
    await asyncio.sleep(0)
    process.kill()
    process.wait()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, OSError | RedisConnectionError) for one in found)
    private_redis.start()
    assert await line.get("a") is None
    line.close()


async def test_values_go_out_together_between_questions(
    pool: BlockingConnectionPool, private_redis: PrivateRedis
) -> None:
    """Whatever bytes they hold, each for its time; questions before and after get their own answers."""
    line = line_of(pool)
    big = bytes(range(256)) * 1_000
    await line.get("a")
    first = asyncio.create_task(line.get("a"))
    await asyncio.sleep(0)  # it is asked before
    await line.put([("a", b"1", 60_000), ("b", b"\r\n$-1\r\n", 50), ("c", b"", 60_000), ("d", big, 60_000)])
    assert await first is None
    assert await asyncio.gather(*map(line.get, "abcd")) == [b"1", b"\r\n$-1\r\n", b"", big]
    await line.put([])
    await asyncio.sleep(0.1)
    assert await line.get("b") is None
    line.close()


async def test_one_value_that_is_refused_fails_those_it_was_sent_with(
    pool: BlockingConnectionPool, private_redis: PrivateRedis
) -> None:
    """Who sent them hears of the first refusal; the others are stored, and the line goes on."""
    line = line_of(pool)
    with pytest.raises(ResponseError, match="invalid expire"):
        await line.put([("a", b"1", 60_000), ("b", b"2", 0), ("c", b"3", 60_000)])
    assert await asyncio.gather(*map(line.get, "abc")) == [b"1", None, b"3"]
    line.close()


async def test_a_former_master_is_left(pool: BlockingConnectionPool, private_redis: PrivateRedis) -> None:
    """One that takes no writes any more loses the line, so that the next command meets the master there is then."""
    line = line_of(pool)
    assert await line.get("a") is None
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]  # redis-py's
    for words in (("REPLICAOF", "127.0.0.1", "1"), ("CONFIG", "SET", "replica-read-only", "yes")):
        await connection.send_command(*words)
        await connection.read_response()
    with pytest.raises(ResponseError, match="READONLY"):
        await line.put([("a", b"1", 60_000), ("b", b"2", 60_000)])
    assert line._transport is None
    await connection.send_command("REPLICAOF", "NO", "ONE")
    await connection.read_response()
    await pool.release(connection)
    await line.put([("a", b"1", 60_000)])
    assert await line.get("a") == b"1"
    line.close()


async def test_more_than_may_wait_is_not_sent(pool: BlockingConnectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many values as there is room for go out; one more, and none of them does."""
    monkeypatch.setattr(redis_line, "MOST_WAITING", 3)
    line = line_of(pool)
    await line.put([(key, b"1", 60_000) for key in "abc"])
    with pytest.raises(RedisConnectionError):
        await line.put([(key, b"2", 60_000) for key in "abcd"])
    assert await line.get("a") == b"1"
    line.close()


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
    line = line_of(pool)
    if answer.startswith(b"$"):
        assert await line.get("a") == b"x"
    else:
        with pytest.raises(RedisConnectionError):
            await line.get("a")
    assert line._transport is None
    await pool.disconnect()
    server.close()
    await server.wait_closed()
