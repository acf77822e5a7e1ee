"""Group commit: units of work that wait for SQLite's one writer share a transaction, and its wait for the disk.

A commit waits for the disk (``synchronous=FULL``), 0.2 ms here. The worker falls asleep and wakes up for it, and its
next work runs on cold caches. 16 clients that refresh got 870 answers a second at 1.0 ms of CPU time each; with one
commit for all that wait it is 1,940 at 0.5 ms. Units that join have waited anyway, and no caller hears of a result
before it is on the disk.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from django.db import DEFAULT_DB_ALIAS, Error, IntegrityError, connections, transaction

from ironauth.infrastructure.threads.executor import NextJob, Outcome, RunJob
from ironauth.infrastructure.threads.job_queues import Job

#: Units that share a commit, at most.
MOST: Final = 32
#: Seconds after which no further unit joins: the first ones wait for it, and other processes for the lock.
JOIN_WITHIN_S: Final = 0.005


class Group:
    """A transaction that units on this thread share; ``lost``: one has met an error that may have ended it."""

    def __init__(self) -> None:
        self.lost = False
        self.is_committing = False
        self.is_committed = False

    def note_commit(self) -> None:
        """Say that nothing of it can be undone, or may be repeated, from now on."""
        self.is_committed = True


class _LostError(Exception):
    """The transaction cannot be gone on with."""


class GroupCommit:
    """Runs what waits in a writer's queue.

    ``failed`` returns what callers hear of a commit that failed; ``afresh`` gives the thread's connection up.
    """

    def __init__(self, *, failed: Callable[[Error], Exception], afresh: Callable[[], None]) -> None:
        self._failed = failed
        self._afresh = afresh

    def run(self, first: Job, run: RunJob, more: NextJob) -> list[Outcome]:
        """Run ``first`` by itself when nobody waits behind it, else with what waits, and commit once.

        A unit that fails undoes its own part. When the transaction is lost before its commit, or a constraint forbids
        that (SQLite looks at foreign keys then), nothing of it has happened, and every unit runs again by itself. When
        the commit fails otherwise, each unit in it fails with that, and of no result. So they do of an error
        behind it, in a callback that one of them left.
        """
        second = more()
        if second is None:
            return [run(first)]
        taken = [first, second]
        group = _here.group = Group()
        try:
            with transaction.atomic():
                transaction.on_commit(group.note_commit)  # before the units' own callbacks, any of which may fail
                done = self._joined(group, taken, run, more)
                group.is_committing = True
        except (Error, _LostError) as error:
            _here.group = None
            if group.is_committed:
                return [(job, None, error) for job in taken]
            if isinstance(error, Error) and group.is_committing and not isinstance(error, IntegrityError):
                return [(job, None, self._failed(error)) for job in taken]
            self._afresh()
            return [run(job) for job in taken]
        except BaseException as error:  # noqa: BLE001 - what waited for the commit went wrong: the thread must live on
            return [(job, None, error) for job in taken]
        finally:
            _here.group = None
        return done

    def _joined(self, group: Group, taken: list[Job], run: RunJob, more: NextJob) -> list[Outcome]:
        """Run those taken, then what else waits.

        Raises:
            _LostError: a unit has met an error after which SQLite or Django do not go on with the transaction.
        """
        connection = connections[DEFAULT_DB_ALIAS]
        until = time.monotonic() + JOIN_WITHIN_S
        done: list[Outcome] = []
        for job in taken:  # it grows meanwhile
            done.append(run(job))
            if group.lost or connection.needs_rollback or not connection.connection.in_transaction:
                raise _LostError  # SQLite rolled back, and COMMIT would not complain: it does nothing then
            may_join = len(done) == len(taken) < MOST and time.monotonic() < until
            if may_join and (another := more()) is not None:
                taken.append(another)
        return done


_here = threading.local()


def current() -> Group | None:
    """Return the group whose transaction is open on this thread."""
    group: Group | None = getattr(_here, "group", None)
    return group
