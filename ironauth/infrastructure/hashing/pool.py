"""The hash pool of this process: on its own threads, and at hash workers where the settings name some."""

import os
import threading

from django.conf import settings
from django.core.signals import setting_changed

from ironauth.infrastructure.hashing.local_pool import HashPool

_shared: HashPool | None = None
_shared_lock = threading.Lock()


def hash_pool() -> HashPool:
    """Return the process's pool, made from the settings ``IRONAUTH_HASH_*`` on first use."""
    global _shared  # noqa: PLW0603 - one bound per process is the point
    pool = _shared
    if pool is None:
        with _shared_lock:
            pool = _shared = _shared or _make()
    return pool


def _make() -> HashPool:
    size = settings.IRONAUTH_HASH_THREADS, settings.IRONAUTH_HASH_MAX_WAIT_S, settings.IRONAUTH_HASH_NICE
    apart = settings.IRONAUTH_HASH_APART
    if settings.IRONAUTH_HASH_WORKERS is None:
        return HashPool(*size, apart=apart)
    from ironauth.infrastructure.hashing.remote.pool import (  # noqa: PLC0415 - loaded only where it is used
        SharedHashPool,
    )

    return SharedHashPool(*size, settings.IRONAUTH_HASH_WORKERS, apart=apart)


def _forget(*, setting: str, **_: object) -> None:
    global _shared
    if setting in (
        "IRONAUTH_HASH_THREADS", "IRONAUTH_HASH_MAX_WAIT_S", "IRONAUTH_HASH_NICE", "IRONAUTH_HASH_APART",
        "IRONAUTH_HASH_WORKERS",
    ):  # fmt: skip
        with _shared_lock:
            pool, _shared = _shared, None
        if pool is not None:
            pool.shutdown(wait=False)


def _after_fork() -> None:
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()


setting_changed.connect(_forget, dispatch_uid="ironauth.hash_pool")
os.register_at_fork(after_in_child=_after_fork)
