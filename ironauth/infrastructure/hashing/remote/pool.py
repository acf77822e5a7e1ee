"""The hash pool with hash workers beside it: each hash goes where it is expected to wait least.

A thread waits for each answer, on a connection of its own: it costs no CPU, serves every event loop and every
blocking caller alike, and the job that asks need not know where Argon2 runs.
"""

import asyncio
import math
import threading
from collections.abc import Callable, Sequence
from functools import partial

import argon2

from ironauth.config.hash_workers import HashWorkerSettings
from ironauth.infrastructure.hashing.local_pool import HashPool, HashWorkerStats, PunctualExecutor, refuse_event_loop
from ironauth.infrastructure.hashing.remote import trust as hash_worker_trust
from ironauth.infrastructure.hashing.remote.client import PING_TIMEOUT_S, HashWorkerClient, WorkerBusy, WorkerRefused
from ironauth.infrastructure.hashing.remote.protocol import Hash, ProtocolError
from ironauth.infrastructure.threads.job_queues import Claim


class _Here(threading.local):
    #: The worker that a job on this thread is meant for; None on every other thread.
    worker: HashWorkerClient | None = None


class _RemoteThreads(PunctualExecutor):
    """Threads that wait for hash workers; what finds none of them in time is a refusal of the pool.

    Callers who hang up leave theirs busy until the worker answers, so that there can be fewer free than are counted.
    """

    def __init__(self, pool: HashPool, *, threads: int, max_wait_s: float) -> None:
        super().__init__(name="remote_hash", threads=threads, max_wait_s=max_wait_s)
        self._pool = pool

    def refusal(self) -> Exception:
        return self._pool.refusal()


class SharedHashPool(HashPool):
    """Runs ``movable`` jobs at hash workers too: only the ``raw_hash`` in them, the rest on a thread of ours.

    A worker that is as free as we are goes first, since its CPU has nothing else to do. One that fails, is silent or
    refuses is replaced by another or by the local pool; no hash fails for a worker's sake.

    The fair queue is the local one. No queue forms before a worker on this side: as many hashes are under way there as
    there are connections, and all others wait here.
    """

    shares = True

    def __init__(
        self, threads: int, max_wait_s: float, nice: int, workers: HashWorkerSettings, *, apart: bool = False
    ) -> None:
        """Prepare a pool; nothing is connected yet.

        Args:
            threads: hashes that run here at once.
            max_wait_s: seconds within which a job has to start.
            nice: niceness of the threads here.
            workers: addresses, TLS and limits of the hash workers.
            apart: whether Argon2 runs here in a process beside this one.

        Raises:
            ImproperlyConfigured: the files for TLS cannot be used.
        """
        super().__init__(threads, max_wait_s, nice, apart=apart)
        tls = None
        if workers.tls is not None:
            tls = hash_worker_trust.context(server=False, cert=workers.tls.cert, key=workers.tls.key, ca=workers.tls.ca)
        self._workers = [
            HashWorkerClient(
                f"hash_worker_{number}", address, tls=tls, limit=workers.connections, timeout_s=workers.timeout_s
            )
            for number, address in enumerate(workers.addresses, start=1)
        ]
        self._away = _RemoteThreads(self, threads=workers.connections * len(self._workers), max_wait_s=max_wait_s)
        self._here = _Here()

    async def run[T](self, fn: Callable[[], T], *, movable: bool = False) -> T:
        """Run ``fn`` as ``HashPool.run`` does, or at a worker; arguments and errors are the same."""
        worker = self._freest() if movable else None
        if worker is None:
            return await self.offload(fn)
        with worker.counted():
            return await self._away.offload(self._at_worker, worker, fn)

    def run_blocking[T](self, fn: Callable[[], T], *, movable: bool = False) -> T:
        """Run ``fn`` as ``HashPool.run_blocking`` does, or at a worker; in place also within a job meant for one.

        Arguments and errors are the same.
        """
        if self.is_own_thread() or (movable and self._here.worker is not None):
            return fn()
        refuse_event_loop()
        worker = self._freest() if movable else None
        if worker is None:
            return self.submit_blocking(fn)
        with worker.counted():
            return self._away.submit_blocking(partial(self._at_worker, worker, fn))

    def raw_hash(self, secret: bytes, salt: bytes, params: argon2.Parameters, *, keyed: bool = False) -> bytes:
        """Run Argon2 once where this job is meant to; a ``secret`` that is not ``keyed`` never leaves.

        Arguments and errors are those of ``HashPool.raw_hash``.
        """
        worker = self._here.worker
        if worker is None:
            return super().raw_hash(secret, salt, params)
        request = Hash(
            secret,
            salt,
            params.time_cost,
            params.memory_cost,
            params.parallelism,
            params.hash_len,
            params.type.value,
            params.version,  # type: ignore[arg-type]  # the version that a stored hash names; else the worker refuses
        )
        found = self._ask(worker, request) if keyed else None
        if found is not None:
            return found
        return self.submit_blocking(partial(super().raw_hash, secret, salt, params))

    def expected_wait_s(self) -> float:
        """Return the shortest wait anywhere: here, or at a worker that is known to work; seconds."""
        return min([super().expected_wait_s(), *self._waits_away_s()])

    def _waits_away_s(self) -> list[float]:
        return [each.expected_wait_s() for each in self._workers if each.has_room and not each.breaker.is_open]

    def _admits(self, claim: Claim) -> bool:
        return super()._admits(claim) or min(self._waits_away_s(), default=math.inf) <= self._max_wait_s

    def worker_stats(self) -> list[HashWorkerStats]:
        """Return each worker's figures."""
        return [worker.stats() for worker in self._workers]

    async def ping_workers(self) -> None:
        """Ask every worker for its load, and learn its threads: until then it counts as one."""
        meetings = [asyncio.wait_for(self._away.offload(each.ping), 2 * PING_TIMEOUT_S) for each in self._workers]
        await asyncio.gather(*meetings, return_exceptions=True)  # anybody who is not met is left for later

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False, until: float | None = None) -> None:
        """End the threads as ``BoundedExecutor.shutdown`` does, and close the connections."""
        self._away.shutdown(wait, cancel_futures=cancel_futures, until=until)
        super().shutdown(wait, cancel_futures=cancel_futures, until=until)
        for worker in self._workers:
            worker.close()

    def _at_worker[T](self, worker: HashWorkerClient, fn: Callable[[], T]) -> T:
        self._here.worker = worker
        try:
            return fn()
        finally:
            self._here.worker = None

    def _ask(self, first: HashWorkerClient, request: Hash) -> bytes | None:
        """Return what a worker answers, ``first`` being asked first; None when the hash is ours to do.

        After one silence nobody else is asked: the person has waited long enough.
        """
        worker: HashWorkerClient | None = first
        tried: list[HashWorkerClient] = []
        while worker is not None:
            tried.append(worker)
            try:
                if worker is first:
                    return first.hash(request)
                with worker.counted():
                    return worker.hash(request)
            except (TimeoutError, WorkerRefused):
                return None
            except (OSError, ProtocolError, WorkerBusy):
                worker = self._freest(but=tried)
        return None

    def _freest(self, but: Sequence[HashWorkerClient] = ()) -> HashWorkerClient | None:
        """Return the worker where a hash would wait least, or None when it would wait less here.

        Here it waits for its turn alone. Workers do not know who asks: a flood fills them, and a caller who holds
        little has their turn here sooner. One that has failed is given a try now and then, by its breaker.
        """
        claim = self.claim()
        with self._lock:
            ahead = self._fair_queue.ahead_of(claim)
        turn_s = self._wait_behind_s(ahead)
        bound_s = min(turn_s, self._max_wait_s)
        waits = [(each.expected_wait_s(), each.under_way, each) for each in self._workers if each not in but]
        for wait_s, _, worker in sorted(waits, key=lambda one: one[:2]):
            if wait_s <= bound_s and worker.has_room and worker.breaker.allows():
                return worker
        return None
