"""What the profiler makes of py-spy's output."""

import subprocess
from pathlib import Path

import pytest

from perf import profile
from perf.rig.site_setup import ROOT

SVG = '<svg><text id="title" x="50%">/somewhere/py-spy record --pid 1</text><text id="details"> </text></svg>'
STACKS = """main (a.py:1);work (b.py:7) 30
main (a.py:1);work (b.py:9);leaf (c.py:3) 10
main (a.py:2) 60
"""


def test_the_table_counts_functions_not_lines() -> None:
    """Samples on top, and anywhere on the stack, once for each sample."""
    lines = profile._table(STACKS).splitlines()
    assert lines[2:] == [
        "| `main (a.py)` | 60.0% | 100.0% |",
        "| `work (b.py)` | 30.0% | 40.0% |",
        "| `leaf (c.py)` | 10.0% | 10.0% |",
    ]
    assert profile._table("").splitlines()[2:] == []


def test_what_is_published_is_only_replaced_on_demand() -> None:
    """Recordings go where nothing is committed, unless --publish is given."""
    raw, published = profile.folder_of(publish=False), profile.folder_of(publish=True)
    assert raw.relative_to(ROOT).as_posix() == "perf/results/raw/profiles"
    assert published.relative_to(ROOT).as_posix() == "perf/results/profiles"
    assert "/perf/results/raw/" in (ROOT / ".gitignore").read_text().splitlines()


def test_a_machine_with_other_work_is_told(tmp_path: Path) -> None:
    """As the benchmark does: above 0.15 cores."""
    assert profile._noise(profile.Recording(tmp_path, tmp_path, others=0.15)) == []
    assert (
        "NOT QUIET: other processes kept up to 0.40"
        in profile._noise(profile.Recording(tmp_path, tmp_path, others=0.4))[0]
    )


def test_a_recorder_ends_when_the_recording_is_interrupted() -> None:
    """What was started is killed and waited for, whatever happens."""
    recorder = subprocess.Popen(["sleep", "60"], process_group=0)
    with pytest.raises(KeyboardInterrupt), profile._ended(recorder):
        raise KeyboardInterrupt
    assert recorder.returncode == -9


def test_an_interruption_is_one_line_and_status_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback."""

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.argv", ["perf.profile", "me"])
    monkeypatch.setattr(profile, "leave_by_interrupt", lambda: None)
    monkeypatch.setattr(profile, "_record", interrupted)
    assert profile.main() == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Interrupted: ")


def test_the_picture_names_the_workload_and_no_path(tmp_path: Path) -> None:
    """The command line, with the machine's folders, is replaced."""
    picture = tmp_path / "a.svg"
    picture.write_text(SVG)
    profile._name(picture, "`GET /a`, b & c")
    assert picture.read_text() == SVG.replace("/somewhere/py-spy record --pid 1", "GET /a, b &amp; c")


@pytest.mark.parametrize("arguments", [["nothing"], ["me", "--seconds", "0"], ["me", "--seconds", "61"], ["hash"]])
def test_unknown_workloads_and_endless_recordings_are_refused(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """Before anything is started."""
    monkeypatch.setattr("sys.argv", ["perf.profile", *arguments])
    with pytest.raises(SystemExit) as refused:
        profile.main()
    assert refused.value.code == 2
