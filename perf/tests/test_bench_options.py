"""The benchmark's command line."""

from pathlib import Path

import pytest

from perf.bench.options import ORDER, Options, parse
from perf.bench.run import main
from perf.load.workloads import HASH, WORKLOADS


def options(*arguments: str) -> Options:
    """Read a command line."""
    return parse(list(arguments), description="")


def test_without_arguments_everything_is_measured_on_one_worker() -> None:
    """Every workload and yardstick, three rounds of 5 s, no second mode."""
    given = options()
    assert given.names == ORDER
    assert set(ORDER) == {workload.name for workload in WORKLOADS} | {HASH}
    assert (given.rounds, given.seconds, given.workers, given.storage, given.paced) == (3, 5.0, 1, "sqlite", ())


def test_quick_means_short_windows() -> None:
    """Two seconds, unless said otherwise."""
    assert options("--quick").seconds == 2.0
    assert options("--quick", "--seconds", "7").seconds == 7.0


def test_yardsticks_come_with_what_is_compared_with_them() -> None:
    """Bare comes with everything, the raw hash with what hashes, both in the order of a round."""
    assert options("--only", "me").names == ("bare", "me")
    assert options("--only", "signin,verify").names == ("bare", "verify", "hash", "signin")
    assert options("--only", "hash").names == ("hash",)


def test_a_fixed_rate_is_for_what_does_not_hash() -> None:
    """Peers take part, sign-ins and the raw hash do not."""
    given = options("--only", "me,signin", "--rate", "200", "--peer", "x=http://127.0.0.1:9000/")
    assert given.names == ("bare", "me", "hash", "signin", "x")
    assert given.paced == ("bare", "me", "x")
    assert given.rate == 200.0


def test_a_kept_run_can_be_named() -> None:
    """--redraw takes a file."""
    assert options("--redraw", "x.json").redraw == Path("x.json")


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
        (("--rate", "0.5"), "from 1 to 20,000"),
        (("--rate", "x"), "--rate: 'x' is no number from 1 to 20,000: give one such as 200"),
        (("--peer", "me=http://127.0.0.1/"), "cannot name a peer"),
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


@pytest.mark.parametrize("content", [None, "{}"])
def test_what_cannot_be_drawn_again_is_said_with_the_remedy(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is missing, or is no run's, is refused in a line that says which to name."""
    data = tmp_path / "x.json"
    if content is not None:
        data.write_text(content)
    monkeypatch.setattr("sys.argv", ["perf.bench", "--redraw", str(data)])
    assert main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "perf/results/DATE-bench.json" in line
    assert "Errno" not in line


def test_a_section_that_is_missing_is_said_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--update-readme needs the section of its variant in the page."""
    page = tmp_path / "README.md"
    page.write_text("<!-- results: end -->")
    monkeypatch.setattr("perf.bench.options.README", page)
    assert options("--update-readme").update_readme
    with pytest.raises(SystemExit):
        options("--update-readme", "--storage", "postgres", "--workers", "2")
    assert "no section results-postgres-2workers" in capsys.readouterr().err
