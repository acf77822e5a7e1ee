"""What the experiment with hash workers says about what it measured."""

from perf.experiments.hash_workers import ALONE, RUSH, finding
from perf.summary import Round


def one(rate: float, failed: int = 0) -> Round:
    """Build a round."""
    return Round(rate, 80.0, 90.0, int(rate), failed, 0, server_cpu_us=9_000.0)


def test_each_number_of_workers_stands_beside_none() -> None:
    """The gain is taken round by round, within a workload; who shares a core is told."""
    measured = {
        (RUSH, 0): [one(10), one(12)],
        (RUSH, 1): [one(20), one(24)],
        (ALONE, 0): [one(9)],
        (ALONE, 1): [one(9)],
    }
    found = finding(measured, [1, 0, 1], [0, 1], [])
    assert [row[2] for row in found.tables[0].rows] == ["1.00", "2.00", "1.00", "1.00"]
    assert [row[0] for row in found.tables[0].rows][:2] == ["rush, 0 workers", "rush, 1 worker"]
    assert found.tables[0].rows[0][5] == "9.0"
    assert "to cores 1, 0, 1" in found.notes[0]


def test_wrong_answers_fail_the_finding() -> None:
    """They are added up over all rounds."""
    assert finding({(RUSH, 0): [one(10, failed=2), one(10, failed=1)]}, [1], [0, 1], []).failed == 3
