"""The admin's start page: a day, a week or a month at a glance, in figures that link to what they count.

Applications append their figures to ``PARTS``. A part shows nothing to people who may not see what it counts.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from accounts.access.rights import VIEW_AUDIT
from accounts.audit import counts as audit_counts
from accounts.audit.counts import Hour, Period
from accounts.audit.recording import Event, Outcome

HEIGHT: Final = 32  # of a plot, in units of its own; the page stretches it
_STEP: Final = 4  # units from one bar to the next, of which one is the gap


class Bar(NamedTuple):
    """A rectangle of a plot; ``title`` is what pointing at it says."""

    x: float
    width: float
    height: float
    title: str
    kind: str = "full"

    @property
    def y(self) -> float:
        """Return where it begins; plots grow downwards."""
        return HEIGHT - self.height


class Plot(NamedTuple):
    """Some bars; ``summary`` says the same in words, for those who do not see them."""

    width: float
    bars: tuple[Bar, ...]
    summary: str
    height: float = HEIGHT
    #: Of its axes: the highest bar's number, and the times at which it begins and ends.
    most: str = ""
    begins: str = ""
    ends: str = ""


class Note(NamedTuple):
    """A line below a figure; with a link when it counts something."""

    text: str
    link: str = ""


class Figure(NamedTuple):
    """A number with its name, the list of what it counts, and what it is made of."""

    label: str
    value: str
    link: str
    plot: Plot | None
    notes: tuple[Note, ...] = ()


#: What the periods are called.
PERIOD_WORDS: Final = {24: "24 hours", 168: "7 days", 720: "30 days"}

type Part = Callable[[HttpRequest], Sequence[Figure]]


def figures(request: HttpRequest) -> list[Figure]:
    """Return what the caller may see."""
    return [figure for part in PARTS for figure in part(request)]


def hours_of(request: HttpRequest) -> int:
    """Return how many hours the page is asked to show: one of ``PERIODS``, 24 for anything else."""
    asked = request.GET.get("hours", "")
    return next((hours for hours in audit_counts.PERIODS if str(hours) == asked), audit_counts.HOURS)


def periods(request: HttpRequest) -> list[tuple[str, str, bool]]:
    """Return the choice of periods: words, address, and whether it is the one that is shown."""
    shown = hours_of(request)
    return [(words, f"?hours={hours}", hours == shown) for hours, words in PERIOD_WORDS.items()]


def _trail(request: HttpRequest) -> Sequence[Figure]:
    """Return what the audit trail counts, for those who may read it. One query, or none."""
    if not request.user.has_perm(VIEW_AUDIT):
        return ()
    day = audit_counts.period(hours_of(request))
    in_admin = Event.ADMIN_SIGN_IN
    return (
        _figure("Sign-ins", day, Event.SIGN_IN, notes=_also(day, [(in_admin, Outcome.SUCCESS, "to this admin")])),
        _figure(
            "Failed sign-ins",
            day,
            Event.SIGN_IN,
            Outcome.FAILURE,
            notes=(
                *_rate(day),
                *_also(
                    day,
                    [
                        (in_admin, Outcome.FAILURE, "to this admin"),
                        (Event.SIGN_IN, Outcome.REFUSED, "refused by a rule"),
                    ],
                ),
            ),
        ),
        _figure("Throttled", day, Event.THROTTLED, Outcome.REFUSED, notes=(Note(_throttles()),)),
        _figure(
            "New users",
            day,
            Event.SIGN_UP,
            notes=_also(
                day,
                [
                    (Event.INVITATION_ACCEPTED, Outcome.SUCCESS, "by invitation"),
                    (Event.USER_CREATED, Outcome.SUCCESS, "added by staff or command"),
                    (Event.USERS_IMPORTED, Outcome.SUCCESS, "imports from another system"),
                ],
            ),
        ),
    )


def _throttles() -> str:
    return (
        "Each account or address once an hour" if settings.IRONAUTH_THROTTLE else "Throttles are off: IRONAUTH_THROTTLE"
    )


def _figure(
    label: str, day: Period, event: Event, outcome: Outcome = Outcome.SUCCESS, *, notes: tuple[Note, ...]
) -> Figure:
    numbers = [hour.number(event, outcome) for hour in day.now]
    before = Note(
        f"{_sum(day.before, event, outcome):,} in the {PERIOD_WORDS[day.hours]} before",
        _events(event, outcome, f"{day.hours}-{2 * day.hours}"),
    )
    link = _events(event, outcome, day.hours)
    return Figure(label, f"{sum(numbers):,}", link, _by_hour(day, numbers), (before, *notes))


def _sum(stretches: Sequence[Hour], event: Event, outcome: Outcome) -> int:
    return sum(hour.number(event, outcome) for hour in stretches)


def _rate(day: Period) -> tuple[Note, ...]:
    """Return how many of the tries to sign in failed, now and before; nothing where nobody tried."""
    rates = []
    for stretches in (day.now, day.before):
        failed = _sum(stretches, Event.SIGN_IN, Outcome.FAILURE)
        tries = failed + _sum(stretches, Event.SIGN_IN, Outcome.SUCCESS)
        rates.append(f"{100 * failed / tries:.0f} %" if tries else "")
    if not rates[0]:
        return ()
    return (Note(f"Failure rate {rates[0]}" + (f", before {rates[1]}" if rates[1] else "")),)


def _also(day: Period, parts: Iterable[tuple[Event, Outcome, str]]) -> tuple[Note, ...]:
    """Return a note for each of ``parts`` of which there was any."""
    counted = [(_sum(day.now, event, outcome), event, outcome, words) for event, outcome, words in parts]
    return tuple(
        Note(f"+ {n:,} {words}", _events(event, outcome, day.hours)) for n, event, outcome, words in counted if n
    )


def _events(event: Event, outcome: Outcome, hours: int | str) -> str:
    """Return the address of the list of these events."""
    query = urlencode({"event": event.value, "outcome": outcome.value, "hours": hours})
    return f"{reverse('admin:accounts_auditevent_changelist')}?{query}"


def _by_hour(day: Period, numbers: Sequence[int]) -> Plot:
    """Return a bar for each stretch, the highest as high as the plot; whatever happened at all can be seen."""
    most, step = max(numbers), audit_counts.PERIODS[day.hours]
    form = "%H:%M" if day.hours == audit_counts.HOURS else "%Y-%m-%d %H:%M"
    bars = tuple(
        Bar(
            x=place * _STEP,
            width=_STEP - 1,
            height=max(1.5, round(HEIGHT * number / most, 2)) if number else 0.5,
            title=f"{hour.since:{form}} to {hour.until:{form}} UTC: {number:,}",
            kind="full" if number else "none",
        )
        for place, (hour, number) in enumerate(zip(day.now, numbers, strict=True))
    )
    peak = day.now[numbers.index(most)]
    by = {1: "By the hour", 6: "By six hours"}.get(step, "By the day")
    summary = f"{by}; most from {peak.since:{form}} UTC: {most:,}" if most else f"{by}; nothing happened"
    axis = "%H:%M" if day.hours == audit_counts.HOURS else "%m-%d"
    return Plot(len(bars) * _STEP - 1, bars, summary, most=f"{most:,}", begins=f"{day.now[0].since:{axis}}", ends="now")


#: What the start page shows, in this order.
PARTS: Final[list[Part]] = [_trail]
