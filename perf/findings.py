"""What an experiment found: tables, plots and checks, as JSON, as a page and as a section of the laboratory's page."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from perf.rig.machine import Machine


class Table(msgspec.Struct, frozen=True):
    """Figures as people read them; the first column names the line."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class Check(msgspec.Struct, frozen=True):
    """A figure this project promises: at least ``wanted``, or at most where ``ceiling``."""

    what: str
    wanted: float
    measured: float
    ceiling: bool = False
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the promise was kept."""
        return self.measured <= self.wanted if self.ceiling else self.measured >= self.wanted

    def __str__(self) -> str:
        verdict = "pass" if self.met else "FALLS SHORT"
        bound = "at most" if self.ceiling else "at least"
        return f"{verdict}: {self.what}: {self.measured:.4g}{self.unit} (wanted: {bound} {self.wanted:g}{self.unit})"


def at_most(what: str, wanted: float, measured: float, unit: str = "") -> Check:
    """Return the check of a ceiling."""
    return Check(what, wanted, measured, ceiling=True, unit=unit)


class Finding(msgspec.Struct):
    """One experiment's result. ``plots`` are names of files in ``perf/results/plots``; ``data`` is what was measured.

    ``failed`` counts answers that were wrong or missing: a finding with failures is not to be believed.
    """

    tables: Sequence[Table]
    checks: Sequence[Check] = ()
    plots: Sequence[str] = ()
    notes: Sequence[str] = ()
    data: dict[str, Any] = {}
    failed: int = 0

    @property
    def kept(self) -> bool:
        """Whether every promise was, and every answer right."""
        return not self.failed and all(check.met for check in self.checks)


class Record(msgspec.Struct):
    """A finding with what it depends on, as it is kept."""

    name: str
    hypothesis: str
    started_at: str
    seconds: float
    quick: bool
    machine: Machine
    finding: Finding


def now() -> str:
    """Return the time in UTC as it is written into records."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def markdown(record: Record, *, plots: str) -> str:
    """Render a record; ``plots`` is the folder of the plots as seen from the page."""
    finding, machine = record.finding, record.machine
    parts = []
    for table in finding.tables:
        lines = [f"| {' | '.join(table.columns)} |", f"|{'---|' * len(table.columns)}"]
        lines += [f"| {' | '.join(row)} |" for row in table.rows]
        parts.append("\n".join([f"**{table.title}**", "", *lines]))
    parts += [f"![{name.removesuffix('.svg')}]({plots}/{name})" for name in finding.plots]
    facts = [str(check) for check in finding.checks] + list(finding.notes)
    if finding.failed:
        facts.append(f"FAILED: {finding.failed:,} answers were wrong or missing: do not believe these figures")
    facts.append(
        f"{record.started_at}, {record.seconds:.0f} s, commit {machine.commit}; {machine.cpu}, {machine.cores} cores, "
        f"{machine.memory_gib} GiB, Linux {machine.kernel}, load average {machine.load_average:.2f} at the start; "
        f"Python {machine.python}."
    )
    parts.append("\n".join(f"- {fact}" for fact in facts))
    return "\n\n".join([*parts, ""])


def save(record: Record, results: Path) -> list[Path]:
    """Write ``<date>-<name>.json`` and ``.md`` into ``results``, or into its ``raw/`` (not committed) when quick."""
    folder = results / "raw" if record.quick else results
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{record.started_at[:10]}-{record.name}"
    data, page = stem.with_suffix(".json"), stem.with_suffix(".md")
    data.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
    text = markdown(record, plots="plots")
    page.write_text(f"# {record.name}\n\nExpected: {record.hypothesis}\n\n{text}", encoding="utf-8")
    return [data, page]


def update_section(page: Path, name: str, text: str) -> None:
    """Replace what stands between the markers of ``name`` in ``page``.

    Raises:
        ValueError: a marker is missing.
    """
    begin, end = f"<!-- {name}: begin (written by python -m perf.", f"<!-- {name}: end -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    command, closed, rest = rest.partition("-->")
    _, ended, after = rest.partition(end)
    if not (found and closed and ended):
        raise ValueError(f"{page} has no section {name}: restore the lines {begin}… --> and {end}")
    page.write_text(f"{before}{begin}{command}-->\n\n{text}\n{end}{after}", encoding="utf-8")
