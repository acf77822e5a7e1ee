"""The list of what falls short."""

import re
from pathlib import Path

from perf.rig.site_setup import ROOT
from perf.shortfalls import PAGE, listed, publish, told

PAGE_TEXT = """# Measuring

<!-- shortfalls: begin (written by python -m perf.shortfalls) -->

- FALLS SHORT: of long ago

<!-- shortfalls: end -->

- FALLS SHORT: said outside of any result

### SQLite: times & pools

<!-- times: begin (written by python -m perf.lab times) -->

- pass: a: 5 (wanted: at least 5)
- FALLS SHORT: b: 4 ms (wanted: at most 3 ms)
- FAILED: 7 answers were wrong

<!-- times: end -->

### Two workers

<!-- results-2workers: begin (written by python -m perf.bench) -->

Not measured on a quiet machine yet.

<!-- results-2workers: end -->
"""


def test_every_section_is_asked_and_nothing_else() -> None:
    """What a result says of itself, under its heading; neither the list itself nor prose."""
    assert list(told(PAGE_TEXT)) == [
        ("SQLite: times & pools", "b: 4 ms (wanted: at most 3 ms)"),
        ("SQLite: times & pools", "FAILED: 7 answers were wrong"),
        ("Two workers", "Not measured on a quiet machine yet."),
    ]
    assert listed("# Nothing") == "Nothing: no section of this page says that a measured wish was missed.\n"


def test_publishing_a_result_brings_the_list_up_to_date(tmp_path: Path) -> None:
    """A line for each, with a link; what is met now is gone."""
    page = tmp_path / "README.md"
    page.write_text(PAGE_TEXT)
    publish(page, "results-2workers", "- pass: c: 1 (wanted: at least 1)\n")
    text = page.read_text()
    assert "- [SQLite: times & pools](#sqlite-times--pools): b: 4 ms (wanted: at most 3 ms)\n" in text
    assert "Not measured" not in text
    assert "of long ago" not in text
    page.write_text(text := "<!-- x: begin (written by python -m perf.lab) -->\n<!-- x: end -->\n")
    publish(page, "x", "new\n")  # a page without a list
    assert page.read_text() != text


def test_the_published_list_is_up_to_date() -> None:
    """Otherwise: python -m perf.shortfalls."""
    assert listed(page := PAGE.read_text()) in page


def test_readme_leads_to_the_list() -> None:
    """The figures a newcomer reads first say where the others are."""
    assert "(docs/performance/laboratory.md#what-falls-short)" in (ROOT / "README.md").read_text()
    assert re.search(r"^## What falls short$", PAGE.read_text(), re.MULTILINE)
