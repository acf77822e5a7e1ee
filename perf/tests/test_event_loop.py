"""The experiment with the hash on the event loop: what differs, and what is made of what was seen."""

import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from ironauth.infrastructure.hashing.pool import HashPool
from perf import lab as laboratory
from perf.experiments.event_loop.experiment import IN_POOL, ON_LOOP, Seen, _finding
from perf.experiments.event_loop.loop_hashing import LoopHashing
from perf.experiments.event_loop.loop_lag import LoopRecord
from perf.experiments.flood.clients import Outcome
from perf.lab import Lab

MS = 1_000_000  # ns


async def test_only_the_place_of_the_hash_differs() -> None:
    """The same job runs on the caller's own thread here, and on another in the product's pool."""
    here, there = LoopHashing(1, 4.0, 0), HashPool(1, 4.0, 0)
    try:
        assert await here.run(threading.get_ident) == threading.get_ident()
        assert here.run_blocking(threading.get_ident) == threading.get_ident()
        assert here.stats().completed == 1
        assert await there.run(threading.get_ident) != threading.get_ident()
        with pytest.raises(RuntimeError, match="would block this event loop"):
            there.run_blocking(threading.get_ident)
    finally:
        there.close()


def _seen(me_ms: float, slow_ms: list[float], *, refused: int = 0) -> Seen:
    me = Outcome(latencies=[round(me_ms * MS)] * 100, failures={}, lags=[MS // 10])
    sign_ins = Outcome(latencies=[300 * MS] * 10, failures={}, refused=refused)
    loop = LoopRecord(Counter({"1": 90, "125": 10}), 120.0, slow_ms, Counter({"argon2.low_level.verify_secret": 10}))
    return Seen([me], [sign_ins], loop, watched_sign_ins=10, failed=refused)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A laboratory that leaves its plots with the test."""
    monkeypatch.setattr(laboratory, "RESULTS", tmp_path)
    return Lab("event_loop", tmp_path, ExitStack(), quick=True, say=lambda _: None)


def test_the_finding_has_both_arrangements(lab: Lab) -> None:
    """Each has a line in both tables, plots are drawn, and what was promised is checked."""
    found = _finding(lab, {ON_LOOP: _seen(2_000, [130.0] * 10), IN_POOL: _seen(2, [60.0])}, 10.0)
    assert [[row[0] for row in table.rows] for table in found.tables] == [[ON_LOOP, IN_POOL]] * 2
    assert found.tables[1].rows[0][4:7] == ("10", "10", "1.00")
    assert all(check.met for check in found.checks)
    assert all((lab.plot().parent / name).is_file() for name in found.plots)
    assert found.failed == 0


def test_a_slow_pool_falls_short(lab: Lab) -> None:
    """A callback over 100 ms, a slow /me, or a loop that nothing holds up: each fails its check."""
    found = _finding(lab, {ON_LOOP: _seen(1, []), IN_POOL: _seen(6, [101.0], refused=2)}, 10.0)
    assert [check.met for check in found.checks] == [False, False, False]
    assert found.failed == 2
