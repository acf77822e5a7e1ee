"""The admin's start page: the last 24 hours at a glance, in figures that link to what they count.

Applications append to ``PARTS`` what they have to show. A part shows nothing to those who may not see what it counts.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from accounts.audit import counts as audit_counts
from accounts.audit.counts import Hour
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


type Part = Callable[[HttpRequest], Sequence[Figure]]


def figures(request: HttpRequest) -> list[Figure]:
    """Return what the caller may see."""
    return [figure for part in PARTS for figure in part(request)]


def _trail(request: HttpRequest) -> Sequence[Figure]:
    """Return what the audit trail counts, for those who may read it. One query, or none."""
    if not request.user.has_perm("accounts.view_auditevent"):
        return ()
    day = audit_counts.last_day()
    in_admin = Event.ADMIN_SIGN_IN
    return (
        _figure("Sign-ins", day, Event.SIGN_IN, notes=_also(day, [(in_admin, Outcome.SUCCESS, "to this admin")])),
        _figure(
            "Failed sign-ins",
            day,
            Event.SIGN_IN,
            Outcome.FAILURE,
            notes=_also(
                day,
                [(in_admin, Outcome.FAILURE, "to this admin"), (Event.SIGN_IN, Outcome.REFUSED, "refused by a rule")],
            ),
        ),
        _figure("Throttled", day, Event.THROTTLED, Outcome.REFUSED, notes=(Note(_throttles()),)),
        _figure(
            "New users",
            day,
            Event.SIGN_UP,
            notes=_also(day, [(Event.USER_CREATED, Outcome.SUCCESS, "added by staff or command")]),
        ),
    )


def _throttles() -> str:
    return (
        "Each account or address once an hour" if settings.IRONAUTH_THROTTLE else "Throttles are off: IRONAUTH_THROTTLE"
    )


def _figure(
    label: str, day: Sequence[Hour], event: Event, outcome: Outcome = Outcome.SUCCESS, *, notes: tuple[Note, ...]
) -> Figure:
    numbers = [hour.number(event, outcome) for hour in day]
    return Figure(label, f"{sum(numbers):,}", _events(event, outcome), _by_hour(day, numbers), notes)


def _also(day: Sequence[Hour], parts: Iterable[tuple[Event, Outcome, str]]) -> tuple[Note, ...]:
    """Return a note for each of ``parts`` of which there was any."""
    counted = [
        (sum(hour.number(event, outcome) for hour in day), event, outcome, words) for event, outcome, words in parts
    ]
    return tuple(Note(f"+ {n:,} {words}", _events(event, outcome)) for n, event, outcome, words in counted if n)


def _events(event: Event, outcome: Outcome) -> str:
    """Return the address of the list of these events."""
    query = urlencode({"event": event.value, "outcome": outcome.value, "hours": audit_counts.HOURS})
    return f"{reverse('admin:accounts_auditevent_changelist')}?{query}"


def _by_hour(day: Sequence[Hour], numbers: Sequence[int]) -> Plot:
    """Return a bar for each hour, the highest as high as the plot; whatever happened at all can be seen."""
    most = max(numbers)
    bars = tuple(
        Bar(
            x=place * _STEP,
            width=_STEP - 1,
            height=max(1.5, round(HEIGHT * number / most, 2)) if number else 0.5,
            title=f"{hour.since:%H:%M} to {hour.until:%H:%M} UTC: {number:,}",
            kind="full" if number else "none",
        )
        for place, (hour, number) in enumerate(zip(day, numbers, strict=True))
    )
    peak = day[numbers.index(most)]
    summary = f"By the hour; most from {peak.since:%H:%M} UTC: {most:,}" if most else "By the hour; nothing happened"
    return Plot(len(bars) * _STEP - 1, bars, summary)


#: What the start page shows, in this order.
PARTS: Final[list[Part]] = [_trail]
