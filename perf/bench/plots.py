"""The benchmark's plots, drawn from a report alone, so that a kept JSON draws them again."""

from pathlib import Path

from perf import plots
from perf.bench.report import HASHING, Report
from perf.load.workloads import BARE, HASH
from perf.rig.sampling import Sample

# The short name, without Markdown, that a bar has room for.
_LABELS = {BARE: "bare ASGI", "bare-ours": "bare ASGI, our protocol class", HASH: "raw hash"}


def draw(report: Report, folder: Path) -> list[str]:
    """Draw what the report has figures for into ``folder``; return the names of the files.

    ``bench<variant>-share``, ``-latency``, ``-hashing``, ``-cpu`` and ``-run-queue``, all SVG.
    """
    drawn: list[str] = []

    def path(what: str) -> Path:
        drawn.append(f"bench{report.variant}-{what}.svg")
        return folder / drawn[-1]

    title = f"{report.conditions.storage}, {report.conditions.workers} worker{'s'[: report.conditions.workers - 1]}"
    light = [name for name in report.rounds if name not in HASHING and name != HASH]
    shares = {_label(report, name): ratio.median for name in light if (ratio := report.ratio(name, BARE)) is not None}
    if shares:
        percents = {label: 100 * share for label, share in shares.items()}
        plots.bars(path("share"), f"Requests/s as a share of the bare ASGI callable ({title})", percents, unit="%")
        latencies = {
            f"{_label(report, name)} {percentile}": report.median(name, f"{percentile}_ms")
            for name in light
            for percentile in ("p50", "p99")
        }
        plots.bars(path("latency"), f"Latency at saturation ({title})", latencies, unit="ms")
    hashing = {_label(report, name): report.median(name, "rate") for name in report.rounds if name in HASHING | {HASH}}
    if hashing:
        plots.bars(path("hashing"), f"With a password hash ({title})", hashing, unit="requests/s")
    samples = sorted(
        (sample for rounds in report.rounds.values() for each in rounds for sample in each.samples),
        key=lambda sample: sample.at_s,
    )
    if samples:
        _machine(samples, path("cpu"), path("run-queue"), title)
    return drawn


def _machine(samples: list[Sample], cpu: Path, queue: Path, title: str) -> None:
    """Draw CPU by core and the run queue over the whole run."""
    cores = {
        f"core {number}": [(sample.at_s, sample.cores[number].user + sample.cores[number].system) for sample in samples]
        for number in range(len(samples[0].cores))
    }
    plots.lines(cpu, f"CPU, user and system, over the run ({title})", cores, x="seconds", y="% of the core")
    lengths = [(sample.at_s, float(sample.run_queue)) for sample in samples]
    plots.lines(queue, f"Run queue over the run ({title})", {"tasks": lengths}, x="seconds", y="running or ready tasks")


def _label(report: Report, name: str) -> str:
    return f"peer {name}" if name in report.conditions.peers else _LABELS.get(name, name)
