"""A pool's jobs and the order of their turns: in order of arrival, or fairly between those who asked for them.

A queue is not thread-safe: its pool holds a lock around every call.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any, Final, NamedTuple, Protocol


class Claim(NamedTuple):
    """Who asks for a job. Both are keys without a meaning here; "" stands for everybody who is not known."""

    network: str = ""
    owner: str = ""


NOBODY: Final = Claim()


class Job(Future[Any]):
    """The future of one call. Cancelling it takes the call out of the queue at once."""

    def __init__(
        self,
        call: Callable[[], Any],
        *,
        claim: Claim = NOBODY,
        withdraw: Callable[["Job"], bool] = lambda _job: False,
    ) -> None:
        """Make the future of a call that is not queued yet.

        Args:
            call: what a thread runs.
            claim: The network and the owner that ask for it.
            withdraw: takes the job out of its queue, and tells whether it was there.
        """
        super().__init__()
        self.call = call
        self.claim = claim
        self.context: Context = copy_context()  # log lines written by the job carry the request's id
        self.submitted_at = time.monotonic()
        self._withdraw = withdraw

    def cancel(self) -> bool:
        """Cancel a call that has not started, as ``Future.cancel`` does, and free its place in the queue."""
        cancelled = super().cancel()
        if cancelled and self._withdraw(self):
            self.set_running_or_notify_cancel()
        return cancelled


#: Jobs of one owner that may wait while jobs of others wait. A person needs one at a time; four cover retries.
MOST_OF_ONE_OWNER: Final = 4


class JobQueue(Protocol):
    """What a pool needs of a queue."""

    def __len__(self) -> int:
        """Return how many jobs wait."""

    def put(self, job: Job) -> Job | None:
        """Add ``job``; return the job that has to go, which may be ``job`` itself, or None."""

    def take(self) -> Job:
        """Remove the job whose turn it is, and return it; there must be one."""

    def drop(self, job: Job) -> bool:
        """Remove ``job``; return False when it does not wait here."""


class InOrder(OrderedDict[Job, None]):
    """Every job is taken in, and they take their turns as they came.

    An OrderedDict, because a job withdrawn from the middle must cost O(1) under a flood of cancellations.
    """

    def put(self, job: Job) -> None:
        """See ``JobQueue``."""
        self[job] = None

    def take(self) -> Job:
        """See ``JobQueue``."""
        return self.popitem(last=False)[0]

    def drop(self, job: Job) -> bool:
        """See ``JobQueue``."""
        return self.pop(job, _ABSENT) is not _ABSENT


_ABSENT: Final = object()


class _Line:
    """The jobs of one network that wait, by owner; the owner whose turn it is comes first."""

    def __init__(self) -> None:
        self.owners: OrderedDict[str, InOrder] = OrderedDict()
        self.waiting = 0

    def add(self, job: Job) -> None:
        self.owners.setdefault(job.claim.owner, InOrder()).put(job)
        self.waiting += 1

    def take(self) -> Job:
        owner, jobs = next(iter(self.owners.items()))
        job = jobs.take()
        self.waiting -= 1
        if jobs:
            self.owners.move_to_end(owner)
        else:
            del self.owners[owner]
        return job

    def drop(self, job: Job) -> bool:
        jobs = self.owners.get(job.claim.owner)
        if jobs is None or not jobs.drop(job):
            return False
        self.waiting -= 1
        if not jobs:
            del self.owners[job.claim.owner]
        return True

    def held_by(self, owner: str) -> int:
        return len(self.owners.get(owner, ()))

    def largest(self) -> InOrder:
        """Return the jobs of the owner who has the most here; of several, the one who came with the newest."""
        return max(self.owners.values(), key=lambda jobs: (len(jobs), _newest(jobs).submitted_at))


class FairQueue:
    """Networks take turns, and inside a network its owners; in a full queue the one who holds the most makes room.

    A network that is alone may use everything, because a whole company may have one address. When ``room()`` jobs
    wait, a newcomer whose network holds less than the largest takes the place of the newest job of that network's
    largest owner; inside the largest network the same holds between owners. Otherwise the newcomer is refused
    (longest queue drop: what a flood loses is its own). While others wait, one owner has ``MOST_OF_ONE_OWNER`` places,
    in however many networks; jobs without an owner have no such bound.
    """

    def __init__(self, room: Callable[[], int]) -> None:
        """``room`` tells how many jobs may wait now."""
        self._room = room
        self._lines: OrderedDict[str, _Line] = OrderedDict()
        self._owners: Counter[str] = Counter()
        self._waiting = 0

    def __len__(self) -> int:
        """Return how many jobs wait."""
        return self._waiting

    def put(self, job: Job) -> Job | None:
        """Add ``job``, if it may wait; return the one that may not, which is ``job`` itself or makes room for it."""
        if self._has_enough(job.claim):
            return job
        displaced = None
        if self._waiting >= self._room():
            displaced = self._displaced_by(job.claim)
            if displaced is None:
                return job
            self.drop(displaced)
        self._lines.setdefault(job.claim.network, _Line()).add(job)
        self._owners[job.claim.owner] += 1
        self._waiting += 1
        return displaced

    def take(self) -> Job:
        """Remove the job whose turn it is, and return it; its network is the last one from now on."""
        network, line = next(iter(self._lines.items()))
        job = line.take()
        self._forget(job)
        if line.waiting:
            self._lines.move_to_end(network)
        return job

    def drop(self, job: Job) -> bool:
        """Remove ``job``; return False when it does not wait here."""
        line = self._lines.get(job.claim.network)
        if line is None or not line.drop(job):
            return False
        self._forget(job)
        return True

    def admits(self, claim: Claim) -> bool:
        """Return whether a job with this claim would be taken in now."""
        if self._has_enough(claim):
            return False
        return self._waiting < self._room() or self._displaced_by(claim) is not None

    def ahead_of(self, claim: Claim) -> int:
        """Return how many jobs at most take their turns before one with this claim, if nobody else comes."""
        before = 0
        if own := self._lines.get(claim.network):
            held = own.held_by(claim.owner)
            before = sum(min(len(jobs), held + 1) for jobs in own.owners.values())
        others = (line.waiting for network, line in self._lines.items() if network != claim.network)
        return before + sum(min(waiting, before + 1) for waiting in others)

    def _has_enough(self, claim: Claim) -> bool:
        """Return whether the owner has all the places that they may have while others wait."""
        if not claim.owner:
            return False
        held = self._owners.get(claim.owner, 0)
        return held >= MOST_OF_ONE_OWNER and self._waiting > held

    def _displaced_by(self, claim: Claim) -> Job | None:
        """Return the job that makes room in a full queue; None when nobody holds more than the newcomer then would."""
        if not self._lines:
            return None
        largest = max(self._lines.values(), key=lambda line: line.waiting)
        own = self._lines.get(claim.network)
        if (own.waiting if own else 0) + 1 < largest.waiting:
            return _newest(largest.largest())
        jobs = own.largest() if own else InOrder()
        return _newest(jobs) if own and own.held_by(claim.owner) + 1 < len(jobs) else None

    def _forget(self, job: Job) -> None:
        """Take a job that has left its line out of the counts."""
        self._waiting -= 1
        owner, network = job.claim.owner, job.claim.network
        if self._owners[owner] == 1:
            del self._owners[owner]
        else:
            self._owners[owner] -= 1
        if not self._lines[network].waiting:
            del self._lines[network]


def _newest(jobs: InOrder) -> Job:
    return next(reversed(jobs))
