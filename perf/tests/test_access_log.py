"""What the logging experiment says about what it measured."""

import pytest

from perf.bench.variants import LANES, Rounds, lost_percent
from perf.experiments.access_log import ALL, ERRORS, LOGGING, NONE, finding
from perf.summary import Round


def one(rate: float, cpu_us: float = 10.0) -> Round:
    """Build a round."""
    return Round(rate, 1.0, 2.0, int(rate), 0, 0, server_cpu_us=cpu_us)


def rounds(rate_of_all: float) -> Rounds:
    """Build rounds in which logging everything leaves this rate of 100, on both lanes."""
    rates = {NONE: 100.0, ERRORS: 100.0, ALL: rate_of_all}
    return {(lane, logging): [one(rates[logging])] * 3 for lane in LANES for logging in LOGGING}


def test_a_loss_is_taken_within_each_round() -> None:
    """A slow minute hits both sides; the median, the least and the most that was lost are kept."""
    measured: Rounds = {
        ("hot lane", NONE): [one(100), one(50), one(100)],
        ("hot lane", ALL): [one(90), one(45), one(80)],
    }
    lost = lost_percent(measured, ("hot lane", ALL), NONE, "rate")
    assert lost is not None
    assert (lost.median, lost.low, lost.high) == pytest.approx((10.0, 10.0, 20.0))


def test_cpu_time_that_went_to_logging_is_a_share_of_the_request() -> None:
    """From 40 to 50 µs a fifth of the request is logging: what a rate would lose."""
    measured: Rounds = {("hot lane", NONE): [one(1, 40.0)], ("hot lane", ALL): [one(1, 50.0)]}
    lost = lost_percent(measured, ("hot lane", ALL), NONE, "server_cpu_us")
    assert lost is not None
    assert lost.median == pytest.approx(20.0)


@pytest.mark.parametrize(("rate", "met"), [(85.0, True), (84.9, False)])
def test_fifteen_percent_is_the_most(rate: float, met: bool) -> None:
    """Both lanes are judged, exactly at the limit."""
    found = finding(rounds(rate), dict.fromkeys(rounds(rate), 0), [], log="a file")
    assert [check.met for check in found.checks] == [met, met]
    assert len(found.tables[0].rows) == len(LANES) * len(LOGGING)


def test_nothing_measured_falls_short() -> None:
    """Without a rate there is no loss to be under the limit."""
    silent = {key: [one(0.0)] for key in rounds(1.0)}
    found = finding(silent, dict.fromkeys(silent, 0), [], log="a file")
    assert [check.met for check in found.checks] == [False, False]
