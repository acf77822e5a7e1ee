"""How often things happened lately, and in an equally long time before: the figures of the admin's start page.

Events never change, so the count of a stretch of time that is over stays true. The first look counts all stretches;
later ones count only those at the ends of both times, every ``FRESH_S`` seconds at most.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

from django.core.cache import cache
from django.db.models import Count, Q, QuerySet, Value

from accounts.audit.models import AuditEvent
from accounts.audit.recording import Event, Outcome
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.core.ids import first_id_at
from ironauth.infrastructure.db.unit_of_work import LATER_S

#: Hours that can be looked at, and how many of them are a bar.
PERIODS: Final = {24: 1, 168: 6, 720: 24}
HOURS: Final = 24  # shown unless another period is asked for
#: Seconds a look is shown again: a page that many people reload costs one query in this time.
FRESH_S: Final = 10
#: Seconds after the end of an hour in which events of it may still arrive: as long as one waits for the database
#: (`audit.record_later`), and the same again for clocks of several machines.
SETTLED_S: Final = 2 * LATER_S
#: What is counted; each is one stretch of the index over event and id.
EVENTS: Final = (
    Event.SIGN_IN,
    Event.ADMIN_SIGN_IN,
    Event.THROTTLED,
    Event.SIGN_UP,
    Event.INVITATION_ACCEPTED,
    Event.USER_CREATED,
)
_KEY: Final = "accounts.audit_counts"
_HOUR: Final = timedelta(hours=1)

type Counts = dict[tuple[str, str], int]


class Hour(NamedTuple):
    """A stretch of time, shorter where its period begins or ends, and what was counted in it."""

    since: datetime
    until: datetime
    counts: Counts

    def number(self, event: Event, outcome: Outcome) -> int:
        """Return how many events ended like this."""
        return self.counts.get((event.value, outcome.value), 0)


class _Look(NamedTuple):
    at: datetime
    hours: tuple[Hour, ...]


class Period(NamedTuple):
    """Two times of the same length, the later one ending now; of each its stretches, the oldest first."""

    hours: int
    before: tuple[Hour, ...]
    now: tuple[Hour, ...]


def period(hours: int) -> Period:
    """Return the last ``hours``, one of ``PERIODS``, and those before, as of ``FRESH_S`` seconds ago at most.

    One query, or none. It reads the entries of the events from an index: 0.2 s for a million of them at the first look,
    then those of four stretches. The cache holds counts only; without it every look is a first one.
    """
    found = _look(hours)
    middle = found[-1].until - hours * _HOUR
    before = tuple(one for one in found if one.until <= middle)
    return Period(hours, before, found[len(before) :])


def _look(hours: int) -> tuple[Hour, ...]:
    now = clock.now()
    key = f"{_KEY}.{hours}"
    last: _Look | None = cache.get(key)
    if last is not None and abs((now - last.at).total_seconds()) < FRESH_S:
        return last.hours
    spans = list(_spans(now, hours))
    known = _settled(last) if last is not None else {}
    found = known | _count([span for span in spans if span not in known])
    stretches = tuple(Hour(*span, found[span]) for span in spans)
    cache.set(key, _Look(now, stretches), 2 * hours * 3_600)
    return stretches


def _spans(now: datetime, hours: int) -> Iterator[tuple[datetime, datetime]]:
    """Return twice the ``hours`` before ``now``, cut in the middle and where the clock strikes a bar's beginning."""
    step = PERIODS[hours] * _HOUR
    first, middle = now - 2 * hours * _HOUR, now - hours * _HOUR
    struck = first.replace(hour=0, minute=0, second=0, microsecond=0)
    strikes = (struck + n * step for n in range(2 * hours // PERIODS[hours] + 25))
    return pairwise(sorted({first, middle, now, *(edge for edge in strikes if first < edge < now)}))


def _settled(look: _Look) -> dict[tuple[datetime, datetime], Counts]:
    """Return the counts of the hours that were over for long enough when they were counted."""
    before = look.at - timedelta(seconds=SETTLED_S)
    return {(hour.since, hour.until): hour.counts for hour in look.hours if hour.until <= before}


def _count(spans: Sequence[tuple[datetime, datetime]]) -> dict[tuple[datetime, datetime], Counts]:
    """Return what happened in each of ``spans``. One query, which reads nothing but an index."""
    found: dict[tuple[datetime, datetime], Counts] = {span: {} for span in spans}
    first, *others = [_within(number, *span) for number, span in enumerate(spans)]
    row: dict[str, Any]
    for row in first.union(*others, all=True).order_by():
        counts = found[spans[row["span"]]]
        for outcome in Outcome:
            counts[row["event"], outcome.value] = row[outcome.value]
    return found


def _within(number: int, since: datetime, until: datetime) -> "QuerySet[AuditEvent, Any]":
    """Return the query of one span. Grouped by event alone: that is the index's own order, so nothing is sorted."""
    events = AuditEvent.objects.filter(
        event__in=[event.value for event in EVENTS], id__gte=first_id_at(since), id__lt=first_id_at(until)
    )
    counts = {outcome.value: Count("id", filter=Q(outcome=outcome.value)) for outcome in Outcome}
    return events.order_by().annotate(span=Value(number)).values("span", "event").annotate(**counts)
