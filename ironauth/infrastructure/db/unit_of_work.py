"""Units of work: one synchronous function, one hop to a thread with its own connection, one commit."""

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed
from django.db import DEFAULT_DB_ALIAS, Error, connections, reset_queries, transaction

from ironauth.infrastructure.core.errors import Unavailable
from ironauth.infrastructure.db import group_commit
from ironauth.infrastructure.db.faults import Fault, classify, outages
from ironauth.infrastructure.db.replica import NotOnReplica, Replica, position
from ironauth.infrastructure.db.silence import waits
from ironauth.infrastructure.telemetry import metrics
from ironauth.infrastructure.telemetry.logs import get_logger
from ironauth.infrastructure.threads.executor import SHUTDOWN_WAIT_S, BoundedExecutor


def open_reader() -> None:
    """Make sure that this thread's SQLite connection is open and unable to write or to take the write lock.

    Set on each new connection rather than in its settings: those belong to all threads, and tests rename the file.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.connection is None:
        connection.ensure_connection()
        connection.transaction_mode = "DEFERRED"  # type: ignore[attr-defined]  # SQLite's wrapper has it
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA query_only = ON")


def drop_connections() -> None:
    """Close this thread's connections, whatever state they are in; the next unit opens new ones."""
    for connection in connections.all(initialized_only=True):
        with suppress(Error):
            connection.close()
        connection.connection = None
        connection.in_atomic_block = connection.closed_in_transaction = False


def tidy_connections() -> None:
    """Close connections that broke or were left inside a transaction, as Django does after each request."""
    for connection in connections.all(initialized_only=True):
        try:
            connection.close_if_unusable_or_obsolete()
        except Error:
            drop_connections()


type Unit = Callable[[], Any]
#: What the units of work of this request are made into before ``write`` runs them; None for nearly every request.
_around: ContextVar[Callable[[Unit], Unit] | None] = ContextVar("around_write", default=None)


@contextmanager
def around_write(around: Callable[[Unit], Unit]) -> Iterator[None]:
    """Have every ``DatabasePool.write`` in this context do something more, in the same transaction.

    Args:
        around: Gets the unit of work and returns the one that runs in its place; called on the event loop.
    """
    token = _around.set(around)
    try:
        yield
    finally:
        _around.reset(token)


#: Retry-After of a 503; seconds. The fault matrix asks for at most 2.
RETRY_AFTER_S = 1
#: Seconds within which a unit that nobody waits for has to begin: as long as a database may be out of reach.
LATER_S = 60.0


class DatabasePool:
    """Runs units of work, each within ``timeout_s`` seconds of being asked for, waiting included.

    Every thread keeps one connection. SQLite: one writer thread, where units that wait share a commit (`group_commit`),
    and ``threads`` readers, whose connections cannot write. Otherwise ``threads`` threads for both. A unit whose caller
    got Unavailable because of the time limit runs to its end, may commit, and occupies its thread until then: the
    answer 503 means "not known". Where the server says nothing any more, `silence` cuts the connection.
    """

    def __init__(self, *, threads: int, timeout_s: float, replica: Replica | None = None) -> None:
        self._timeout_s = timeout_s
        self._replica = replica
        self._sqlite = connections.settings[DEFAULT_DB_ALIAS]["ENGINE"] == "django.db.backends.sqlite3"
        self._readers = BoundedExecutor(name="database", threads=threads, finalizer=connections.close_all)
        self._writers = self._readers
        if self._sqlite:  # one transaction at a time may write; more threads would only wait for its lock
            group = group_commit.GroupCommit(failed=self._failed, afresh=drop_connections)
            self._writers = BoundedExecutor(
                name="database-writer", threads=1, finalizer=connections.close_all, run_batch=group.run
            )
        self._apart = BoundedExecutor(name="database-apart", threads=1, finalizer=connections.close_all)

    async def read[**P, T](self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``fn`` in autocommit mode and return its result.

        It must not write; on SQLite an attempt raises RuntimeError. ``fn`` may run twice: once more on a fresh
        connection when the first turns out to be broken. Raises Unavailable (503, Retry-After) when the database
        cannot be reached, is locked, full or failing, or when the time limit passes; any other error passes through.
        """
        return await self._run(self._readers, lambda: fn(*args, **kwargs), write=False)

    async def read_dedicated[**P, T](self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do as ``read`` does, on a thread and a connection kept for this: what waits for the pool does not delay it.

        For the feed of invalidations alone. When every thread of the pool waited for a lock, it did too, and five
        seconds later no token in memory was believed any more.
        """
        return await self._run(self._apart, lambda: fn(*args, **kwargs), write=False)

    @property
    def has_replica(self) -> bool:
        """Return whether ``read_stale`` may ask another server than ``read``."""
        return self._replica is not None

    async def read_stale[**P, T](self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do as ``read`` does, on a replica that is at most ``IRONAUTH_REPLICA_MAX_LAG_S`` behind where there is one.

        For lists, search and exports alone, and never for what decides who somebody is or what they may do:
        ``ironauth/tests/test_replica_reads.py`` has the list. ``fn`` may run once on each.
        """
        return await self._read_replica(lambda: fn(*args, **kwargs), None)

    async def read_since[**P, T](self, reached: int | None, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do as ``read_stale`` does, but miss nothing that was committed when ``position`` returned ``reached``."""
        if reached is None:
            return await self.read(fn, *args, **kwargs)
        return await self._read_replica(lambda: fn(*args, **kwargs), reached)

    async def position(self) -> int | None:
        """Return how far the primary is, for ``read_since``; None without a replica. Raises Unavailable."""
        return None if self._replica is None else await self.read(position)

    async def _read_replica[T](self, unit: Callable[[], T], least: int | None) -> T:
        deadline = time.monotonic() + self._timeout_s
        if self._replica is not None:
            with suppress(NotOnReplica):
                return await self._replica.read(unit, least, primary=self.read, until=deadline)
        return await self._run(self._readers, unit, write=False, timeout_s=deadline - time.monotonic())

    async def write[**P, T](self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``fn`` in one transaction (``BEGIN IMMEDIATE`` on SQLite), commit, and return its result.

        Any exception rolls back. Raises Unavailable as ``read`` does. ``fn`` may run twice: when its connection
        broke before COMMIT was sent, or the server chose it as the victim of a deadlock. A COMMIT that fails
        because the connection broke may have taken effect and is never repeated: Unavailable.
        """
        unit: Callable[[], T] = lambda: fn(*args, **kwargs)  # noqa: E731 - a closure, as for the others
        around = _around.get()
        return await self._run(self._writers, unit if around is None else around(unit), write=True)

    async def write_autocommit[**P, T](self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``fn`` where it may write, in autocommit mode: for a unit whose one writing statement decides everything.

        It needs half the round trips of ``write`` (PostgreSQL: 2 for 4). Until it writes, ``fn`` may run twice; from
        then on a broken connection is Unavailable, as in a COMMIT (in a group on SQLite all of it may be undone, and
        run again). So let ``fn`` read something first, or a connection
        that died unused costs its caller a 503. ``CompiledUpdate``, ``CompiledInsert`` and ``CompiledDelete`` tell the
        pool when it comes to writing; ``fn`` has to call ``about_to_commit()`` before it writes by anything else.
        Raises Unavailable as ``read`` does.
        """
        return await self._run(self._writers, lambda: fn(*args, **kwargs), write=True, atomic=False)

    def enqueue_write(self, fn: Callable[[], object], *, done: Callable[[BaseException | None], None]) -> None:
        """Queue ``fn`` for ``write_autocommit`` and return at once; no event loop has to run.

        ``done`` hears on the pool's thread that it was written, or why not. ``close`` runs what is queued first.
        """
        attempt = _Attempt(fn, atomic=False, reader=False)
        written = self._writers.submit(self._perform, attempt, time.monotonic() + LATER_S)
        written.add_done_callback(lambda job: done(job.exception()))

    @property
    def pools(self) -> tuple[BoundedExecutor, ...]:
        """The pools that units run on: one for both, or readers and the writer."""
        return (self._readers,) if self._writers is self._readers else (self._readers, self._writers)

    def is_own_thread(self) -> bool:
        """Return whether the caller runs on one of the pool's threads."""
        return any(pool.is_own_thread() for pool in self._all())

    def close(self) -> None:
        """Close every thread's connection and end the threads; a later unit starts new ones.

        Blocks, for ``SHUTDOWN_WAIT_S`` at most: a thread that still waits for the database then is left behind.
        """
        until = time.monotonic() + SHUTDOWN_WAIT_S
        for executor in self._all():
            executor.shutdown(until=until)

    def _all(self) -> tuple[BoundedExecutor, ...]:
        more = () if self._replica is None else (self._replica.executor,)
        return (self._readers, self._writers, self._apart, *more)

    async def _run[T](
        self, executor: BoundedExecutor, unit: Callable[[], T], *, write: bool, atomic: bool | None = None,
        timeout_s: float | None = None,
    ) -> T:  # fmt: skip
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + timeout_s
        attempt = _Attempt(unit, atomic=write if atomic is None else atomic, reader=self._sqlite and not write)
        try:
            async with asyncio.timeout(timeout_s) as limit:
                # Not by asgiref, as everywhere else: measured in docs/decisions/executors.md.
                return await asyncio.get_running_loop().run_in_executor(executor, self._perform, attempt, deadline)
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._too_late() from None

    def _too_late(self) -> Unavailable:
        if metrics.recorder is not None:
            metrics.recorder.count("ironauth_pool_refusals", "database")
        get_logger().warning("database_timeout", timeout_s=self._timeout_s, queued=self._readers.queued)
        waits.cut()
        return Unavailable(retry_after_s=RETRY_AFTER_S)

    def _perform[T](self, attempt: "_Attempt[T]", deadline: float) -> T:
        """Run a unit on this thread, in the group whose commit it shares or by itself; none that begins too late."""
        if time.monotonic() > deadline:
            raise self._too_late()
        _here.deadline = deadline
        if settings.DEBUG:
            reset_queries()  # Django keeps every query in memory; no request signal clears it on this thread
        try:
            group = group_commit.current()
            return self._alone(attempt, deadline) if group is None else attempt.run_in(group)
        finally:
            del _here.deadline

    def _alone[T](self, attempt: "_Attempt[T]", deadline: float) -> T:
        """Run a unit; once more when that is safe and there is time."""
        # A health check is a query for each unit; `again` below does without.
        connections[DEFAULT_DB_ALIAS].health_check_enabled = False  # type: ignore[attr-defined]  # Django's wrapper has it
        waits.begin(deadline)
        try:
            try:
                return attempt.run()
            except Error as error:
                fault = classify(error, reader=attempt.reader)
                again = fault is Fault.CONFLICT or (fault is Fault.BROKEN and not attempt.committing)
                if not again or time.monotonic() >= deadline:
                    raise
            drop_connections()
            return attempt.run()
        except Error as error:
            if classify(error, reader=attempt.reader) is Fault.OTHER:
                raise
            raise self._failed(error, reader=attempt.reader) from error
        finally:
            waits.end()
            tidy_connections()

    def _failed(self, error: Error, *, reader: bool = False) -> Exception:
        """Return what callers hear of an error that is none of the program, and give the connection up."""
        fault = classify(error, reader=reader)
        drop_connections()
        if fault is Fault.READ_WROTE:
            return RuntimeError("A unit of work run by read() wrote to the database: run it by write()")
        outages.report(fault, cause=_cause(error))
        return Unavailable(retry_after_s=RETRY_AFTER_S)


class _Attempt[T]:
    """One unit of work, and whether its last run has come as far as COMMIT."""

    def __init__(self, unit: Callable[[], T], *, atomic: bool, reader: bool) -> None:
        self._unit = unit
        self._atomic = atomic
        self.reader = reader
        self.committing = False

    def run(self) -> T:
        self.committing = False
        if not self._atomic:
            if self.reader:
                open_reader()
            _here.attempt = self
            try:
                return self._unit()
            finally:
                del _here.attempt  # an idle thread must not keep a unit's arguments alive
        with transaction.atomic():
            result = self._unit()
            self.committing = True
        return result

    def run_in(self, group: group_commit.Group) -> T:
        """Run as a part of a larger transaction: ``write`` needs a savepoint, ``write_autocommit`` none."""
        try:
            if not self._atomic:
                return self._unit()
            with transaction.atomic():
                return self._unit()
        except Error as error:
            group.lost = group.lost or classify(error, reader=False) is not Fault.OTHER
            raise


_here = threading.local()


def about_to_commit() -> None:
    """Say, in a unit run by ``write_autocommit``, that what comes now may take effect, and must not be repeated."""
    attempt: _Attempt[object] | None = getattr(_here, "attempt", None)
    if attempt is not None:
        attempt.committing = True


def raise_if_timed_out() -> None:
    """Raise Unavailable when the time of the unit that runs here is over: its caller is told 503, and may ask again.

    What such a unit sees may be its caller's own next try, so it must not be taken for somebody else's. That it raises
    and returns nothing makes sure of the 503: a loop that is busy may hear of the unit before it gives it up.
    """
    if time.monotonic() >= getattr(_here, "deadline", math.inf):
        raise Unavailable(retry_after_s=RETRY_AFTER_S)


def ping() -> bool:
    """Ask the database for one row: the unit of work that tells whether it can be reached."""
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("SELECT 1")
        return bool(cursor.fetchone() == (1,))


def _cause(error: Exception) -> str:
    """Return the driver's first line, which names the fault and no data."""
    lines = str(error.__cause__ or error).splitlines()
    return lines[0][:200] if lines else type(error).__name__


_shared: DatabasePool | None = None
_shared_lock = threading.Lock()


def database() -> DatabasePool:
    """Return the process's pool, made on first use from ``IRONAUTH_DATABASE_THREADS`` and ``..._TIMEOUT_S``."""
    global _shared  # noqa: PLW0603 - one bound per process is the point
    pool = _shared
    if pool is None:
        with _shared_lock:
            described = settings.IRONAUTH_REPLICA
            pool = _shared = _shared or DatabasePool(
                threads=settings.IRONAUTH_DATABASE_THREADS,
                timeout_s=settings.IRONAUTH_DATABASE_TIMEOUT_S,
                replica=None if described is None else Replica(described, bound_s=settings.IRONAUTH_REPLICA_MAX_LAG_S),
            )
    return pool


def is_pool_thread() -> bool:
    """Return whether the caller is a unit of work, on a thread of the process's pool."""
    return _shared is not None and _shared.is_own_thread()


def _forget(*, setting: str, **_: object) -> None:
    global _shared
    if setting in (
        "IRONAUTH_DATABASE_THREADS", "IRONAUTH_DATABASE_TIMEOUT_S", "DATABASES", "IRONAUTH_REPLICA",
        "IRONAUTH_REPLICA_MAX_LAG_S",
    ):  # fmt: skip
        with _shared_lock:
            pool, _shared = _shared, None
        if pool is not None:
            pool.close()


def _after_fork() -> None:
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()


setting_changed.connect(_forget, dispatch_uid="ironauth.database")
os.register_at_fork(after_in_child=_after_fork)
