"""Reading the Invalidation table so that no row is ever missed, although ids become visible out of order.

A transaction takes its id when it inserts and shows it when it commits. On PostgreSQL a later id may therefore be seen
before an earlier one, however long the earlier transaction takes. Skipped ids are kept as gaps and asked for again,
until every transaction that was running when the gap was seen has ended: then the id will never exist. On SQLite
writers come one after the other, and there are no gaps.
"""

from collections.abc import Collection
from datetime import datetime

import msgspec
from django.db import connection
from django.db.models import Max, Q

from ironauth.infrastructure.models import Invalidation

#: A feed that is further behind than this many rows forgets everything instead of reading them.
MAX_ROWS = 10_000
#: Ids below the newest one that may still be uncommitted when a feed starts, and the most gaps that are followed.
MAX_GAPS = 1_000
#: Seconds in which a statement may be invisible, between taking its id and having a transaction number; one INSERT
#: takes microseconds.
GAP_MIN_S = 3.0


class Page(msgspec.Struct, frozen=True):
    """What one reading found."""

    rows: tuple[tuple[int, str], ...]
    newest: int
    #: The rows do not continue what was read before: the feed starts, fell behind, or the table was replaced.
    restarted: bool
    #: Every transaction with a number below it had ended before the rows were read (PostgreSQL).
    ended: int
    #: Every transaction that ran while the rows were read has a number below it (PostgreSQL).
    fence: int
    #: When the row ``newest`` was written; None where there is none.
    written: datetime | None = None


def read_page(newest: int | None, gaps: Collection[int], written: datetime | None = None) -> Page:
    """Return what has become visible after ``newest`` or in ``gaps``; a unit of work. 1 query, at most 3.

    The row ``newest`` itself is read again: when it is gone, or was written at another time, the table is not the one
    that was read before. A backup was put in its place, or a replica that had not received the last rows.

    Args:
        newest: The greatest id that was read so far; None for the first read.
        gaps: Smaller ids that were not there, and whose transactions may still commit.
        written: When the row ``newest`` was written; None for one that is not known.
    """
    postgres = connection.vendor == "postgresql"
    ended = _number("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint") if postgres and gaps else 0
    rows: tuple[tuple[int, str, datetime], ...] = ()
    continues = newest is not None
    if newest is not None:
        found = Invalidation.objects.filter(Q(id__gte=newest) | Q(id__in=list(gaps))).order_by("id")
        rows = tuple(found.values_list("id", "tag", "created_at")[: MAX_ROWS + 1])
        same = newest == 0 or any(row_id == newest and written in (None, at) for row_id, _, at in rows)
        continues = same and len(rows) <= MAX_ROWS
    if not continues:
        newest = Invalidation.objects.aggregate(newest=Max("id"))["newest"] or 0
        after = newest - MAX_GAPS if postgres else newest
        found = Invalidation.objects.filter(id__gt=after, id__lte=newest).order_by("id")
        rows = tuple(found.values_list("id", "tag", "created_at"))
    last = max((row_id for row_id, *_ in rows), default=newest or 0)
    # The number of a transaction of our own: greater than that of every one that has begun to write by now.
    seen = tuple((row_id, tag) for row_id, tag, _ in rows)
    fence = _number("SELECT pg_current_xact_id()::text::bigint") if postgres and _skips(newest, seen, continues) else 0
    last = max(last, newest or 0)
    return Page(seen, last, not continues, ended, fence, next((at for row_id, _, at in rows if row_id == last), None))


def _skips(newest: int | None, rows: tuple[tuple[int, str], ...], continues: bool) -> bool:
    """Return whether ids are missing among the rows that are new."""
    if not rows:
        return False
    if not continues:
        return True
    fresh = [row_id for row_id, _ in rows if row_id > (newest or 0)]
    return bool(fresh) and fresh[-1] - (newest or 0) != len(fresh)


def _number(sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])


class _Gap(msgspec.Struct, frozen=True):
    fence: int
    seen_at: float


class GapTracker:
    """Which ids have been read, and which may still appear. Not thread-safe; one feed owns it."""

    def __init__(self) -> None:
        self.newest: int | None = None
        self.written: datetime | None = None  # the row ``newest``
        self._gaps: dict[int, _Gap] = {}

    @property
    def gaps(self) -> tuple[int, ...]:
        """Return the skipped ids that may still appear."""
        return tuple(self._gaps)

    @property
    def position(self) -> int:
        """Return the id up to which everything has been read or will never exist."""
        return min(self._gaps) - 1 if self._gaps else self.newest or 0

    def advance(self, page: Page, now: float) -> list[tuple[int, str]]:
        """Take in ``page``, read at ``now`` (monotonic seconds); return the rows not seen before."""
        if page.restarted:
            self._gaps.clear()
            first = max(1, page.newest - MAX_GAPS + 1)
            before = first - 1
        else:
            before = self.newest or 0
        fresh = [(row_id, tag) for row_id, tag in page.rows if row_id > before or row_id in self._gaps]
        seen = {row_id for row_id, _ in page.rows}
        for row_id in seen:
            self._gaps.pop(row_id, None)
        for row_id, gap in list(self._gaps.items()):
            if page.ended >= gap.fence and now - gap.seen_at >= GAP_MIN_S:
                del self._gaps[row_id]
        if page.fence:
            for row_id in range(max(before + 1, page.newest - MAX_GAPS + 1), page.newest):
                if row_id not in seen:
                    self._gaps[row_id] = _Gap(page.fence, now)
        while len(self._gaps) > MAX_GAPS:
            del self._gaps[min(self._gaps)]
        self.newest, self.written = page.newest, page.written
        return [] if page.restarted else fresh
