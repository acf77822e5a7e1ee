"""What the threads of an executor run: one call, and who asks for it."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any, Final, NamedTuple


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
            claim: who asks for it.
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
