"""Time as people say it: rounded up, never by much."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironauth.infrastructure.core.durations import in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "1 s"),
        (0.2, "1 s"),
        (59, "59 s"),
        (60, "1 minute"),
        (61, "61 s"),
        (600, "10 minutes"),
        (601, "11 minutes"),
        (3_599, "60 minutes"),
        (3_600, "1 hour"),
        (3_601, "61 minutes"),
        (65_536, "19 hours"),
        (86_399, "24 hours"),
        (86_400, "1 day"),
        (86_401, "25 hours"),
        (864_001, "11 days"),
    ],
)
def test_words(seconds: float, words: str) -> None:
    """Both sides of every bend."""
    assert in_words(seconds) == words


@given(st.integers(min_value=1, max_value=10_000_000))
def test_nobody_comes_too_early_or_much_too_late(seconds: int) -> None:
    """What is said is never less than what is meant, and at most a tenth more."""
    count, unit = in_words(seconds).split()
    length = {"s": 1, "minute": 60, "hour": 3_600, "day": 86_400}[unit.removesuffix("s") or "s"]
    assert seconds <= int(count) * length <= seconds * 1.1
