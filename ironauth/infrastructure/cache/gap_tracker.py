"""Reading the Invalidation table so that no row is ever missed, although ids become visible out of order.

A transaction takes its ids when it inserts and shows them when it commits. On PostgreSQL a later id may therefore be
seen before an earlier one, however long the earlier transaction takes. Skipped ids are kept as gaps, each a range of
them, and asked for again, until every transaction that was running when the gap was seen has ended: then they will
never exist. On SQLite writers come one after the other, and there are no gaps.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec
from django.db import connection
from django.db.models import Q

from ironauth.infrastructure.models import Invalidation

#: A feed that is further behind than this many rows forgets everything instead of reading them. As many of the newest
#: rows are looked through for gaps when a feed starts.
MAX_ROWS = 10_000
#: The most gaps that are followed. Past them the feed forgets everything at each reading until they have ended.
MAX_GAPS = 1_000
#: Seconds in which a statement may be invisible, between taking its id and having a transaction number; one INSERT
#: takes microseconds.
GAP_MIN_S = 3.0

#: The first and the last of ids that follow each other.
type Ids = tuple[int, int]


class Page(msgspec.Struct, frozen=True):
    """What one reading found."""

    #: Empty after a restart: of these nothing is applied.
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
    #: Ids below ``newest`` that were not there and are not among the gaps yet, in order (PostgreSQL).
    missing: tuple[Ids, ...] = ()
    #: After a restart: ids from 1 to it were not looked through.
    unread: int = 0


def read_page(newest: int | None, gaps: Collection[Ids], written: datetime | None = None) -> Page:
    """Return what has become visible after ``newest`` or in ``gaps``; a unit of work. 1 query, at most 5.

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
    if newest is not None:
        wanted = Q(Q(id__gte=newest), *(Q(id__range=gap) for gap in gaps), _connector=Q.OR)
        found = Invalidation.objects.filter(wanted).order_by("id")
        rows = tuple(found.values_list("id", "tag", "created_at")[: MAX_ROWS + 1])
        same = newest == 0 or any(row_id == newest and written in (None, at) for row_id, _, at in rows)
        if same and len(rows) <= MAX_ROWS:
            last, _, at = rows[-1] if rows else (0, "", None)
            ids = [row_id for row_id, *_ in rows if row_id > newest]
            missing = absent(newest + 1, last, ids) if postgres else ()
            seen = tuple((row_id, tag) for row_id, tag, _ in rows)
            return Page(seen, last, False, ended, _fence(missing), at, missing)
    last, at = Invalidation.objects.order_by("-id").values_list("id", "created_at").first() or (0, None)
    if not postgres or not last:
        return Page((), last, True, 0, 0, at)
    present = Invalidation.objects.filter(id__lte=last).order_by("-id").values_list("id", flat=True)
    ids = sorted(present[:MAX_ROWS])
    unread = ids[0] - 1 if len(ids) == MAX_ROWS else 0
    missing = absent(unread + 1, last, ids)
    return Page((), last, True, 0, _fence(missing, unread), at, missing, unread)


def absent(first: int, last: int, ids: Sequence[int]) -> tuple[Ids, ...]:
    """Return the ranges of ids that are missing.

    Args:
        first: The lowest id that may be missing.
        last: The highest.
        ids: Those between them that are there, in order.
    """
    ranges: list[Ids] = []
    for row_id in (*ids, last + 1):
        if row_id > first:
            ranges.append((first, row_id - 1))
        first = row_id + 1
    return tuple(ranges)


def _fence(missing: tuple[Ids, ...], unread: int = 0) -> int:
    """Return the number of a transaction of our own: greater than that of each that has begun to write by now.

    0 where nothing is missing.
    """
    return _number("SELECT pg_current_xact_id()::text::bigint") if missing or unread else 0


def _number(sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])


class _Gap(msgspec.Struct, frozen=True):
    first: int
    last: int
    fence: int
    seen_at: float

    def ends(self, ended: int, now: float) -> bool:
        """Return whether its ids will never exist if they have not been seen by now."""
        return ended >= self.fence and now - self.seen_at >= GAP_MIN_S


class GapTracker:
    """Which ids have been read, and which may still appear. Not thread-safe; one feed owns it."""

    def __init__(self) -> None:
        self.newest: int | None = None
        self.written: datetime | None = None  # the row ``newest``
        self._gaps: list[_Gap] = []  # in order
        self._blind: _Gap | None = None  # from the first id on that is not followed

    @property
    def gaps(self) -> tuple[Ids, ...]:
        """Return the skipped ids that may still appear, and are to be read; of those not followed the first alone."""
        followed = tuple((gap.first, gap.last) for gap in self._gaps)
        return (*followed, (self._blind.first, self._blind.first)) if self._blind else followed

    @property
    def position(self) -> int:
        """Return the id up to which everything has been read or will never exist."""
        open_ids = [first for first, _ in self.gaps]
        return min(open_ids) - 1 if open_ids else self.newest or 0

    def has_read(self, row_id: int) -> bool:
        """Return whether a reading has found the row of that id, or it will never exist."""
        open_gaps = [*self._gaps, self._blind] if self._blind else self._gaps
        return row_id <= (self.newest or 0) and not any(gap.first <= row_id <= gap.last for gap in open_gaps)

    def advance(self, page: Page, now: float) -> list[tuple[int, str]] | None:
        """Take in ``page``, read at ``now`` (monotonic seconds).

        Returns:
            The rows not seen before; None where some may have been missed, and all that is held must be forgotten.
        """
        before, blind = self.newest or 0, self._blind
        if page.restarted:
            self._gaps, self._blind = [], None
            if page.unread:
                self._blind = _Gap(1, page.unread, page.fence, now)
        elif blind and blind.ends(page.ended, now):
            self._blind = None
        seen = sorted(row_id for row_id, _ in page.rows)
        gaps: list[_Gap] = []
        for gap in self._gaps:
            if not gap.ends(page.ended, now):
                ids = seen[bisect_left(seen, gap.first) : bisect_right(seen, gap.last)]
                gaps += (_Gap(*ids, gap.fence, gap.seen_at) for ids in absent(gap.first, gap.last, ids))
        gaps += (_Gap(*ids, page.fence, now) for ids in page.missing)
        self._gaps = gaps[:MAX_GAPS]
        for gap in gaps[MAX_GAPS:]:
            first = min(gap.first, self._blind.first if self._blind else gap.first)
            fence = max(gap.fence, self._blind.fence if self._blind else 0)
            self._blind = _Gap(first, gap.last, fence, now)
        self.newest, self.written = page.newest, page.written
        if page.restarted or blind:
            return None
        return [(row_id, tag) for row_id, tag in page.rows if row_id != before]
