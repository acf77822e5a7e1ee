"""Whether this machine's clock may say at which moment everybody's sessions end.

A clock that is behind leaves the newest sessions alive; one that is ahead refuses those that people open next.
"""

from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from accounts.audit.models import AuditEvent
from ironauth.infrastructure.core import clock
from tokens.sessions.models import Session

#: What clocks of machines that are kept right may differ by.
TOLERANCE: Final = timedelta(seconds=2)


class ClockIsWrongError(Exception):
    """This machine's clock differs from another one, or from what was written before. Its text names the remedy."""

    def __init__(self, told: str, remedy: str) -> None:
        super().__init__(f"Nothing was done: {told} {remedy}")


def require_right() -> None:
    """Refuse where this machine's clock is more than ``TOLERANCE`` off. 1 query on PostgreSQL, 2 on SQLite.

    PostgreSQL has a clock of its own. SQLite has this machine's, so what is newest must not be of the future.

    Raises:
        ClockIsWrongError: It is off.
    """
    if connection.vendor == "postgresql":
        before, there, after = clock.now(), _of_database(), clock.now()
        off = there - after if there > after else min(there - before, timedelta(0))
        if abs(off) > TOLERANCE:
            seconds, how = abs(off).total_seconds(), "behind" if off > timedelta(0) else "ahead of"
            raise ClockIsWrongError(
                f"this machine's clock is {seconds:,.1f} s {how} the database's.",
                "Set the clock that is wrong, or do it on a machine whose clock is right.",
            )
        return
    newest = _newest()
    ahead = newest - clock.now() if newest is not None else timedelta(0)
    if ahead > TOLERANCE:
        raise ClockIsWrongError(
            f"the newest session or audit event is {ahead.total_seconds():,.1f} s in the future of this clock.",
            "Set the clock. If it is right now, and was ahead before, wait that long.",
        )


def _of_database() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        found: datetime = cursor.fetchone()[0]
        return found


def _newest() -> datetime | None:
    """Return when the newest session was opened, or the newest event was recorded; found by their ids."""
    of_session = Session.objects.order_by("-pk").values_list("created_at", flat=True).first()
    of_event = AuditEvent.objects.order_by("-pk").values_list("at", flat=True).first()
    return max((one for one in (of_session, of_event) if one is not None), default=None)
