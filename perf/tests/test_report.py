"""The benchmark's report: promises, failures, tables, plots, files and the results section of the laboratory's page."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perf.bench import report as bench_report
from perf.bench.options import section
from perf.bench.report import Conditions, Report, draw, variant
from perf.findings import Finding
from perf.rig.machine import describe, file_system
from perf.rig.sampling import Core, Sample
from perf.shortfalls import PAGE
from perf.summary import Round

ROOT = Path(__file__).resolve().parents[2]


def rounds(*rates: float, failed: int = 0, shed: int = 0) -> list[Round]:
    """Build rounds of the given rates."""
    failures = {"status 500": failed} if failed else {}
    return [Round(rate, 1.0, 2.0, int(rate), failed, shed, failures=failures) for rate in rates]


def sampled(busy: float, run_queue: int, involuntary: float, at_s: float = 1.0) -> Sample:
    """Build a sample of two cores, the second idle."""
    cores = [Core(busy, 0.0, 0.0, 0.0, 100.0 - busy), Core(0.0, 0.0, 0.0, 0.0, 100.0)]
    return Sample(at_s, cores, run_queue, 0.5, 1_000.0, 7.0, involuntary)


def report(
    measured: dict[str, list[Round]],
    *,
    storage: str = "sqlite",
    workers: int = 1,
) -> Report:
    """Build a report."""
    conditions = Conditions(
        rounds=3, seconds=5, hash_seconds=10, connections=16, hash_connections=8,
        hash_threads=2, argon2="Argon2id", malloc="", server_cores="0", client_cores="1", database="SQLite",
        access_log="on", storage=storage, workers=workers,
    )  # fmt: skip
    return Report(conditions, measured, access_lines=7)


def checks(measured: dict[str, list[Round]], **how: Any) -> list[bool]:
    """Return which promises were kept."""
    return [check.met for check in bench_report.checks(report(measured, **how))]


@pytest.fixture
def found(tmp_path: Path) -> Callable[..., Finding]:
    """What is said of a run on this machine."""
    machine = describe(ROOT)
    return lambda measured, **how: bench_report.finding(report(measured, **how), machine, tmp_path)


def test_promised_shares_stand_on_the_median_ratio() -> None:
    """50 % of bare and 95 % of the raw hash rate pass exactly there, and fall short just below."""
    passing = {"bare": rounds(100, 100, 100), "me": rounds(50, 50, 1), "hash": rounds(20), "signin": rounds(19)}
    assert checks(passing | {"signup": rounds(19)}) == [True, True, True]
    short = {"bare": rounds(100), "me": rounds(49.9), "hash": rounds(20), "signin": rounds(18.9)}
    assert checks(short | {"signup": rounds(18.9)}) == [False, False, False]


@pytest.mark.parametrize("storage", ["sqlite", "postgres"])
def test_refreshes_are_promised_by_number(storage: str) -> None:
    """900 in a second pass on either storage, the median of the rounds counts, and 899 fall short."""
    assert checks({"refresh": rounds(1, 900, 950)}, storage=storage) == [True]
    assert checks({"refresh": rounds(899, 899, 950)}, storage=storage) == [False]


def test_several_workers_are_not_judged() -> None:
    """The promises are about one worker on one core."""
    assert checks({"bare": rounds(100), "me": rounds(1), "refresh": rounds(1)}, workers=2) == []


def test_a_promise_without_its_workloads_is_not_judged() -> None:
    """A partial run neither passes nor fails what it did not measure."""
    assert checks({"bare": rounds(100), "ping": rounds(50)}) == []


def test_failed_and_shed_answers_fail_the_run(found: Callable[..., Finding]) -> None:
    """Both appear in the table, in the reasons and in the count behind the exit status."""
    failing = found({"bare": rounds(100, 100), "me": rounds(10, 10, failed=2, shed=1)})
    assert failing.failed == 6
    assert list(failing.tables[0].rows[1][-2:]) == ["4", "2"]
    assert "failed: me: status 500: 4" in failing.notes
    assert found({"bare": rounds(100)}).failed == 0


def test_a_noisy_machine_is_reported(found: Callable[..., Finding]) -> None:
    """What other processes used is named as soon as it may have changed a rate."""
    quiet = Round(100.0, 1.0, 2.0, 100, 0, 0, other_cores=0.15)
    noisy = Round(100.0, 1.0, 2.0, 100, 0, 0, other_cores=0.16)
    assert "NOT QUIET" not in str(found({"bare": [quiet]}).notes)
    assert "NOT QUIET" in str(found({"bare": [quiet, noisy]}).notes)


def test_shares_of_cpu_time_stand_beside_the_rates(found: Callable[..., Finding]) -> None:
    """The ratio by CPU time is given where both sides were measured, and left out where one was not."""
    bare = Round(100.0, 1.0, 2.0, 100, 0, 0, server_cpu_us=25.0)
    me = Round(20.0, 1.0, 2.0, 20, 0, 0, server_cpu_us=100.0)
    assert "CPU time: the bare callable of warm /me: 25.0%" in found({"bare": [bare], "me": [me]}).notes
    assert "CPU time:" not in str(found({"bare": [bare], "ping": [me]}).notes)


def test_samples_are_summarised_by_workload(found: Callable[..., Finding]) -> None:
    """Mean CPU of all cores, mean and longest run queue, and the server's switches, over all rounds."""
    first = Round(100.0, 1.0, 2.0, 100, 0, 0, samples=[sampled(80.0, 1, 10.0)])
    second = Round(100.0, 1.0, 2.0, 100, 0, 0, samples=[sampled(40.0, 4, 30.0)])
    with_samples = found({"bare": [first, second]})
    assert list(with_samples.tables[1].rows[0][1:]) == ["30 (30, 0, 0, 0)", "2.5, 4", "1,000", "7", "20"]
    assert "bench-run-queue.svg" in with_samples.plots
    assert len(found({"bare": rounds(100)}).tables) == 1


def test_plots_are_named_by_the_kind_of_run(tmp_path: Path) -> None:
    """Each kind has plots and a section of its own."""
    measured = {"bare": rounds(100), "hash": rounds(20), "signin": rounds(19)}
    kind = "-postgres-2workers"
    assert variant("postgres", 2) == kind
    assert variant("sqlite", 1) == ""
    drawn = draw(report(measured, storage="postgres", workers=2), tmp_path)
    assert drawn == [f"bench{kind}-{what}.svg" for what in ("share", "latency", "hashing")]
    assert all((tmp_path / name).exists() for name in drawn)


def test_nothing_is_drawn_without_figures(tmp_path: Path) -> None:
    """A run of the raw hash alone has one plot, not empty ones."""
    assert draw(report({"hash": rounds(20)}), tmp_path) == ["bench-hashing.svg"]


def test_the_readme_can_take_results() -> None:
    """The laboratory's page has its results section."""
    assert f"<!-- {section('')}: end -->" in PAGE.read_text()


def test_the_machine_is_described(tmp_path: Path) -> None:
    """Processor, versions and storage are named, so that figures can be compared."""
    machine = describe(ROOT)
    assert machine.cores >= 1
    assert machine.versions["Django"].startswith("6.")
    assert file_system(tmp_path) != "unknown"
