"""The histogram of the loop's lag."""

from itertools import pairwise

import pytest

from ironauth.server.instrumentation.loop_debug import EDGES_MS, LagHistogram


def _of(*lags_ms: float) -> LagHistogram:
    histogram = LagHistogram()
    for lag_ms in lags_ms:
        histogram.add(lag_ms)
    return histogram


def test_buckets_grow_evenly_on_a_logarithmic_scale() -> None:
    """From 0.1 ms to 10 s each bucket ends a quarter to 28 % above the one before."""
    assert (EDGES_MS[0], EDGES_MS[-1]) == (0.1, 10_000)
    assert all(1.24 <= upper / lower <= 1.29 for lower, upper in pairwise(EDGES_MS))


@pytest.mark.parametrize(
    ("lag_ms", "bucket"),
    [
        (0.0, "0.1"),
        (0.1, "0.1"),
        (0.11, "0.125"),
        (100.0, "100"),
        (100.1, "125"),
        (10_000.0, "10000"),
        (10_000.1, "inf"),
    ],
)
def test_a_bucket_holds_what_is_at_most_its_name(lag_ms: float, bucket: str) -> None:
    """A bucket's upper end belongs to it, and nothing is too late to be counted."""
    assert _of(lag_ms).report()["buckets"] == {bucket: 1}


def test_percentiles_are_values_that_occurred() -> None:
    """Of 1 to 200 ms, half are at most 100, 99 % at most 198, and the longest is 200."""
    histogram = _of(*(float(ms) for ms in range(200, 0, -1)))
    report = histogram.report()
    assert len(histogram) == 200
    assert (report["count"], report["p50_ms"], report["p99_ms"], report["max_ms"]) == (200, 100.0, 198.0, 200.0)


def test_nothing_counted_is_said_so() -> None:
    """An interval without a single lag has a count and no percentiles."""
    assert _of().report() == {"count": 0}
