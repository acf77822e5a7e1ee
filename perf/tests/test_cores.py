"""What the experiment with cores and workers says about what it measured."""

from perf.experiments.cores import ME, SIGN_IN, Placed, finding
from perf.summary import Round


def one(rate: float, failed: int = 0) -> Round:
    """Build a round."""
    return Round(rate, 1.0, 2.0, int(rate), failed, 0, server_cores=1.5, client_cores=0.4)


def test_each_cell_stands_beside_one_worker_on_one_core() -> None:
    """The gain is taken round by round, within a storage and a workload."""
    measured = {
        Placed("sqlite", ME, 1, 1): [one(100), one(200), one(100)],
        Placed("sqlite", ME, 2, 2): [one(150), one(300), one(170)],
        Placed("sqlite", SIGN_IN, 1, 1): [one(10)],
        Placed("sqlite", SIGN_IN, 2, 1): [one(20)],
    }
    rows = finding(measured, []).tables[0].rows
    assert [row[4] for row in rows] == ["1.00", "1.50", "1.00", "2.00"]
    assert list(rows[1][:3]) == ["SQLite, `/me`", "2", "2"]
    assert rows[1][6] == "1.50 + 0.40"


def test_wrong_answers_fail_the_finding() -> None:
    """They are added up over all cells."""
    assert finding({Placed("sqlite", ME, 1, 1): [one(100, failed=2), one(100, failed=1)]}, []).failed == 3
