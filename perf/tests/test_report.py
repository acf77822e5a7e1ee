"""The report: thresholds, failures, and the README's results section."""

from pathlib import Path

import pytest

from perf.machine import describe, file_system
from perf.report import Conditions, Report, markdown, thresholds
from perf.results import BEGIN, END, save, update_section
from perf.summary import Round

ROOT = Path(__file__).resolve().parents[2]


def rounds(*rates: float, failed: int = 0, shed: int = 0) -> list[Round]:
    """Build rounds of the given rates."""
    failures = {"status 500": failed} if failed else {}
    return [Round(rate, 1.0, 2.0, int(rate), failed, shed, failures=failures) for rate in rates]


def report(**measured: list[Round]) -> Report:
    """Build a report of this machine."""
    conditions = Conditions(
        started_at="2026-11-21T08:00:00Z", rounds=3, seconds=5, hash_seconds=10, connections=16, hash_connections=8,
        hash_threads=2, argon2="Argon2id", malloc="", server_cores="0", client_cores="1", database="SQLite",
        access_log="on",
    )  # fmt: skip
    built = Report(describe(ROOT), conditions, measured, access_lines=7)
    built.thresholds = thresholds(built)
    return built


def test_thresholds_stand_on_the_median_ratio() -> None:
    """50 % of bare and 95 % of the raw hash rate pass exactly there, and fall short just below."""
    passing = report(bare=rounds(100, 100, 100), me=rounds(50, 50, 1), hash=rounds(20), signin=rounds(19))
    assert [each.met for each in passing.thresholds] == [True, True]
    short = report(bare=rounds(100), me=rounds(49.9), hash=rounds(20), signin=rounds(18.9))
    assert [each.met for each in short.thresholds] == [False, False]
    assert markdown(short).count("FALLS SHORT") == 2


def test_a_threshold_without_its_workloads_is_not_judged() -> None:
    """A partial run neither passes nor fails what it did not measure."""
    assert report(bare=rounds(100), ping=rounds(50)).thresholds == []


def test_failed_and_shed_answers_fail_the_run() -> None:
    """Both appear in the table, in the reasons and in the count behind the exit status."""
    failing = report(bare=rounds(100, 100), me=rounds(10, 10, failed=2, shed=1))
    assert failing.failed == 6
    assert "| 4 | 2 |" in markdown(failing)
    assert "me: status 500: 4" in markdown(failing)
    assert report(bare=rounds(100)).failed == 0


def test_a_noisy_machine_is_reported() -> None:
    """What other processes used is named as soon as it may have changed a rate."""
    quiet = Round(100.0, 1.0, 2.0, 100, 0, 0, other_cores=0.15)
    noisy = Round(100.0, 1.0, 2.0, 100, 0, 0, other_cores=0.16)
    assert "NOT QUIET" not in markdown(report(bare=[quiet]))
    assert "NOT QUIET" in markdown(report(bare=[quiet, noisy]))


def test_shares_of_cpu_time_stand_beside_the_rates() -> None:
    """The ratio by CPU time is given where both sides were measured, and left out where one was not."""
    bare = Round(100.0, 1.0, 2.0, 100, 0, 0, server_cpu_us=25.0)
    me = Round(20.0, 1.0, 2.0, 20, 0, 0, server_cpu_us=100.0)
    assert "the bare callable of warm /me: 25.0%" in markdown(report(bare=[bare], me=[me]))
    assert "CPU time:" not in markdown(report(bare=[bare], ping=[me]))


def test_results_are_written_by_date(tmp_path: Path) -> None:
    """A run leaves JSON and Markdown named by its date; quick runs stay in the ignored folder."""
    full = save(report(bare=rounds(100)), "table", folder=tmp_path, quick=False)
    quick = save(report(bare=rounds(100)), "table", folder=tmp_path, quick=True)
    assert [path.relative_to(tmp_path).as_posix() for path in full + quick] == [
        "2026-11-21-bench.json",
        "2026-11-21-bench.md",
        "raw/2026-11-21-quick.json",
        "raw/2026-11-21-quick.md",
    ]
    assert "table" in full[1].read_text()


def test_the_results_section_is_replaced(tmp_path: Path) -> None:
    """Only what stands between the markers changes; a page without them is refused."""
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    update_section(page, "new")
    assert page.read_text() == f"before\n{BEGIN}\n\nnew\n{END}\nafter\n"
    page.write_text("nothing here")
    with pytest.raises(ValueError, match="restore"):
        update_section(page, "new")


def test_the_readme_can_take_results() -> None:
    """perf/README.md has its results section."""
    text = (ROOT / "perf" / "README.md").read_text()
    assert text.index(BEGIN) < text.index(END)


def test_the_machine_is_described(tmp_path: Path) -> None:
    """Processor, versions and storage are named, so that figures can be compared."""
    machine = describe(ROOT)
    assert machine.cores >= 1
    assert machine.versions["Django"].startswith("6.")
    assert file_system(tmp_path) != "unknown"
