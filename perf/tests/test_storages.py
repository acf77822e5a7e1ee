"""What the comparison of the storages says about what it measured."""

from pathlib import Path

import pytest

from perf.experiments.storages import CLIENTS, STORAGES, WORKERS, Rounds, Watched, finding
from perf.rig.machine import describe
from perf.summary import Round
from perf.swarm.summary import Summary
from perf.swarm.tally import Tally
from perf.swarm.thresholds import Entry, Result

ROUNDS: Rounds = {
    (storage, workers, clients): [Round(100.0, 1.0, 2.0, 100, 0, 0)]
    for storage in STORAGES
    for workers in WORKERS
    for clients in CLIENTS
}


def summary(shed: int = 0, failures: int = 0) -> Summary:
    """Build a swarm of one request."""
    entry = Entry("GET", "/me", 60, failures, 1.0, 2.0, 3.0, 4.0, 5.0)
    tally = Tally(shed={"/signin": shed} if shed else {})
    result = Result("constant", 1, 1, 60.0, [entry], [], [], tally)
    return Summary("", "", describe(Path()), result, [], [])


def test_each_storage_has_its_lines() -> None:
    """One for each number of workers, and one for each number of clients beside."""
    swarms = {(storage, workers): (summary(), Watched(backups=[1.5])) for storage in STORAGES for workers in WORKERS}
    found = finding(swarms, ROUNDS, 0, [])
    assert [row[5] for row in found.tables[0].rows] == ["2 / 3 / 4"] * len(STORAGES) * len(WORKERS)
    assert len(found.tables[1].rows) == len(ROUNDS)
    assert all(check.met for check in found.checks)
    assert found.notes[0].startswith(
        "Backups taken by `manage.py backup` while the swarm wrote: 4, the longest in 1.5 s"
    )
    assert found.failed == 0


@pytest.mark.parametrize(
    ("watched", "made", "locked", "missed"),
    [
        (Watched(locked=1), summary(), 0, "'database is locked' in the servers' logs"),
        (Watched(), summary(), 1, "'database is locked' in the servers' logs"),
        (Watched(), summary(shed=1), 0, "requests of the swarms that were shed"),
        (Watched(damaged=["no room"]), summary(), 0, "backups under the swarm that failed"),
    ],
)
def test_what_must_not_be_is_found(watched: Watched, made: Summary, locked: int, missed: str) -> None:
    """A lock in either log, a request shed, a backup that failed; the last also makes the run fail."""
    found = finding({("sqlite", 1): (made, watched)}, ROUNDS, locked, [])
    assert [check.what for check in found.checks if not check.met] == [missed]
    assert found.failed == len(watched.damaged)
