"""Threads, queue and cancellation shared by the hash pool and the database pool."""

import asyncio
import contextvars
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from functools import partial

import pytest

from ironauth.infrastructure.threads import executor as executors
from ironauth.infrastructure.threads.executor import BoundedExecutor


@pytest.fixture
def pool() -> Iterator[BoundedExecutor]:
    """Two threads."""
    made = BoundedExecutor(name="test", threads=2)
    yield made
    made.shutdown()


def run(pool: BoundedExecutor, call: Callable[[], object]) -> asyncio.Task[object]:
    """Hand ``call`` in as a task of its own."""
    return asyncio.ensure_future(pool.offload(call))


async def until(condition: object, limit_s: float = 5.0) -> None:
    """Wait until ``condition()`` holds."""
    deadline = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_results_and_errors_reach_their_caller(pool: BoundedExecutor) -> None:
    """Each of 500 concurrent calls gets its own result or error."""

    def call(number: int) -> int:
        if number % 7 == 0:
            raise KeyError(number)
        return number * 2

    results = await asyncio.gather(*(run(pool, partial(call, n)) for n in range(500)), return_exceptions=True)
    for number, result in enumerate(results):
        assert (isinstance(result, KeyError) and result.args == (number,)) if number % 7 == 0 else result == number * 2
    assert (pool.queued, pool.running) == (0, 0)


async def test_a_stop_iteration_is_not_lost(pool: BoundedExecutor) -> None:
    """StopIteration, which a future refuses, arrives as RuntimeError instead of hanging its caller."""

    def call() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError):
        await asyncio.wait_for(run(pool, call), 2)


async def test_a_cancelled_queued_job_never_runs(pool: BoundedExecutor) -> None:
    """Jobs whose callers are cancelled while they wait are not run, and the jobs after them are."""
    gate = threading.Event()
    ran: list[int] = []
    blockers = [run(pool, gate.wait) for _ in range(2)]
    await until(lambda: pool.running == 2)
    doomed = [run(pool, partial(ran.append, n)) for n in range(100)]
    last = run(pool, lambda: ran.append(-1))
    await until(lambda: pool.queued == 101)
    for task in doomed:
        task.cancel()
    await asyncio.gather(*doomed, return_exceptions=True)
    assert pool.queued == 1
    gate.set()
    await asyncio.gather(last, *blockers)
    assert ran == [-1]


def test_a_cancelled_future_leaves_the_queue_at_once(pool: BoundedExecutor) -> None:
    """Also without an event loop; who waits for it by the standard library hears of it, and a second time nothing."""
    together, gate = threading.Barrier(3, timeout=5), threading.Event()
    for _ in range(2):
        pool.submit(lambda: together.wait() >= 0 and gate.wait())
    together.wait()
    doomed = pool.submit(list)
    assert doomed.cancel()
    assert doomed.cancel()
    assert pool.queued == 0
    assert wait([doomed], 5).done == {doomed}
    gate.set()


def test_a_running_future_cannot_be_cancelled(pool: BoundedExecutor) -> None:
    """As the standard library has it: its result comes all the same."""
    together = threading.Barrier(2, timeout=5)
    gate = threading.Event()
    job = pool.submit(lambda: together.wait() >= 0 and gate.wait())
    together.wait()
    assert not job.cancel()
    gate.set()
    assert job.result(5) is True


def test_what_a_shutdown_cancels_never_runs() -> None:
    """With ``cancel_futures`` what waits is cancelled; what runs ends."""
    pool = BoundedExecutor(name="cancelling", threads=1)
    together = threading.Barrier(2, timeout=5)
    gate = threading.Event()
    running = pool.submit(lambda: together.wait() >= 0 and gate.wait())
    waiting = [pool.submit(list) for _ in range(3)]
    together.wait()
    pool.shutdown(wait=False, cancel_futures=True)
    gate.set()
    assert running.result(5) is True
    assert all(job.cancelled() for job in waiting)


async def test_no_wake_up_is_lost(pool: BoundedExecutor) -> None:
    """Under random cancellations and idle pauses every job that is waited for ends."""
    for round_number in range(60):
        tasks = [run(pool, lambda: None) for _ in range(20)]
        if round_number % 2:
            await asyncio.sleep(0)
        for task in tasks[round_number % 3 :: 3]:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    assert pool.queued == 0


async def test_jobs_one_after_the_other_stay_on_one_thread(pool: BoundedExecutor) -> None:
    """Of two idle threads the one that was busy last takes the next job; one at a time, they need no second thread."""
    both = threading.Barrier(2, timeout=5)
    await asyncio.gather(run(pool, both.wait), run(pool, both.wait))  # both have worked, and both are idle again
    await until(lambda: len(pool._idle) == 2)
    first = await run(pool, threading.get_ident)
    for _ in range(20):
        await until(lambda: len(pool._idle) == 2)
        assert await run(pool, threading.get_ident) == first


async def test_context_variables_travel_with_the_job(pool: BoundedExecutor) -> None:
    """A job sees the context variables of its caller, and its changes stay its own."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="-")
    variable.set("request-1")

    def call() -> str:
        seen = variable.get()
        variable.set("changed")
        return seen

    assert [await run(pool, call) for _ in range(4)] == ["request-1"] * 4
    assert variable.get() == "request-1"


async def test_an_idle_thread_keeps_nothing_alive(pool: BoundedExecutor) -> None:
    """After a job its arguments (a password) and its result are freed."""

    class Secret:
        pass

    secret = Secret()
    gone = weakref.ref(secret)
    await run(pool, partial(lambda held: held, secret))
    del secret
    gc.collect()
    await until(lambda: gone() is None, 1)


async def test_a_closed_pool_ends_its_threads_and_works_again() -> None:
    """shutdown() runs what is queued and ends the threads, each with the finalizer; the next job starts new ones."""
    left: list[str] = []
    pool = BoundedExecutor(name="closing", threads=3, finalizer=lambda: left.append(threading.current_thread().name))
    assert await run(pool, lambda: 1) == 1
    pool.shutdown()
    assert sorted(left) == ["closing-0", "closing-1", "closing-2"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("closing-")]
    assert await run(pool, lambda: 2) == 2
    pool.shutdown()


def test_closing_waits_for_all_threads_at_once(pool: BoundedExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that hang cost one wait, not two: else a server takes as many as it has threads to end."""
    monkeypatch.setattr(executors, "SHUTDOWN_WAIT_S", 0.5)
    over = threading.Event()
    for _ in range(2):
        pool.submit(over.wait)
    began = time.monotonic()
    pool.shutdown()
    took_s = time.monotonic() - began
    over.set()
    assert 0.5 <= took_s < 0.9


def test_a_pool_needs_a_thread() -> None:
    """A size of zero is refused with the remedy."""
    with pytest.raises(ValueError, match="1 or more"):
        BoundedExecutor(name="empty", threads=0)


async def test_who_fails_to_hear_of_a_job_ends_no_thread(pool: BoundedExecutor) -> None:
    """A thread has taken its next job by then: that one runs, and so do those after it."""

    def deaf(_job: object) -> None:
        raise ValueError("unheard")

    for _ in range(2 * pool.threads):
        pool.submit(time.sleep, 0.01).add_done_callback(deaf)
    assert await asyncio.gather(*(run(pool, lambda: "heard") for _ in range(4))) == ["heard"] * 4
    assert pool.queued == 0
