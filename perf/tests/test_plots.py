"""Plots."""

from pathlib import Path

from perf import plots


def test_the_same_figures_give_the_same_file(tmp_path: Path) -> None:
    """A plot drawn twice is the same bytes: a commit shows changed figures only."""
    for name in ("a.svg", "b.svg"):
        plots.bars(tmp_path / name, "rates", {"one": 1, "two": 2}, unit="requests/s")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_labels_are_text_in_the_file(tmp_path: Path) -> None:
    """Titles, axes and legends can be read and searched, and no path or date of the machine gets in."""
    plots.lines(tmp_path / "l.svg", "latency", {"p50": [(1, 2), (2, 3)], "p99": [(1, 9), (2, 12)]}, x="t", y="ms")
    text = (tmp_path / "l.svg").read_text()
    assert all(f">{word}<" in text for word in ("latency", "p50", "p99", "ms"))
    assert str(tmp_path) not in text
    assert "<dc:date>" not in text
