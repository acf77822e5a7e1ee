"""Where results go: files named by date, and the results section of README.md."""

from pathlib import Path

import msgspec

from perf.bench.plots import draw
from perf.bench.report import Report, thresholds
from perf.bench.tables import markdown
from perf.shortfalls import publish


def save(report: Report, *, folder: Path, quick: bool) -> list[Path]:
    """Draw the plots, then write ``<date>-bench<variant>.json`` and ``.md``; a later run of the day replaces them.

    ``report.plots`` names the plots afterwards. Quick runs go to ``raw/``, their plots too.
    """
    target = folder / "raw" if quick else folder
    report.plots = draw(report, target / "plots")
    stem = f"{report.conditions.started_at[:10]}-{'quick' if quick else 'bench'}{report.variant}"
    data, page = target / f"{stem}.json", target / f"{stem}.md"
    data.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    _write_page(report, page)
    return [data, page, *(target / "plots" / name for name in report.plots)]


def redraw(data: Path) -> list[Path]:
    """Make page and plots of a kept run again; return what was written.

    Raises:
        ValueError: not the JSON of a run, or of one too old to be read.
    """
    report = load(data)
    report.thresholds = thresholds(report)
    report.plots = draw(report, data.parent / "plots")
    page = data.with_suffix(".md")
    _write_page(report, page)
    return [page, *(data.parent / "plots" / name for name in report.plots)]


def load(data: Path) -> Report:
    """Read a kept run.

    Raises:
        ValueError: as ``redraw``.
    """
    try:
        return msgspec.json.decode(data.read_bytes(), type=Report)
    except msgspec.DecodeError as error:
        raise ValueError(f"{data} is not the JSON of a benchmark run: {error}") from error


def update_readme(report: Report, page: Path) -> None:
    """Put the run into its section of ``page``: "results", or "results<variant>".

    Raises:
        ValueError: the page has no such section.
    """
    publish(page, section(report.variant), markdown(report, plots="results/plots"))


def section(variant: str) -> str:
    """Return the name of the section of README.md that takes a run of this variant."""
    return f"results{variant}"


def _write_page(report: Report, page: Path) -> None:
    page.write_text(f"# Benchmark of {report.conditions.started_at[:10]}\n\n{markdown(report)}", encoding="utf-8")
