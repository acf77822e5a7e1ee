"""Where results go: files named by date, and the results section of README.md."""

from pathlib import Path

import msgspec

from perf.report import Report

BEGIN = "<!-- results: begin (written by python -m perf.bench --update-readme) -->"
END = "<!-- results: end -->"


def save(report: Report, text: str, *, folder: Path, quick: bool, suffix: str = "") -> list[Path]:
    """Write ``<date>-bench.json`` and ``.md`` (a later run of the day replaces them); quick runs go to ``raw/``.

    ``suffix``: what is added to the names.
    """
    target = folder / "raw" if quick else folder
    target.mkdir(parents=True, exist_ok=True)
    stem = f"{report.conditions.started_at[:10]}-{'quick' if quick else 'bench'}{suffix}"
    data, page = target / f"{stem}.json", target / f"{stem}.md"
    data.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    page.write_text(f"# Benchmark of {report.conditions.started_at[:10]}\n\n{text}")
    return [data, page]


def update_section(page: Path, text: str) -> None:
    """Replace what stands between the results markers of ``page``.

    Raises:
        ValueError: a marker is missing.
    """
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no results section: restore the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")
