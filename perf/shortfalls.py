"""What falls short of what is wanted, and what was not measured: collected from the published results.

``python -m perf.shortfalls`` writes the list anew; every ``--update-readme`` does so too.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from perf.findings import update_section
from perf.rig.site_setup import ROOT

NAME = "shortfalls"
PAGE = ROOT / "docs" / "performance" / "laboratory.md"
BEGIN = re.compile(r"<!-- (\S+): begin ")
TOLD = ("- FALLS SHORT: ", "- FAILED: ", "- NOT QUIET: ", "- NOT RUN: ", "Not measured")  # how results say it


def told(page: str) -> Iterator[tuple[str, str]]:
    """Return, in the page's order, the heading above each published section and what falls short in it."""
    heading, inside = "", ""
    for line in page.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif begun := BEGIN.match(line):
            inside = begun[1]
        elif line == f"<!-- {inside}: end -->":
            inside = ""
        elif inside not in ("", NAME) and line.startswith(TOLD):
            yield heading, line.removeprefix("- ").removeprefix("FALLS SHORT: ")


def listed(page: str) -> str:
    """Return the list as Markdown, each line with a link to its section."""
    lines = [f"- [{heading}](#{_anchor(heading)}): {what}" for heading, what in told(page)]
    return "\n".join([*(lines or ["Nothing: no section of this page says that a measured wish was missed."]), ""])


def refresh(page: Path) -> None:
    """Write the list into ``page``; one without its section stays as it is."""
    text = page.read_text(encoding="utf-8")
    if f"<!-- {NAME}: end -->" in text:
        update_section(page, NAME, listed(text))


def publish(page: Path, name: str, text: str) -> None:
    """Replace the section ``name`` of ``page``, and bring the list up to date.

    Raises:
        ValueError: the page has no such section.
    """
    update_section(page, name, text)
    refresh(page)


def _anchor(heading: str) -> str:
    """Return what a heading's link is called where Markdown is shown."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def main() -> int:
    """Write the list into docs/performance/laboratory.md."""
    refresh(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
