"""Records of experiments."""

from pathlib import Path

import msgspec
import pytest

from perf.findings import Check, Finding, Record, Table, markdown, save, update_section
from perf.rig.machine import describe

_FINDING = Finding(
    tables=[Table("Times", ("what", "ms"), [("a", "1.5"), ("b", "2.5")])],
    checks=[Check("ratio", 5, 6.25), Check("p99", 5, 5.5, ceiling=True, unit=" ms")],
    plots=["times.svg"],
    notes=["b is slower than was thought"],
)


def _record(*, quick: bool = False, finding: Finding = _FINDING) -> Record:
    return Record("times", "a and b take as long", "2026-11-21T12:00:00Z", 3.2, quick, describe(Path()), finding)


@pytest.mark.parametrize(
    ("check", "met"),
    [
        (Check("at the floor", 5, 5), True),
        (Check("below the floor", 5, 4.99), False),
        (Check("at the ceiling", 5, 5, ceiling=True), True),
        (Check("above the ceiling", 5, 5.01, ceiling=True), False),
    ],
)
def test_a_check_includes_its_bound(check: Check, met: bool) -> None:
    """A figure at the bound keeps the promise, one beyond it does not."""
    assert check.met is met
    assert ("pass" in str(check)) is met


def test_a_page_has_every_figure_and_says_what_falls_short() -> None:
    """Tables, plots, checks and notes are all on the page."""
    page = markdown(_record(), plots="plots")
    assert "| b | 2.5 |" in page
    assert "![times](plots/times.svg)" in page
    assert "pass: ratio: 6.25 (wanted: at least 5)" in page
    assert "FALLS SHORT: p99: 5.5 ms (wanted: at most 5 ms)" in page
    assert "b is slower than was thought" in page
    assert "FAILED" not in page


def test_a_page_with_failures_warns() -> None:
    """Figures of a run with wrong answers are not to be believed."""
    assert "FAILED: 7 answers" in markdown(_record(finding=Finding([], failed=7)), plots="plots")


def test_a_record_survives_being_saved(tmp_path: Path) -> None:
    """The JSON holds everything, and a quick run stays out of what is committed."""
    data, page = save(_record(), tmp_path)
    assert msgspec.json.decode(data.read_bytes(), type=Record).finding.checks[1].measured == 5.5
    assert "Expected: a and b take as long" in page.read_text()
    assert save(_record(quick=True), tmp_path)[0].parent == tmp_path / "raw"


def test_a_section_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    """Text around the markers stays; without markers nothing is written."""
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- times: begin (written by python -m perf.lab) -->\nold\n<!-- times: end -->\nafter\n")
    update_section(page, "times", "new")
    assert page.read_text().split("\n")[0] == "before"
    assert "old" not in page.read_text()
    assert "\nnew\n<!-- times: end -->\nafter\n" in page.read_text()
    with pytest.raises(ValueError, match="no section other"):
        update_section(page, "other", "new")
