"""The hash pool: bounded waiting, low priority, and threads that go on without the event loop."""

import asyncio
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextvars import copy_context
from functools import partial
from types import SimpleNamespace

import pytest
from django.test import RequestFactory
from django.utils.functional import SimpleLazyObject
from pytest_django import Settings

from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.hashing import claims as hash_claims
from ironauth.infrastructure.hashing.local_pool import SAFETY_FACTOR, HashPool
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.hashing.priority import WEAKEST_NICE
from ironauth.infrastructure.hashing.tests.hash_worker import asking
from ironauth.infrastructure.http import client_context
from ironauth.infrastructure.threads.job_queues import NOBODY


@pytest.fixture
def make() -> Iterator[Callable[..., HashPool]]:
    """A maker of pools that are closed after the test."""
    made: list[HashPool] = []

    def maker(threads: int = 1, max_wait_s: float = 1.0, nice: int = 0) -> HashPool:
        made.append(HashPool(threads, max_wait_s, nice))
        return made[-1]

    yield maker
    for pool in made:
        pool.shutdown()


async def measured(pool: HashPool, seconds: float) -> None:
    """Let the pool learn that a job takes ``seconds``."""
    for _ in range(15):
        await pool.run(lambda: time.sleep(seconds))


async def test_what_would_wait_too_long_is_refused_at_once(make: Callable[..., HashPool]) -> None:
    """With 100 ms jobs, one thread and a limit of 500 ms, about five of fifty are taken; the rest fail immediately."""
    pool = make(1, 0.5)
    pool._mean_s = 0.1
    refused_after: list[float] = []
    retries: list[int] = []

    async def one() -> bool:
        began = time.monotonic()
        try:
            await pool.run(lambda: time.sleep(0.1))
        except Overloaded as error:
            refused_after.append(time.monotonic() - began)
            retries.append(error.retry_after_s or 0)
            return False
        return True

    taken = sum(await asyncio.gather(*(one() for _ in range(50))))
    assert 2 <= taken <= 6  # the last of those let in may start too late
    assert sorted(refused_after)[30] < 0.01  # of more than forty: nobody waits to be told no
    assert min(retries) >= 1
    assert pool.stats().rejected == 50 - taken
    assert (pool.stats().queued, pool.stats().running) == (0, 0)


async def test_a_job_that_could_not_start_in_time_never_runs(make: Callable[..., HashPool]) -> None:
    """A job that was let in but is still queued at the limit is refused then, async and blocking, and never runs."""
    pool = make(1, 0.5)
    ran: list[int] = []
    gate = threading.Event()
    await measured(pool, 0.001)
    blocker = asyncio.ensure_future(pool.run(gate.wait))
    await asyncio.sleep(0.02)
    with pytest.raises(Overloaded):
        await pool.run(lambda: ran.append(1))
    with pytest.raises(Overloaded):
        await asyncio.to_thread(pool.run_blocking, lambda: ran.append(2))
    gate.set()
    await blocker
    await pool.run(lambda: None)
    assert ran == []


async def test_a_running_hash_is_waited_for(make: Callable[..., HashPool]) -> None:
    """The limit is one for the start: a hash that has begun is worth its end, async and blocking."""
    pool = make(1, 0.05)
    pool._mean_s = 0.001

    def slow() -> str:
        time.sleep(0.15)
        return "done"

    assert await pool.run(slow) == "done"
    pool._mean_s = 0.001
    assert await asyncio.to_thread(pool.run_blocking, slow) == "done"
    assert pool.stats().rejected == 0


async def test_a_cancelled_callers_queued_hash_never_runs(make: Callable[..., HashPool]) -> None:
    """A client that goes away while its hash waits costs nothing."""
    pool = make(1, 5)
    gate = threading.Event()
    ran: list[int] = []
    blocker = asyncio.ensure_future(pool.run(gate.wait))
    await asyncio.sleep(0.02)
    waiting = [asyncio.ensure_future(pool.run(partial(ran.append, n))) for n in range(10)]
    await asyncio.sleep(0.01)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert pool.stats().queued == 0
    gate.set()
    await blocker
    await pool.run(lambda: None)
    assert ran == []


async def test_at_most_the_stated_number_run_at_once(make: Callable[..., HashPool]) -> None:
    """Of forty concurrent jobs on two threads never more than two run, which bounds the memory."""
    pool = make(2, 10)
    lock = threading.Lock()
    now = most = 0

    def call() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.002)
        with lock:
            now -= 1

    await asyncio.gather(*(pool.run(call) for _ in range(40)))
    assert most == 2
    assert pool.stats().completed == 40


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="Linux only")
async def test_the_threads_give_way_and_the_loop_does_not(make: Callable[..., HashPool]) -> None:
    """Pool threads have niceness 19 and SCHED_BATCH; the event loop's thread keeps its own."""
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    pool = make(nice=WEAKEST_NICE)

    def look() -> tuple[int, int]:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), os.sched_getscheduler(0)

    assert await pool.run(look) == (WEAKEST_NICE, os.SCHED_BATCH)
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="Linux only")
@pytest.mark.parametrize("nice", [0, 7])
async def test_how_far_the_threads_give_way_is_a_choice(make: Callable[..., HashPool], nice: int) -> None:
    """The niceness is the one asked for, with SCHED_BATCH; at 0 the threads are scheduled like all others."""
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), os.sched_getscheduler(0)

    def look() -> tuple[int, int]:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), os.sched_getscheduler(0)

    assert await make(nice=nice).run(look) == ((nice, os.SCHED_BATCH) if nice else own)


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="Linux only")
async def test_a_nicer_process_stays_so(make: Callable[..., HashPool], monkeypatch: pytest.MonkeyPatch) -> None:
    """A niceness below the process' own, which would need a privilege, is not asked for."""
    asked: list[int] = []
    monkeypatch.setattr(os, "getpriority", lambda *_: 12)
    monkeypatch.setattr(os, "setpriority", lambda _which, _who, nice: asked.append(nice))
    await make(nice=5).run(lambda: None)
    assert asked == [12]


async def test_what_is_let_in_can_start_in_time(make: Callable[..., HashPool]) -> None:
    """Behind a busy thread only as much queues as starts within the limit when runs get slower by the caution."""
    pool = make(1, 1.0)
    await measured(pool, 0.02)
    gate, begun = threading.Event(), threading.Event()

    def first() -> bool:
        begun.set()
        return gate.wait()

    waiting = [asyncio.ensure_future(pool.run(first))]
    await asyncio.to_thread(begun.wait)
    waiting += [asyncio.ensure_future(pool.run(gate.wait)) for _ in range(199)]
    async with asyncio.timeout(10):
        while sum(task.done() for task in waiting) + pool.stats().queued + 1 != 200:  # noqa: ASYNC110 - of a pool
            await asyncio.sleep(0.01)
    refused = [task for task in waiting if task.done() and isinstance(task.exception(), Overloaded)]
    queued, lasts_s = pool.stats().queued, pool._cautious_s()
    assert len(refused) + queued + 1 == 200
    assert (queued - 1) * lasts_s * SAFETY_FACTOR <= 1.0 < (queued + 1) * lasts_s * SAFETY_FACTOR
    for task in waiting:
        task.cancel()
    gate.set()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_blocking_on_the_event_loop_is_refused_with_the_remedy(make: Callable[..., HashPool]) -> None:
    """run_blocking on a loop's thread raises, and the message ends with what to do."""
    with pytest.raises(RuntimeError, match=r"await hash_pool\(\)\.run\(\.\.\.\), or call from a thread$"):
        make().run_blocking(lambda: None)


async def test_a_nested_blocking_call_runs_in_place(make: Callable[..., HashPool]) -> None:
    """On a pool thread run_blocking runs at once, so that one thread cannot wait for itself."""
    pool = make(1)

    def nested() -> bool:
        return pool.run_blocking(threading.get_ident) == threading.get_ident()

    assert await asyncio.wait_for(pool.run(nested), 2)


def test_blocking_callers_get_results_and_errors(make: Callable[..., HashPool]) -> None:
    """run_blocking returns what the job returned, and raises what it raised."""
    pool = make(2)
    assert pool.run_blocking(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        pool.run_blocking(lambda: 1 // 0)
    assert pool.stats().completed == 2


async def test_one_slow_run_does_not_shut_the_pool(make: Callable[..., HashPool]) -> None:
    """After one run far above the limit (a paused machine) an idle pool takes jobs again and its mean recovers."""
    pool = make(1, 10)
    pool._mean_s = 300.0
    for _ in range(20):
        await pool.run(lambda: None)
    assert pool.stats().mean_hash_s < 10


async def test_threads_go_on_without_the_event_loop(make: Callable[..., HashPool]) -> None:
    """What waits is begun by the threads themselves, both at a time: a loop that is held up costs no hash.

    That a pool's threads bring what bare ones do is measured by the benchmark (sign-ins against the raw hash rate).
    """
    pool = make(2, 30)
    await pool.run(lambda: None)
    both = threading.Barrier(2, timeout=20)  # one thread alone would break it
    ran: list[int] = []

    def job() -> None:
        ran.append(both.wait())

    jobs = asyncio.gather(*(pool.run(job) for _ in range(20)))
    await asyncio.sleep(0)  # all are handed in
    deadline = time.monotonic() + 20
    while len(ran) < 20 and time.monotonic() < deadline:
        time.sleep(0.01)  # noqa: ASYNC251 - the loop is to be held up
    assert len(ran) == 20
    await jobs


def test_the_shared_pool_follows_the_settings(settings: Settings) -> None:
    """hash_pool() is one object until its settings change."""
    first = hash_pool()
    assert hash_pool() is first
    settings.IRONAUTH_HASH_THREADS = 3
    second = hash_pool()
    assert second.stats().threads == 3
    settings.IRONAUTH_HASH_NICE = 3
    assert hash_pool() is not second


# ---------------------------------------------------------------- fairness
async def test_who_holds_little_gets_in_while_another_network_floods(make: Callable[..., HashPool]) -> None:
    """In a full pool another network's first job is let in, at once and before the flood's; the flood loses its own."""
    pool = make(1, 0.5)
    pool._mean_s = 0.1
    gate, ran = threading.Event(), list[str]()
    loop = asyncio.get_running_loop()

    def ask(address: str, owner: str) -> asyncio.Task[None]:
        return loop.create_task(pool.run(partial(ran.append, owner)), context=asking(address, owner))

    blocker = loop.create_task(pool.run(gate.wait), context=asking("192.0.2.1"))
    await asyncio.sleep(0.02)
    flood = [ask("192.0.2.1", f"own {number}") for number in range(20)]
    await asyncio.sleep(0.02)
    refused_before = sum(task.done() for task in flood)
    asking("198.51.100.7").run(pool.require_capacity)
    with pytest.raises(Overloaded):
        asking("192.0.2.1").run(pool.require_capacity)
    one = ask("198.51.100.7", "mia")
    await asyncio.sleep(0.02)
    refused = [task for task in flood if task.done()]
    assert len(refused) == refused_before + 1
    assert all(isinstance(task.exception(), Overloaded) for task in refused)
    gate.set()
    await asyncio.gather(one, blocker, *(set(flood) - set(refused)))
    assert ran.index("mia") <= 1


async def test_a_blocking_job_that_makes_room_is_refused_at_once(make: Callable[..., HashPool]) -> None:
    """A thread that waits for its hash hears of the loss of its place then, not at the end of the longest wait."""
    pool = make(1, 30)
    pool._mean_s = 12.0  # room for two
    gate, heard = threading.Event(), list[float]()

    def wait() -> None:
        with pytest.raises(Overloaded):
            pool.run_blocking(lambda: None)
        heard.append(time.monotonic())

    loop = asyncio.get_running_loop()
    blocker = loop.create_task(pool.run(gate.wait), context=asking("192.0.2.1"))
    await asyncio.sleep(0.02)
    first = loop.create_task(pool.run(lambda: None), context=asking("192.0.2.1"))
    await asyncio.sleep(0.02)
    second = threading.Thread(target=asking("192.0.2.1").run, args=(wait,))
    second.start()
    for _ in range(1_000):
        if pool.stats().queued == 2:
            break
        await asyncio.sleep(0.005)
    began = time.monotonic()
    third = loop.create_task(pool.run(lambda: None), context=asking("198.51.100.7"))
    await asyncio.to_thread(second.join, 10)
    assert heard[0] - began < 1
    gate.set()
    await asyncio.gather(blocker, first, third)


def test_a_rented_48_is_one_network() -> None:
    """All of a /48 share one claim; two IPv4 addresses, and two /48, have one each."""

    def network(address: str) -> str:
        return asking(address).run(hash_claims.current).network

    assert network("2001:db8:1:2::1") == network("2001:db8:1:ffff::2")
    assert network("2001:db8:1::1") != network("2001:db8:2::1")
    assert network("192.0.2.1") != network("192.0.2.2")
    assert network("::ffff:192.0.2.1") == network("192.0.2.1")


def test_who_is_signed_in_is_the_same_everywhere_and_who_is_named_is_not() -> None:
    """A signed-in person is one owner in every network; an account that a stranger names is one for each network."""
    mia = SimpleNamespace(pk=uuid.uuid4())

    def owner(address: str, user: object = None, named: str = "") -> str:
        request = RequestFactory(REMOTE_ADDR=address).get("/")
        if user is not None:
            request.user = user  # type: ignore[assignment]  # as the API has it
        context = copy_context()
        context.run(client_context.enter, request)
        context.run(hash_claims._named.set, named)
        return context.run(hash_claims.current).owner

    assert owner("192.0.2.1", mia) == owner("198.51.100.7", mia) == mia.pk.hex
    assert owner("192.0.2.1", named="mia@example.com") != owner("198.51.100.7", named="mia@example.com")
    assert owner("192.0.2.1") == ""
    assert hash_claims.current() == NOBODY


def test_a_claim_asks_no_database() -> None:
    """The admin's user, which is looked up when it is looked at, is not looked at; one that was found is known."""
    mia = SimpleNamespace(pk=uuid.uuid4())
    request = RequestFactory(REMOTE_ADDR="192.0.2.1").get("/")

    def look_up() -> object:
        raise AssertionError("a query")

    request.user = SimpleLazyObject(look_up)  # type: ignore[assignment]  # as Django's middleware has it
    context = copy_context()
    context.run(client_context.enter, request)
    assert context.run(hash_claims.current).owner == ""
    request._cached_user = mia  # type: ignore[attr-defined]
    assert context.run(hash_claims.current).owner == mia.pk.hex
