"""What the soak says about what it saw, and that it sees it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perf.rig.processes import worker_pids
from perf.soak import _parser
from perf.soak_sampling import Sample, Worker, entries_in, held_by, wal_bytes
from perf.soak_trend import HOUR_S, MIB, Minute, after_warm_up, by_minute, checks, slope, slowed


def sample(at_s: float, *, rss_mib: float = 100.0, files: int = 40, pid: int = 7, l1: int = 20) -> Sample:
    """Build a look at one worker on SQLite."""
    return Sample(at_s, {pid: Worker(round(rss_mib * MIB), files, 10)}, wal_bytes=4 * MIB, l1_entries=l1)


def test_the_slope_is_the_median_of_all_slopes() -> None:
    """One wild sample, which moves a least-squares line, moves nothing."""
    line = [(float(x), 2.0 * x) for x in range(11)]
    assert slope([*line, (11.0, 9_000.0)]) == pytest.approx(2.0)
    assert slope([(1.0, 1.0), (1.0, 5.0)]) == 0.0


def test_the_warm_up_is_not_judged() -> None:
    """A fifth of the run is left out, whatever it holds."""
    assert after_warm_up([sample(at) for at in range(0, 601, 60)])[0].at_s == 120
    grown = [sample(at, rss_mib=at) for at in range(0, 120, 5)] + [sample(at) for at in range(120, 601, 5)]
    assert all(check.met for check in checks(grown, []))


@pytest.mark.parametrize(("per_hour", "met"), [(15.9, True), (16.1, False)])
def test_memory_may_grow_by_16_mib_an_hour(per_hour: float, met: bool) -> None:
    """Both sides; the worker that grew most decides."""
    found = checks([sample(at, rss_mib=100 + per_hour * at / HOUR_S) for at in range(0, 601, 5)], [])
    assert found[0].met is met
    assert all(check.met for check in found[1:])


def test_files_that_are_not_closed_and_dead_workers_are_found() -> None:
    """Each is a check of its own."""
    leaking = [sample(at, files=40 + at // 60) for at in range(0, 601, 5)]
    missed = [check.what for check in checks(leaking, []) if not check.met]
    assert missed == ["growth in an hour: open files of all workers"]
    replaced = [sample(at, pid=7 if at < 300 else 8) for at in range(0, 601, 5)]
    assert [check.what for check in checks(replaced, []) if not check.met] == ["workers that died"]


def test_the_last_third_stands_beside_the_first() -> None:
    """After the warm-up; too few minutes say nothing."""
    minutes = [Minute(number, 100, 1.0 if number < 8 else 2.0, 9.0, 0) for number in range(10)]
    assert slowed(minutes) == 2.0
    assert slowed(minutes[:2]) is None


def test_the_access_log_tells_each_minute() -> None:
    """Refusals for want of room are counted; the last minute, which is not over, is left out."""
    log = [
        f'{{"timestamp":"1970-01-01T00:0{minute}:30.000Z","event":"request","status":{status},"duration_ms":{ms}}}\n'.encode()
        for minute, status, ms in ((1, 200, 1.0), (1, 503, 3.0), (2, 200, 2.0), (3, 200, 1.0))
    ]
    assert by_minute([*log, b'{"event":"signed_in"}\n'], began=60.0) == [
        Minute(0, 2, 1.0, 3.0, 1),
        Minute(1, 1, 2.0, 2.0, 0),
    ]


def test_a_process_is_looked_at_from_outside(tmp_path: Path) -> None:
    """A file more is seen; a process that has ended is None; the log of a database that has none is 0 bytes."""
    own = held_by(os.getpid())
    assert own is not None
    with (tmp_path / "x.sqlite3-wal").open("wb") as file:
        file.write(b"1234")
        file.flush()
        more = held_by(os.getpid())
        assert more is not None
        assert more.files == own.files + 1
    assert wal_bytes(str(tmp_path / "x.sqlite3")) == 4
    assert wal_bytes(str(tmp_path / "y.sqlite3")) == 0
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert held_by(ended.pid) is None
    assert worker_pids(os.getpid())
    assert own.rss_bytes > MIB


def test_entries_of_all_workers_are_added() -> None:
    """As Prometheus' text has them."""
    lines = ["# TYPE ironauth_cache_entries gauge", *(f'ironauth_cache_entries{{worker="{n}"}} {n}.0' for n in (3, 4))]
    assert entries_in("\n".join(lines)) == 7


def test_a_mistake_on_the_command_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """As everywhere in the laboratory."""
    with pytest.raises(SystemExit):
        _parser().parse_args(["--storage", "oracle"])
    assert len(capsys.readouterr().err.splitlines()) == 1
