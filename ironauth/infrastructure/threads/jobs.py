"""What the threads of a pool run: one call, and who asks for it."""

from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Final, NamedTuple


class Claim(NamedTuple):
    """Who asks for a job. Both are keys without a meaning here; "" stands for everybody who is not known."""

    network: str = ""
    owner: str = ""


NOBODY: Final = Claim()


class Job:
    """One call, who asks for it, where its outcome goes, and the instant (monotonic) after which it must not start."""

    __slots__ = ("asked_at", "call", "claim", "context", "late", "settle", "start_by")

    def __init__(
        self,
        call: Callable[[], Any],
        *,
        start_by: float,
        late: Callable[[], Exception],
        settle: Callable[[Any, BaseException | None], None],
        claim: Claim = NOBODY,
    ) -> None:
        self.call = call
        self.claim = claim
        self.context: Context = copy_context()  # log lines written by the job carry the request's id
        self.start_by = start_by
        self.late = late
        self.settle = settle
        self.asked_at = 0.0  # monotonic seconds; set when somebody watches
