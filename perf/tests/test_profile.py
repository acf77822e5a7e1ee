"""What the profiler makes of py-spy's output."""

from pathlib import Path

import pytest

from perf import profile

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
