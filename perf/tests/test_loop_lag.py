"""Reading what ``serve --loop-debug`` wrote."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ironauth.server.instrumentation.lag_histogram import EDGES_MS, LagHistogram
from perf.experiments.event_loop import loop_lag
from perf.experiments.event_loop.loop_lag import LoopRecord


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _log(path: Path) -> Path:
    """Write a log with an interval before, two inside and one across the end of the window 100 to 120."""
    lags = LagHistogram()
    for ms in (0.5, 0.5, 150.0):
        lags.add(ms)
    lines: list[object] = ["IronAuth is serving (1 worker, SQLite x). Stop it with Ctrl-C."]
    lines += [
        {"timestamp": _stamp(at), "event": "loop_lag", "seconds": 5.0, **lags.report(), "slow_callbacks": 1, "pid": 7}
        for at in (101.0, 106.0, 111.0, 121.0)
    ]
    lines += [
        {"timestamp": _stamp(at), "event": "slow_callback", "ms": ms, "what": "step", "at": calls, "pid": 7}
        for at, ms, calls in (
            (99.0, 900.0, None),
            (105.0, 140.0, ["argon2.low_level.verify_secret:9"]),
            (110.0, 60.0, None),
        )
    ]
    lines.append({"timestamp": _stamp(105.0), "event": "request", "status": 200})
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_only_the_window_counts(tmp_path: Path) -> None:
    """Intervals wholly inside and callbacks inside are read; other lines are not even JSON."""
    found = loop_lag.read(_log(tmp_path / "log"), 100.0, 120.0)
    assert found.buckets == {"0.5": 4, "160": 2}
    assert found.max_ms == 150.0
    assert found.slow_ms == [140.0, 60.0]
    assert found.where == {"argon2.low_level.verify_secret": 1, "not seen": 1}


def test_a_window_without_an_interval_is_refused(tmp_path: Path) -> None:
    """Nothing seen is not the same as no lag."""
    with pytest.raises(ValueError, match="no loop_lag of the window"):
        loop_lag.read(_log(tmp_path / "log"), 107.0, 110.0)


def test_windows_add_up() -> None:
    """Counts are added, the longest lag stays the longest."""
    total = LoopRecord()
    total.add(LoopRecord(Counter({"1": 2}), 0.9, [120.0], Counter({"a": 1})))
    total.add(LoopRecord(Counter({"1": 1, "2": 1}), 1.8, [], Counter()))
    assert (total.buckets, total.max_ms, total.slow_ms) == ({"1": 3, "2": 1}, 1.8, [120.0])


def test_percentiles_are_the_end_of_their_bucket() -> None:
    """Of 99 lags up to 1 ms and one beyond 10 s, the 99th percentile is 1 ms and the hundredth has no end."""
    buckets = {"inf": 1, "1": 99}
    assert loop_lag.at_most_ms(buckets, 99) == 1.0
    assert loop_lag.at_most_ms(buckets, 99.5) == float("inf")
    with pytest.raises(ValueError, match="at least one value"):
        loop_lag.at_most_ms({}, 50)


def test_shares_are_percent_of_all() -> None:
    """There is one for each bucket, in order, and together they are everything."""
    shares = loop_lag.shares({"0.1": 1, "10000": 1, "inf": 2})
    assert len(shares) == len(EDGES_MS)
    assert (shares[0], shares[-1], sum(shares)) == (25.0, 75.0, 100.0)
