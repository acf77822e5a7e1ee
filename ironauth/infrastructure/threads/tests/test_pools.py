"""Threads, queue, cancellation and time limits shared by the hash pool and the database pool."""

import asyncio
import contextvars
import gc
import math
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from ironauth.infrastructure.threads import pool as pools
from ironauth.infrastructure.threads.jobs import Job
from ironauth.infrastructure.threads.pool import Pool


class Late(Exception):
    """Raised for a job that was too late."""


@pytest.fixture
def pool() -> Iterator[Pool]:
    """Two threads."""
    made = Pool(name="test", threads=2)
    yield made
    made.close()


def run(pool: Pool, call: object, limit_s: float = 5.0, *, leave_running: bool = False) -> asyncio.Task[object]:
    """Hand ``call`` in as a task of its own."""
    return asyncio.ensure_future(pool.run(call, limit_s=limit_s, late=Late, leave_running=leave_running))  # type: ignore[arg-type]


async def until(condition: object, limit_s: float = 5.0) -> None:
    """Wait until ``condition()`` holds."""
    deadline = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_results_and_errors_reach_their_caller(pool: Pool) -> None:
    """Each of 500 concurrent calls gets its own result or error."""

    def call(number: int) -> int:
        if number % 7 == 0:
            raise KeyError(number)
        return number * 2

    results = await asyncio.gather(*(run(pool, lambda n=n: call(n)) for n in range(500)), return_exceptions=True)
    for number, result in enumerate(results):
        assert (isinstance(result, KeyError) and result.args == (number,)) if number % 7 == 0 else result == number * 2
    assert (pool.queued, pool.running) == (0, 0)


async def test_a_stop_iteration_is_not_lost(pool: Pool) -> None:
    """StopIteration, which a future refuses, arrives as RuntimeError instead of hanging its caller."""

    def call() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError):
        await asyncio.wait_for(run(pool, call), 2)


async def test_a_cancelled_queued_job_never_runs(pool: Pool) -> None:
    """Jobs whose callers are cancelled while they wait are not run, and the jobs after them are."""
    gate = threading.Event()
    ran: list[int] = []
    blockers = [run(pool, gate.wait) for _ in range(2)]
    await until(lambda: pool.running == 2)
    doomed = [run(pool, lambda n=n: ran.append(n)) for n in range(100)]
    last = run(pool, lambda: ran.append(-1))
    await until(lambda: pool.queued == 101)
    for task in doomed:
        task.cancel()
    await asyncio.gather(*doomed, return_exceptions=True)
    assert pool.queued == 1
    gate.set()
    await asyncio.gather(last, *blockers)
    assert ran == [-1]


async def test_a_job_that_starts_too_late_is_refused_in_time(pool: Pool) -> None:
    """With both threads stuck, a waiting caller gets its error at the limit, and the job never runs."""
    gate = threading.Event()
    ran: list[int] = []
    blockers = [run(pool, gate.wait) for _ in range(2)]
    await until(lambda: pool.running == 2)
    began = time.monotonic()
    with pytest.raises(Late):
        await run(pool, lambda: ran.append(1), limit_s=0.1)
    assert 0.09 < time.monotonic() - began < 0.5
    with pytest.raises(Late):
        await asyncio.to_thread(pool.run_blocking, lambda: ran.append(2), limit_s=0.1, late=Late)
    gate.set()
    await asyncio.gather(*blockers)
    await run(pool, lambda: None)
    assert ran == []


async def test_a_running_job_is_left_only_when_asked(pool: Pool) -> None:
    """Past the limit a running job's caller waits on, unless it asked to be let go; the thread stays counted."""

    def slow() -> str:
        time.sleep(0.15)
        return "done"

    assert await run(pool, slow, limit_s=0.05) == "done"
    gate = threading.Event()
    with pytest.raises(Late):
        await run(pool, gate.wait, limit_s=0.05, leave_running=True)
    with pytest.raises(Late):
        await asyncio.to_thread(pool.run_blocking, gate.wait, limit_s=0.05, late=Late, leave_running=True)
    assert pool.running == 2
    gate.set()
    await until(lambda: pool.running == 0)
    assert await asyncio.to_thread(pool.run_blocking, slow, limit_s=0.05, late=Late) == "done"


async def test_no_wake_up_is_lost(pool: Pool) -> None:
    """Under random cancellations and idle pauses every job that is waited for ends."""
    for round_number in range(60):
        tasks = [run(pool, lambda: None) for _ in range(20)]
        if round_number % 2:
            await asyncio.sleep(0)
        for task in tasks[round_number % 3 :: 3]:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    assert pool.queued == 0


async def test_jobs_one_after_the_other_stay_on_one_thread(pool: Pool) -> None:
    """Of two idle threads the one that was busy last takes the next job; one at a time, they need no second thread."""
    both = threading.Barrier(2, timeout=5)
    await asyncio.gather(run(pool, both.wait), run(pool, both.wait))  # both have worked, and both are idle again
    await until(lambda: len(pool._idle) == 2)
    first = await run(pool, threading.get_ident)
    for _ in range(20):
        await until(lambda: len(pool._idle) == 2)
        assert await run(pool, threading.get_ident) == first


async def test_context_variables_travel_with_the_job(pool: Pool) -> None:
    """A job sees the context variables of its caller, and its changes stay its own."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="-")
    variable.set("request-1")

    def call() -> str:
        seen = variable.get()
        variable.set("changed")
        return seen

    assert [await run(pool, call) for _ in range(4)] == ["request-1"] * 4
    assert variable.get() == "request-1"


async def test_an_idle_thread_keeps_nothing_alive(pool: Pool) -> None:
    """After a job its arguments (a password) and its result are freed."""

    class Secret:
        pass

    secret = Secret()
    gone = weakref.ref(secret)
    await run(pool, lambda held=secret: held)
    del secret
    gc.collect()
    await until(lambda: gone() is None, 1)


async def test_a_closed_pool_ends_its_threads_and_works_again() -> None:
    """close() runs what is queued, ends the threads and calls ``leave`` on each; the next job starts new ones."""
    left: list[str] = []
    pool = Pool(name="closing", threads=3, leave=lambda: left.append(threading.current_thread().name))
    assert await run(pool, lambda: 1) == 1
    pool.close()
    assert sorted(left) == ["closing-0", "closing-1", "closing-2"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("closing-")]
    assert await run(pool, lambda: 2) == 2
    pool.close()


def test_closing_waits_for_all_threads_at_once(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that hang cost one wait, not two: else a server takes as many as it has threads to end."""
    monkeypatch.setattr(pools, "CLOSE_WAIT_S", 0.5)
    over = threading.Event()
    for _ in range(2):
        pool.submit(Job(over.wait, start_by=math.inf, late=Late, settle=lambda _value, _error: None))
    began = time.monotonic()
    pool.close()
    took_s = time.monotonic() - began
    over.set()
    assert 0.5 <= took_s < 0.9


def test_a_pool_needs_a_thread() -> None:
    """A size of zero is refused with the remedy."""
    with pytest.raises(ValueError, match="1 or more"):
        Pool(name="empty", threads=0)


async def test_who_fails_to_hear_of_a_job_ends_no_thread(pool: Pool) -> None:
    """A thread has taken its next job by then: that one runs, and so do those after it."""

    def deaf(_value: object, _error: BaseException | None) -> None:
        raise ValueError("unheard")

    for _ in range(2 * pool.threads):
        pool.submit(Job(lambda: None, start_by=time.monotonic() + 5, late=Late, settle=deaf))
    assert await asyncio.gather(*(run(pool, lambda: "heard") for _ in range(4))) == ["heard"] * 4
    assert pool.queued == 0
