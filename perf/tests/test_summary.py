"""The statistics: known answers, and their edges."""

import pytest

from perf.summary import Spread, percentile_ms, ratios, spread

MS = 1_000_000  # ns


@pytest.mark.parametrize(("percent", "expected"), [(1, 1.0), (50, 50.0), (99, 99.0), (99.1, 100.0), (100, 100.0)])
def test_a_percentile_is_a_value_that_occurred(percent: float, expected: float) -> None:
    """Nearest rank on 1..100 ms: p gives p, and anything above 99 gives the highest."""
    assert percentile_ms([value * MS for value in range(1, 101)], percent) == expected


def test_percentiles_of_one_value_are_that_value() -> None:
    """A single answer is its own median and its own p99."""
    assert percentile_ms([3 * MS], 50) == percentile_ms([3 * MS], 99) == 3.0


@pytest.mark.parametrize(("values", "percent"), [([], 50.0), ([1], 0.0), ([1], 100.1)])
def test_a_percentile_of_nothing_is_refused(values: list[int], percent: float) -> None:
    """No value and no such percentage are errors, not zero."""
    with pytest.raises(ValueError, match="percentile"):
        percentile_ms(values, percent)


def test_the_spread_names_median_and_extremes() -> None:
    """The median of the rounds is given with the lowest and the highest."""
    assert spread([30.0, 10.0, 20.0]) == Spread(20.0, 10.0, 30.0)
    with pytest.raises(ValueError, match="round"):
        spread([])


def test_ratios_are_taken_round_by_round() -> None:
    """A round in which the whole machine was slow leaves the ratio alone."""
    assert ratios([10.0, 1.0, 10.0], [100.0, 10.0, 100.0]) == Spread(0.1, 0.1, 0.1)


def test_no_ratio_without_a_yardstick() -> None:
    """Nothing measured, or nothing answered, gives no ratio rather than an infinite one."""
    assert ratios([], []) is None
    assert ratios([1.0], [0.0]) is None
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0, 2.0], [1.0])
