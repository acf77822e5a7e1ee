"""Figures that are not counted as they happen: how late the loop is (ten times a second), what pools and caches hold.

All figures are written ten times a second, so a process that is killed loses a tenth of a second of them.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Final

from ironauth.infrastructure.cache.memory import freshness
from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.hashing import argon2_build
from ironauth.infrastructure.hashing.pool import hash_pool
from ironauth.infrastructure.telemetry.metrics import Recorder
from ironauth.server.instrumentation.collector_pauses import CollectorPauses

TICK_S: Final = 0.1  # as exact as an alert needs; ten calls a second are 0.02 % of a core
TICKS_A_SAMPLE: Final = 10
_STATM: Final = Path("/proc/self/statm")


class Sampling:
    """Ticks on the running loop from ``start`` until ``stop``."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._pauses = CollectorPauses(recorder)
        self._lag = "ironauth_loop_lag_seconds"
        self._cpu_ns = self._evictions = 0
        self._ticks = 0
        self._due = 0.0  # loop time
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Sample now and from now on."""
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + TICK_S
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self._pauses.start()
        self.sample()

    def stop(self) -> None:
        """Sample no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pauses.stop()
        self._recorder.flush()

    def _tick(self) -> None:
        """Count how late this call is, and so every time that was missed before it (as ``loop_debug`` does)."""
        now = self._loop.time()
        while self._due <= now:
            self._recorder.observe(now - self._due, self._lag)
            self._due += TICK_S
        self._timer = self._loop.call_at(self._due, self._tick)  # first: what follows must not end the ticking
        self._recorder.flush()
        self._ticks += 1
        if self._ticks % TICKS_A_SAMPLE == 0:
            self.sample()

    def sample(self) -> None:
        """Set every gauge of this process."""
        to = self._recorder
        to.set(to.running, "ironauth_requests_running")
        hashes = hash_pool()
        to.set(hashes.expected_wait_s(), "ironauth_hash_expected_wait_seconds")
        to.set(1, "ironauth_hash_build", argon2_build.build())  # known since the start
        for worker in hashes.worker_stats():
            to.set(worker.available, "ironauth_hash_worker_available", worker.name)
            to.set(worker.under_way, "ironauth_hash_worker_under_way", worker.name)
        for pool in (hashes, *database().pools):
            to.set(pool.threads, "ironauth_pool_threads", pool.name)
            to.set(pool.running, "ironauth_pool_running", pool.name)
            to.set(pool.queued, "ironauth_pool_queued", pool.name)
        cache = token_cache()
        to.set(cache.entries, "ironauth_cache_entries")
        to.set(cache.size, "ironauth_cache_bytes")
        to.count("ironauth_cache_evictions", by=max(0, cache.evictions - self._evictions))
        self._evictions = cache.evictions
        if cache.remote is not None:
            to.set(not cache.remote.breaker.is_open, "ironauth_redis_available")
        age = time.monotonic() - freshness.synced_at
        to.set(min(age, _AGES_S), "ironauth_invalidation_feed_age_seconds")
        used = time.process_time_ns()
        to.count("ironauth_worker_cpu_seconds", by=used - self._cpu_ns)
        self._cpu_ns = used
        to.set(_resident_bytes(), "ironauth_worker_resident_bytes")


#: Stands for a feed that has never succeeded, whose age is infinite; a year, which every alert exceeds.
_AGES_S: Final = 365 * 86_400.0


def _resident_bytes() -> int:
    """Return the memory in use; 0 where the system does not say (it is not Linux)."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
