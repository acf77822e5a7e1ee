"""The benchmark's report: promises, failures, tables, plots, files and the README's results section."""

import shutil
from pathlib import Path

import pytest

from perf.bench.paced import PacedRound
from perf.bench.plots import draw
from perf.bench.report import Conditions, Report, thresholds
from perf.bench.results import load, redraw, save, section, update_readme
from perf.bench.tables import markdown
from perf.rig.machine import describe, file_system
from perf.rig.sampling import Core, Sample
from perf.summary import Round

ROOT = Path(__file__).resolve().parents[2]
PEER = {"other": "http://127.0.0.1:9000/me"}


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
    peers: dict[str, str] | None = None,
    paced: dict[str, list[PacedRound]] | None = None,
) -> Report:
    """Build a report of this machine."""
    conditions = Conditions(
        started_at="2026-11-21T08:00:00Z", rounds=3, seconds=5, hash_seconds=10, connections=16, hash_connections=8,
        hash_threads=2, argon2="Argon2id", malloc="", server_cores="0", client_cores="1", database="SQLite",
        access_log="on", storage=storage, workers=workers, peers=peers or {},
    )  # fmt: skip
    built = Report(describe(ROOT), conditions, measured, access_lines=7, paced=paced or {})
    built.thresholds = thresholds(built)
    return built


def test_promised_shares_stand_on_the_median_ratio() -> None:
    """50 % of bare and 95 % of the raw hash rate pass exactly there, and fall short just below."""
    passing = report(
        {"bare": rounds(100, 100, 100), "me": rounds(50, 50, 1), "hash": rounds(20), "signin": rounds(19),
         "signup": rounds(19)}
    )  # fmt: skip
    assert [each.met for each in passing.thresholds] == [True, True, True]
    short = report(
        {"bare": rounds(100), "me": rounds(49.9), "hash": rounds(20), "signin": rounds(18.9), "signup": rounds(18.9)}
    )
    assert [each.met for each in short.thresholds] == [False, False, False]
    assert markdown(short).count("FALLS SHORT") == 3


@pytest.mark.parametrize("storage", ["sqlite", "postgres"])
def test_refreshes_are_promised_by_number(storage: str) -> None:
    """900 in a second pass on either storage, the median of the rounds counts, and 899 fall short."""
    assert [each.met for each in report({"refresh": rounds(1, 900, 950)}, storage=storage).thresholds] == [True]
    assert [each.met for each in report({"refresh": rounds(899, 899, 950)}, storage=storage).thresholds] == [False]


def test_several_workers_are_not_judged() -> None:
    """The promises are about one worker on one core."""
    assert report({"bare": rounds(100), "me": rounds(1), "refresh": rounds(1)}, workers=2).thresholds == []


def test_a_promise_without_its_workloads_is_not_judged() -> None:
    """A partial run neither passes nor fails what it did not measure."""
    assert report({"bare": rounds(100), "ping": rounds(50)}).thresholds == []


def test_failed_and_shed_answers_fail_the_run() -> None:
    """Both appear in the table, in the reasons and in the count behind the exit status, at a fixed rate too."""
    failing = report({"bare": rounds(100, 100), "me": rounds(10, 10, failed=2, shed=1)})
    assert failing.failed == 6
    assert "| 4 | 2 |" in markdown(failing)
    assert "me: status 500: 4" in markdown(failing)
    assert report({"bare": rounds(100)}).failed == 0
    late = PacedRound(200.0, 1.0, 2.0, 3.0, 4.0, 0.1, 400, 2, 1, failures={"status 500": 2})
    paced = report({"bare": rounds(100)}, paced={"me": [late]})
    assert paced.failed == 3
    assert "me: status 500: 2" in markdown(paced)


def test_a_noisy_machine_is_reported() -> None:
    """What other processes used is named as soon as it may have changed a rate; a peer is no other process."""
    quiet = Round(100.0, 1.0, 2.0, 100, 0, 0, other_cores=0.15)
    noisy = Round(100.0, 1.0, 2.0, 100, 0, 0, other_cores=0.16)
    assert "NOT QUIET" not in markdown(report({"bare": [quiet]}))
    assert "NOT QUIET" in markdown(report({"bare": [quiet, noisy]}))
    assert "NOT QUIET" not in markdown(report({"bare": [quiet], "other": [noisy]}, peers=PEER))


def test_shares_of_cpu_time_stand_beside_the_rates() -> None:
    """The ratio by CPU time is given where both sides were measured, and left out where one was not."""
    bare = Round(100.0, 1.0, 2.0, 100, 0, 0, server_cpu_us=25.0)
    me = Round(20.0, 1.0, 2.0, 20, 0, 0, server_cpu_us=100.0)
    assert "the bare callable of warm /me: 25.0%" in markdown(report({"bare": [bare], "me": [me]}))
    assert "CPU time:" not in markdown(report({"bare": [bare], "ping": [me]}))


def test_a_peer_has_its_line_and_its_share() -> None:
    """A peer stands in the table with its URL and its ratio to bare, and without a CPU time nobody measured."""
    page = markdown(report({"bare": rounds(100), "other": rounds(25)}, peers=PEER))
    assert (
        "| peer other: `GET http://127.0.0.1:9000/me` | 25.0 (25.0-25.0) | 1.00 | 2.00 | 25.0% |  |  |  | 0 | 0 |"
        in page
    )


def test_samples_are_summarised_by_workload() -> None:
    """Mean CPU of all cores, mean and longest run queue, and the server's switches, over all rounds."""
    first = Round(100.0, 1.0, 2.0, 100, 0, 0, samples=[sampled(80.0, 1, 10.0)])
    second = Round(100.0, 1.0, 2.0, 100, 0, 0, samples=[sampled(40.0, 4, 30.0)])
    page = markdown(report({"bare": [first, second]}))
    assert "| 30 (30, 0, 0, 0) | 2.5, 4 | 1,000 | 7 | 20 |" in page
    assert "beside it" not in markdown(report({"bare": rounds(100)}))


def test_a_generator_that_was_late_is_named() -> None:
    """At a fixed rate, latencies that are the generator's own are marked."""
    fine = PacedRound(200.0, 1.0, 2.0, 3.0, 4.0, 0.9, 400, 0, 0)
    late = PacedRound(200.0, 1.0, 2.0, 3.0, 4.0, 1.1, 400, 0, 0)
    assert "LATE" not in markdown(report({"bare": rounds(100)}, paced={"me": [fine]}))
    assert "1.10 LATE" in markdown(report({"bare": rounds(100)}, paced={"me": [late]}))


def test_results_are_written_by_date_and_variant(tmp_path: Path) -> None:
    """A run leaves JSON, Markdown and plots named by date and kind; quick runs stay in the ignored folder."""
    measured = {"bare": rounds(100), "hash": rounds(20), "signin": rounds(19)}
    full = save(report(measured), folder=tmp_path, quick=False)
    assert [path.relative_to(tmp_path).as_posix() for path in full] == [
        "2026-11-21-bench.json",
        "2026-11-21-bench.md",
        "plots/bench-share.svg",
        "plots/bench-latency.svg",
        "plots/bench-hashing.svg",
    ]
    quick = save(report(measured, storage="postgres", workers=2), folder=tmp_path, quick=True)
    assert quick[0] == tmp_path / "raw" / "2026-11-21-quick-postgres-2workers.json"
    assert quick[2] == tmp_path / "raw" / "plots" / "bench-postgres-2workers-share.svg"
    assert all(path.exists() for path in full + quick)
    assert "(plots/bench-share.svg)" in full[1].read_text()


def test_a_kept_run_is_drawn_again(tmp_path: Path) -> None:
    """The JSON alone gives the same page and the same plots."""
    measured = {"bare": [Round(100.0, 1.0, 2.0, 100, 0, 0, samples=[sampled(80.0, 1, 10.0)])], "me": rounds(60)}
    data, page, *plots = save(report(measured), folder=tmp_path, quick=False)
    before = {path: path.read_bytes() for path in (page, *plots)}
    assert "bench-run-queue.svg" in {path.name for path in plots}
    page.unlink()
    shutil.rmtree(tmp_path / "plots")
    assert {path: path.read_bytes() for path in redraw(data)} == before


def test_something_else_is_not_drawn(tmp_path: Path) -> None:
    """A file that is no run is refused by name."""
    (tmp_path / "x.json").write_text('{"rounds": 3}')
    with pytest.raises(ValueError, match=r"x\.json is not the JSON of a benchmark run"):
        load(tmp_path / "x.json")


@pytest.mark.parametrize("kept", sorted((ROOT / "perf" / "results").glob("*-bench*.json")), ids=lambda path: path.name)
def test_every_committed_run_can_be_read(kept: Path) -> None:
    """What is published stays readable for --redraw."""
    assert load(kept).rounds


def test_nothing_is_drawn_without_figures(tmp_path: Path) -> None:
    """A run of the raw hash alone has one plot, not empty ones."""
    assert draw(report({"hash": rounds(20)}), tmp_path) == ["bench-hashing.svg"]


def test_the_results_section_is_replaced(tmp_path: Path) -> None:
    """Only the section of the run's kind changes, and its plots are found from there."""
    page = tmp_path / "README.md"
    begin = "<!-- {}: begin (written by python -m perf.bench --update-readme) -->"
    parts = [begin.format(name) + f"\noutdated\n<!-- {name}: end -->" for name in ("results", "results-postgres")]
    page.write_text("\n".join(["before", *parts, "after"]))
    run = report({"bare": rounds(100)}, storage="postgres")
    run.plots = ["bench-postgres-share.svg"]
    update_readme(run, page)
    text = page.read_text()
    assert text.startswith(f"before\n{parts[0]}\n")
    assert "(results/plots/bench-postgres-share.svg)" in text
    assert text.count("outdated") == 1
    page.write_text("nothing here")
    with pytest.raises(ValueError, match="restore"):
        update_readme(run, page)


def test_the_readme_can_take_results() -> None:
    """perf/README.md has its results section."""
    assert f"<!-- {section('')}: end -->" in (ROOT / "perf" / "README.md").read_text()


def test_the_machine_is_described(tmp_path: Path) -> None:
    """Processor, versions and storage are named, so that figures can be compared."""
    machine = describe(ROOT)
    assert machine.cores >= 1
    assert machine.versions["Django"].startswith("6.")
    assert file_system(tmp_path) != "unknown"
