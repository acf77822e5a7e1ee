"""The benchmark's command line."""

from pathlib import Path

import pytest

from perf.bench.options import ORDER, Options, parse
from perf.load.workloads import HASH, WORKLOADS


def options(*arguments: str) -> Options:
    """Read a command line."""
    return parse(list(arguments), description="")


def test_without_arguments_everything_is_measured_on_one_worker() -> None:
    """Every workload and yardstick, three rounds of 5 s."""
    given = options()
    assert given.names == ORDER
    assert set(ORDER) == {workload.name for workload in WORKLOADS} | {HASH}
    assert (given.rounds, given.seconds, given.workers, given.storage) == (3, 5.0, 1, "sqlite")


def test_quick_means_short_windows() -> None:
    """Two seconds, unless said otherwise."""
    assert options("--quick").seconds == 2.0
    assert options("--quick", "--seconds", "7").seconds == 7.0


def test_yardsticks_come_with_what_is_compared_with_them() -> None:
    """Bare comes with everything, the raw hash with what hashes, both in the order of a round."""
    assert options("--only", "me").names == ("bare", "me")
    assert options("--only", "signin,verify").names == ("bare", "verify", "hash", "signin")
    assert options("--only", "hash").names == ("hash",)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--only", "mee"), "unknown workload mee: choose for --only from bare"),
        (("--only", ""), "unknown workload '': choose for --only from bare"),
        (("--seconds", "0"), "--seconds: '0' is no number from 0.5 to 60: give one such as 5"),
        (("--seconds", "61"), "from 0.5 to 60"),
        (("--rounds", "0"), "from 1 to 20"),
        (("--connections", "257"), "from 1 to 256"),
        (("--workers", "3"), "from 1 to 2"),
    ],
)
def test_a_mistake_is_refused_before_anything_starts(
    arguments: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2 and what to do, in one line."""
    with pytest.raises(SystemExit) as ended:
        options(*arguments)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


def test_a_section_that_is_missing_is_said_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--update-readme needs the section of its variant in the page."""
    page = tmp_path / "README.md"
    page.write_text("<!-- results: end -->")
    monkeypatch.setattr("perf.bench.options.PAGE", page)
    assert options("--update-readme").update_readme
    with pytest.raises(SystemExit):
        options("--update-readme", "--storage", "postgres", "--workers", "2")
    assert "no section results-postgres-2workers" in capsys.readouterr().err
