"""The journeys there are, by name: each is written once, in steps that know no language."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from ironauth.tests.browser.journeys.walker import Walker

Walk = Callable[[Walker], Awaitable[None]]


class Entry(NamedTuple):
    """What a person does, and whether a browser can do it without scripts."""

    walk: Walk
    needs_scripts: bool


JOURNEYS: Final[dict[str, Entry]] = {}


def journey(*, needs_scripts: bool = False) -> Callable[[Walk], Walk]:
    """Register a journey under its function's name."""

    def register(walk: Walk) -> Walk:
        name = walk.__name__
        assert name not in JOURNEYS, name
        JOURNEYS[name] = Entry(walk, needs_scripts)
        return walk

    return register


def kinds() -> list[tuple[str, bool]]:
    """Return each journey's name and whether it needs scripts."""
    from ironauth.tests.browser.journeys import account, doors, factors, organisations, ways_in  # noqa: PLC0415 - they register

    assert all((account, doors, factors, organisations, ways_in))
    return [(name, one.needs_scripts) for name, one in JOURNEYS.items()]
