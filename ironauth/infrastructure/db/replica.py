"""Reads of a replica of PostgreSQL, for answers that may be a little old; where it fails, the primary answers.

How old a replica is, no clock says: without work on the primary the last replayed transaction is old on a replica that
has everything, and a replica that is cut off has replayed all that it has received. So the primary is asked for its
position in the log every now and then. A replica that has reached the position of a moment shows everything that was
committed before that moment.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, connections, reset_queries
from django.db.utils import ConnectionHandler

from ironauth.infrastructure.db.silence import waits
from ironauth.infrastructure.telemetry.logs import get_logger
from ironauth.infrastructure.threads.executor import BoundedExecutor

#: Of one worker, each with its connection to the replica.
THREADS: Final = 2
#: Of the time that a read has in all, the part after which the primary is asked instead.
SHARE: Final = 0.5
#: Seconds without a try after one that failed, so that a replica that is away delays one request in this time.
REST_S: Final = 5.0
#: The same after one that was too far behind.
BEHIND_S: Final = 1.0
#: Positions that are asked for in the time that a replica may be behind.
MARKS: Final = 5
#: Where a primary's log ends, and what a replica has replayed of it, in bytes. Not how much of the log is written: with
#: ``synchronous_commit = off`` a row can be seen before that. A replica that was promoted has a log of its own, whose
#: positions say nothing about the primary's: its connections go on, and it is no replica any more.
_POSITION: Final = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn WHERE NOT pg_is_in_recovery()"
#: Where the last record ends with a page of the log, a primary's position is behind the next header: 24 bytes, or
#: 40 on the first page of a file. A replica's is before it until there is another record, which took an idle primary up
#: to 25 s after a base backup and after a switch of the log file. No record begins and ends in those 40 bytes.
_REPLAYED: Final = """
SELECT lsn + CASE WHEN lsn % current_setting('wal_block_size')::int = 0 THEN 40 ELSE 0 END
FROM (SELECT pg_last_wal_replay_lsn() - '0/0'::pg_lsn AS lsn WHERE pg_is_in_recovery()) AS replica
"""


class PrimaryRead(Protocol):
    """Runs a unit of work on the primary."""

    def __call__[T](self, fn: Callable[[], T], /) -> Awaitable[T]:
        """Return what ``fn`` returns. Raises Unavailable where the primary does not answer."""


class NotOnReplica(Exception):
    """The replica is away, too slow or too far behind; nothing of the unit of work counts."""


class _Behind(Exception):
    """The replica has not replayed as much as is wanted."""


def position() -> int | None:
    """Return how far this thread's server has come in its log, in bytes; None where it is no primary: a unit of work.

    A former primary that came back as a replica has no such position, and PostgreSQL calls the question an error.
    """
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute(_POSITION)
        found = cursor.fetchone()
        return None if found is None else int(found[0])


def replayed() -> int | None:
    """Return how far this thread's server has replayed its primary's log, in bytes; None where it is no replica."""
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute(_REPLAYED)
        found = cursor.fetchone()
        return None if found is None else int(found[0] or 0)


def _drop() -> None:
    """Close this thread's connection, whatever state it is in."""
    connection = connections[DEFAULT_DB_ALIAS]
    with suppress(Error):
        connection.close()
    connection.connection = None
    connection.in_atomic_block = connection.closed_in_transaction = False


class Marks:
    """Positions of the primary, each with the time at which it was asked for, of the last ``bound_s`` seconds."""

    def __init__(self, bound_s: float) -> None:
        self._bound_s = bound_s
        self._known: tuple[tuple[float, int], ...] = ()  # replaced, never changed: threads look at it
        self._next_at = 0.0

    def claim(self, now: float) -> bool:
        """Return whether the caller has to ask the primary now; nobody else is told so for a part of the bound."""
        if now < self._next_at:
            return False
        self._next_at = now + self._bound_s / MARKS
        return True

    def note(self, asked_at: float, reached: int) -> None:
        """Keep what the primary said.

        Args:
            asked_at: When it was asked, so that everything committed before is within ``reached``.
            reached: Its position.
        """
        self._known = (*(mark for mark in self._known if mark[0] >= asked_at - self._bound_s), (asked_at, reached))

    def least(self, now: float) -> int | None:
        """Return what a replica must have replayed to be ``bound_s`` old at most; None when nothing is known."""
        return next((reached for asked_at, reached in self._known if asked_at >= now - self._bound_s), None)


class Replica:
    """One worker's connections to a replica, and what is known of it. For one event loop at a time."""

    def __init__(self, database: Mapping[str, Any], *, bound_s: float) -> None:
        """Connect to nothing yet.

        Args:
            database: Django's description of it, as in ``DATABASES``.
            bound_s: How far a read may be behind the primary, in seconds.
        """
        self._known = ConnectionHandler({DEFAULT_DB_ALIAS: dict(database)})
        self._marks = Marks(bound_s)
        self._rest_until = 0.0
        self._resting_for = ""
        self.executor = BoundedExecutor(
            name="database-replica", threads=THREADS, initializer=self._enter, finalizer=connections.close_all
        )

    async def read[T](self, unit: Callable[[], T], least: int | None, *, primary: PrimaryRead, until: float) -> T:
        """Run a unit of work on the replica, in autocommit mode; every error of the database leaves it to the primary.

        Args:
            unit: What is run; it may run again on the primary.
            least: What the replica must have replayed; None for the bound.
            primary: Runs a unit of work on the primary.
            until: When the caller has to have an answer, by ``time.monotonic()``.

        Raises:
            NotOnReplica: The primary has to be asked.
            Unavailable: The primary did not say how far it is.
            RuntimeError: The unit wrote.
        """
        now = time.monotonic()
        if now < self._rest_until:
            raise NotOnReplica
        if self._resting_for:  # one request tries whether it is over
            self._rest_until = now + REST_S
        if least is None and self._marks.claim(now):
            reached = await primary(position)
            if reached is not None:
                self._marks.note(now, reached)
        try:
            async with asyncio.timeout(max(until - time.monotonic(), 0.0) * SHARE):
                found = await asyncio.get_running_loop().run_in_executor(
                    self.executor, self._perform, unit, least, until
                )
        except TimeoutError:
            waits.cut()
            self._rest("slow", REST_S)
            raise NotOnReplica from None
        except _Behind:
            if least is None:  # who wants one position asks again, and the replica comes there soon
                self._rest("behind", BEHIND_S)
            raise NotOnReplica from None
        except Error as error:
            self._rest("away", REST_S, cause=str(error.__cause__ or error).partition("\n")[0][:200])
            raise NotOnReplica from error
        if self._resting_for:
            get_logger().info("replica_used_again", after=self._resting_for)
            self._rest_until, self._resting_for = 0.0, ""
        return found

    def _enter(self) -> None:
        """Make the replica this thread's one database: whatever a unit of work asks, it asks there."""
        connections[DEFAULT_DB_ALIAS] = self._known.create_connection(DEFAULT_DB_ALIAS)

    def _perform[T](self, unit: Callable[[], T], least: int | None, until: float) -> T:
        if settings.DEBUG:
            reset_queries()
        waits.begin(until)
        try:
            try:
                reached = replayed()
            except Error:  # a connection that died unused, such as one to a replica that was started again
                _drop()
                reached = replayed()
            if reached is None:
                _drop()  # another server may be the replica by now
                raise _Behind
            wanted = self._marks.least(time.monotonic()) if least is None else least
            if wanted is None or reached < wanted:
                raise _Behind
            return unit()
        except Error as error:
            _drop()
            if getattr(error.__cause__, "sqlstate", None) == "25006":  # read_only_sql_transaction
                raise RuntimeError("A unit of work for a replica wrote to the database: run it by write()") from error
            raise
        finally:
            waits.end()

    def _rest(self, why: str, rest_s: float, *, cause: str = "") -> None:
        """Leave the replica alone for a while, and say so once until it is used again."""
        if self._resting_for != why:
            get_logger().warning("replica_not_used", why=why, cause=cause)
        self._rest_until, self._resting_for = time.monotonic() + rest_s, why
