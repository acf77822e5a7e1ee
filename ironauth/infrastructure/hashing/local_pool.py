"""Password hashing on few, low-priority threads; a hash that would wait too long is refused (503), so others stay fast.

The queue is fair between client networks, and between the accounts of one (``threads.job_queues.FairQueue``). A right
password costs its turn as much as a wrong one. `claims` tells who asks.
"""

import asyncio
import math
import time
import weakref
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import suppress
from functools import partial
from typing import Any

import argon2
import msgspec

from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.hashing import argon2 as argon2_raw
from ironauth.infrastructure.hashing import claims as hash_claims
from ironauth.infrastructure.hashing.apart import HashProcess
from ironauth.infrastructure.hashing.priority import WEAKEST_NICE, lower_priority
from ironauth.infrastructure.telemetry import metrics
from ironauth.infrastructure.telemetry.logs import get_logger
from ironauth.infrastructure.threads.executor import BoundedExecutor
from ironauth.infrastructure.threads.job_queues import Claim, FairQueue, Job, JobQueue

#: What one hash is taken to last before the first is measured; seconds. Argon2id, t=3, m=64 MiB: 0.07-0.14 measured.
FIRST_GUESS_S = 0.1
#: Weight of the newest run in the moving average: about the last ten runs count.
EWMA_WEIGHT = 0.2
#: What expected waits are multiplied by. The estimate moves, and a flood asks again whenever it is low. So the mean
#: alone lets in more than can start in time, and those would be refused after the whole wait instead of at once.
SAFETY_FACTOR = 1.25
#: Least weight of the newest run in the long mean and in the mean deviation: about the last fifty runs count. Beside
#: other busy programs the short mean is low now and then, and a flood asks at that very moment.
LONG_WEIGHT = 0.02
#: Mean deviations that are added to what a hash is taken to last (RFC 6298 §2 adds four of them, to one round trip).
DEVIATIONS = 2
#: Times the long mean that one run may deviate and be counted for it: one that met a suspended machine is not the rule.
MOST_DEVIATION = 4
#: What a hash is taken to last at least, seconds: what waits is counted by it.
SHORTEST_S = 1e-6


class HashPoolStats(msgspec.Struct, frozen=True):
    """What the pool is doing now (``queued``, ``running``) and has done since it was made."""

    threads: int
    queued: int
    running: int
    mean_hash_s: float
    rejected: int
    completed: int


class HashWorkerStats(msgspec.Struct, frozen=True):
    """What one hash worker does for this process now, and has done since the pool was made.

    Attributes:
        name: Its address in the setting.
        available: Whether it is used; False after a failure that no later try has ended.
        under_way: Hashes that it has been given and not answered.
        expected_wait_s: Seconds that a hash sent now would wait there.
        answered: Hashes that it has returned.
        busy: Hashes that it has refused for its load.
        failures: Time-outs, lost connections, answers that no worker would give.
    """

    name: str
    available: bool
    under_way: int
    expected_wait_s: float
    answered: int
    busy: int
    failures: int


class PunctualExecutor(BoundedExecutor):
    """An executor that refuses a call which has not started within ``max_wait_s`` seconds."""

    def __init__(
        self,
        *,
        name: str,
        threads: int,
        max_wait_s: float,
        initializer: Callable[[], None] = lambda: None,
        queue: JobQueue | None = None,
    ) -> None:
        """Prepare an executor as ``BoundedExecutor`` does.

        Args:
            name: what the threads, the metrics and the spans are called.
            threads: calls that run at once.
            max_wait_s: seconds within which a call has to start.
            initializer: runs on each thread when it starts.
            queue: the order of calls, and which are refused.
        """
        super().__init__(name=name, threads=threads, initializer=initializer, queue=queue)
        self._max_wait_s = max_wait_s

    def submit[**P](self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Queue ``fn(*args, **kwargs)`` and return its future; it fails with ``refusal`` unless it starts in time.

        Raises:
            Exception: what ``refusal`` returns, when the queue refuses the call.
        """
        start_by = time.monotonic() + self._max_wait_s
        job = super().submit(self._in_time, start_by, partial(fn, *args, **kwargs))
        with suppress(RuntimeError):  # no event loop runs here: who blocks keeps the limit by `submit_blocking`
            asyncio.get_running_loop().call_later(self._max_wait_s, self._expire, weakref.ref(job))
        return job

    def submit_blocking[T](self, fn: Callable[[], T]) -> T:
        """Run ``fn`` on a thread and return its result, blocking the caller.

        Raises:
            Exception: what ``fn`` raises, or what ``refusal`` returns.
        """
        job = self.submit(fn)
        try:
            wait([job], self._max_wait_s)
            self._expire(weakref.ref(job))
            result: T = job.result()
        finally:
            job.cancel()
        return result

    def _expire(self, reference: "weakref.ref[Job]") -> None:
        """Refuse a call that still waits at the end of the limit."""
        job = reference()
        if job is not None and self.withdraw(job):
            self.refuse(job)

    def _in_time[T](self, start_by: float, fn: Callable[[], T]) -> T:
        if time.monotonic() > start_by:
            raise self.refusal()
        return fn()


class HashPool(PunctualExecutor):
    """Runs hash jobs on ``threads`` threads; no job waits longer than ``max_wait_s`` seconds to start.

    ``remote.pool.SharedHashPool`` sends hashes to other machines too; here ``movable`` and ``keyed`` mean nothing.

    Peak memory is ``threads`` times the memory cost of one hash. Thread-safe, and usable from several event loops.
    """

    #: Whether there are hash workers; then a caller should say what is ``movable``.
    shares = False

    def __init__(self, threads: int, max_wait_s: float, nice: int = WEAKEST_NICE, *, apart: bool = False) -> None:
        """Prepare a pool; its threads start with the first hash.

        Args:
            threads: hashes that run at once.
            max_wait_s: seconds within which a job has to start.
            nice: niceness of the threads, which run with SCHED_BATCH then; 0 leaves both alone.
            apart: whether Argon2 runs in a process beside this one, which keeps its memory away from these threads.
        """
        self._process = HashProcess(threads, nice) if apart else None
        self._fair_queue = FairQueue(self._room)
        super().__init__(
            name="hash",
            threads=threads,
            max_wait_s=max_wait_s,
            initializer=partial(_lower_priority, nice),
            queue=self._fair_queue,
        )
        self._mean_s = FIRST_GUESS_S
        self._long_mean_s = self._deviation_s = 0.0
        self._rejected = 0
        self._completed = 0

    def submit[**P](self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Queue ``fn(*args, **kwargs)`` and return its future; it fails with ``Overloaded`` unless it starts in time.

        Raises:
            Overloaded: the expected wait exceeds the limit, and nobody else holds more of the queue.
        """
        return super().submit(self._measured, partial(fn, *args, **kwargs))

    async def run[T](self, fn: Callable[[], T], *, movable: bool = False) -> T:
        """Run ``fn`` on a pool thread and return its result; a cancelled caller's job does not start.

        Args:
            fn: what hashes.
            movable: whether a hash worker may do it.

        Raises:
            Overloaded: (503, Retry-After) at once when the expected wait exceeds the limit and nobody else holds more
                of it, later when somebody who holds less needs the place, or when the job could not start within the
                limit; such a job never runs.
            Exception: what ``fn`` raises.
        """
        return await self.offload(fn)

    def run_blocking[T](self, fn: Callable[[], T], *, movable: bool = False) -> T:
        """Run ``fn`` as ``run`` does, blocking the caller. On a pool thread it runs at once, in place.

        Args:
            fn: what hashes.
            movable: whether a hash worker may do it.

        Raises:
            Overloaded: as ``run`` does.
            RuntimeError: the calling thread runs an event loop.
            Exception: what ``fn`` raises.
        """
        if self.is_own_thread():
            return fn()
        refuse_event_loop()
        return self.submit_blocking(fn)

    def raw_hash(self, secret: bytes, salt: bytes, params: argon2.Parameters, *, keyed: bool = False) -> bytes:
        """Run Argon2 once, inside a job of this pool.

        Args:
            secret: the password, or its MAC.
            salt: as it is stored with the hash.
            params: the costs.
            keyed: ``secret`` is no password but its MAC under a pepper, which another machine may see.

        Returns:
            ``params.hash_len`` bytes.

        Raises:
            MemoryError: the system has no memory for it.
            Argon2Failure: Argon2 refuses the parameters.
        """
        if self._process is None:
            return argon2_raw.by_parameters(secret, salt, params)
        return self._process.compute(argon2_raw.run_of(secret, salt, params))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False, until: float | None = None) -> None:
        """End the threads as ``BoundedExecutor.shutdown`` does, and the process beside this one."""
        super().shutdown(wait, cancel_futures=cancel_futures, until=until)
        if self._process is not None:
            self._process.close()

    def expected_wait_s(self) -> float:
        """Return how long the last in the queue may wait for a thread, by recent runs, with the `SAFETY_FACTOR`."""
        return self._wait_behind_s(self.queued)

    def _wait_behind_s(self, jobs: int) -> float:
        ahead = jobs + self.running - self.threads + 1
        return max(ahead, 0) * self._cautious_s() * SAFETY_FACTOR / self.threads

    def _cautious_s(self) -> float:
        """Return what each of many hashes is taken to last at most: more, the less alike the last ones were."""
        return max(self._mean_s, self._long_mean_s) + DEVIATIONS * self._deviation_s

    def _room(self) -> int:
        """Return how many jobs may wait so that the last of them starts within the limit."""
        most = self._max_wait_s * self.threads / (max(self._cautious_s(), SHORTEST_S) * SAFETY_FACTOR)
        return int(most) + max(self.threads - self.running, 0)

    def stats(self) -> HashPoolStats:
        """Return the pool's figures."""
        return HashPoolStats(
            threads=self.threads,
            queued=self.queued,
            running=self.running,
            mean_hash_s=self._mean_s,
            rejected=self._rejected,
            completed=self._completed,
        )

    def worker_stats(self) -> list[HashWorkerStats]:
        """Return each hash worker's figures, in the order of the setting."""
        return []

    async def ping_workers(self) -> None:
        """Ask every hash worker for its load, at the start of a server; the log tells which answered."""

    def require_capacity(self) -> None:
        """Ask whether a job of this caller would be refused now; asked first, it spares what comes before it.

        A caller within their share is let in, however full the queue is of others' jobs.

        Raises:
            Overloaded: it would.
        """
        if not self._admits(self.claim()):
            raise self.refusal()

    def _admits(self, claim: Claim) -> bool:
        with self._lock:
            return self._fair_queue.admits(claim)

    def claim(self) -> Claim:
        """Return who asks for a hash now."""
        return hash_claims.current()

    def refusal(self) -> Overloaded:
        """Count a refusal, and return it with the seconds after which to ask again."""
        with self._lock:
            self._rejected += 1
        if metrics.recorder is not None:
            metrics.recorder.count("ironauth_pool_refusals", "hash")
        return Overloaded(retry_after_s=max(1, math.ceil(self.expected_wait_s())))

    def _measured[T](self, fn: Callable[[], T]) -> T:
        started = time.perf_counter()
        try:
            return fn()
        finally:
            self._learn(time.perf_counter() - started)

    def _learn(self, took_s: float) -> None:
        """Count a run that has ended."""
        with self._lock:
            self._completed += 1
            if self._completed == 1:
                self._mean_s = self._long_mean_s = took_s
                return
            self._mean_s += EWMA_WEIGHT * (took_s - self._mean_s)
            weight = max(LONG_WEIGHT, 1 / self._completed)
            error = min(took_s - self._long_mean_s, MOST_DEVIATION * self._long_mean_s)
            self._deviation_s += weight * (abs(error) - self._deviation_s)
            self._long_mean_s += weight * error


def refuse_event_loop() -> None:
    """Keep a hash from blocking an event loop.

    Raises:
        RuntimeError: the calling thread runs one.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("A password hash would block this event loop: await hash_pool().run(...), or call from a thread")


def _lower_priority(nice: int) -> None:
    """Lower the calling thread's claim to the CPU; what the system refuses is a line in the log."""
    if refused := lower_priority(nice):
        get_logger().warning("hash_thread_priority_refused", error=refused)
