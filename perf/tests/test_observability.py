"""What the experiment about metrics and traces says about what it measured."""

import pytest

from perf.bench.variants import LANES, Rounds
from perf.experiments.observability import ALL, METRICS, NONE, SOME, finding, variants
from perf.summary import Round


def rounds(rate: float) -> Rounds:
    """Build rounds in which metrics leave this rate of 100, on both lanes."""
    rates = {NONE: 100.0, METRICS: rate, SOME: 90.0, ALL: 50.0}
    return {
        (lane, name): [Round(each, 1.0, 2.0, 100, 0, 0, server_cpu_us=1_000 / each)] * 3
        for lane in LANES
        for name, each in rates.items()
    }


@pytest.mark.parametrize(("rate", "met"), [(97.0, True), (96.9, False)])
def test_three_percent_is_the_most_that_metrics_may_cost(rate: float, met: bool) -> None:
    """Both lanes are judged, exactly at the limit; traces are told, without a promise."""
    found = finding(rounds(rate), [], scrapes=1)
    assert [check.met for check in found.checks] == [met, met]
    assert len(found.tables[0].rows) == len(LANES) * len(variants("", 1))


def test_metrics_that_nobody_read_prove_nothing() -> None:
    """Without a scrape the promise is not kept."""
    assert [check.met for check in finding(rounds(100.0), [], scrapes=0).checks] == [False, False]
