"""The experiment on SQLite's modes: its callers, and what it concludes."""

import time
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from ironauth.infrastructure.core.errors import Unavailable
from perf.experiments.sqlite_modes.experiment import LOCKED, OURS, finding
from perf.experiments.sqlite_modes.threads import CALLERS, MODES, Callers, Kind, Outcome
from perf.rig.seed import SeededSession


def outcome(rate: float, *, p99_ms: float = 10.0, refused: dict[str, int] | None = None, wrong: int = 0) -> Outcome:
    """Return one window."""
    kind = Kind(10, 1.0, p99_ms)
    return Outcome(rate, kind, kind, 3, refused or {}, wrong)


def runs(**of_mode: Outcome) -> dict[tuple[int, str], list[Outcome]]:
    """Return one round of every mode at one and two cores."""
    return {(cores, name): [of_mode.get(name.replace("-", "_"), outcome(100))] for cores in (1, 2) for name in MODES}


class _Pool:
    """Does nothing, as slowly as told; the first read is refused because the database is locked."""

    def __init__(self, user_id: uuid.UUID) -> None:
        self.user_id = user_id
        self.refused = False

    async def read(self, *_: Any, **__: Any) -> Any:
        if not self.refused:
            self.refused = True
            raise Unavailable(retry_after_s=1) from RuntimeError(LOCKED)
        return SimpleNamespace(account=SimpleNamespace(id=self.user_id))

    async def write(self, *_: Any, **__: Any) -> Any:
        return object()

    async def write_autocommit(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(grant=None)


async def test_callers_count_what_was_refused_and_what_was_wrong() -> None:
    """A refused unit is no answer, and a rotation without successor is a wrong one."""
    user_id = uuid.uuid4()
    sessions = [SeededSession(str(user_id), str(uuid.uuid4()), "x") for _ in range(CALLERS)]
    start = time.perf_counter_ns()
    callers = Callers(sessions, pool=_Pool(user_id), start_ns=start, stop_ns=start + 50_000_000)
    await callers.run()
    assert callers.refused == {LOCKED: 1}
    assert callers.wrong > 0
    assert callers.wrong < len(callers.writes) + CALLERS < len(callers.reads)


def test_the_finding_says_which_mode_was_locked() -> None:
    """'database is locked' has a column of its own, and other modes' refusals spoil nothing."""
    found = finding(runs(wal_deferred=outcome(100, refused={LOCKED: 5, "other": 2})), disk="ext4")
    row = found.tables[0].rows[list(MODES).index("wal-deferred")]
    assert row[-2:] == ["5", "2"]
    assert found.failed == 0


@pytest.mark.parametrize("ours", [outcome(100, refused={LOCKED: 1}), outcome(100, wrong=1)])
def test_refusals_and_wrong_answers_of_our_own_mode_spoil_the_finding(ours: Outcome) -> None:
    """What is served must not refuse sixteen callers, nor answer wrongly."""
    assert finding(runs(wal_pools=ours), disk="ext4").failed == 2  # at one core and at two


def test_what_other_ways_of_serving_get_wrong_is_a_result() -> None:
    """Refusals and unexpected outcomes of a rollback journal, or of plain WAL, are shown and spoil nothing."""
    found = finding(
        runs(
            delete=outcome(100, refused={LOCKED: 9, "the unit's time limit": 7}, wrong=16),
            delete_deferred=outcome(100, wrong=3),
            wal=outcome(100, refused={"the unit's time limit": 1}),
        ),
        disk="ext4",
    )
    assert found.failed == 0
    notes = " ".join(found.notes)
    assert "Unexpected outcomes, rollback journal, a connection per thread, `BEGIN IMMEDIATE`, 2 cores: 16" in notes
    assert (
        "Refused, rollback journal, a connection per thread, `BEGIN IMMEDIATE`, 1 core: database is locked: 9" in notes
    )


def test_checks_are_those_at_the_most_cores() -> None:
    """Rates and tails are compared at two cores, where the article's difference is."""
    measured = runs(wal_pools=outcome(150, p99_ms=5), wal=outcome(100, p99_ms=20), delete=outcome(50))
    measured[1, OURS] = [outcome(1)]
    found = finding(measured, disk="ext4")
    assert [check.measured for check in found.checks] == [2.0, 1.5, 4.0, 0]
    assert all(check.met for check in found.checks)
