"""What a run of the swarm has to keep to pass."""

from pathlib import Path

import msgspec
import pytest

from perf.rig.machine import describe
from perf.swarm.thresholds import (
    KINDS,
    Entry,
    Limits,
    Result,
    Summary,
    Tally,
    Trouble,
    judge,
    markdown,
    rounded,
    worst_p95,
)

LIMITS = Limits(me_p95_ms=100, signin_p95_ms=2_000, min_requests=10, late_percent=5, allow_shed=False)


def entry(method: str, name: str, p95_ms: float | None, *, requests: int = 50, failures: int = 0) -> Entry:
    """Make an entry of the statistics."""
    return Entry(method, name, requests, failures, 1.0, p95_ms, p95_ms, p95_ms, p95_ms)


def good_result() -> Result:
    """Make a result that keeps every limit."""
    entries = [
        entry("GET", "/me", 5.0),
        entry("GET", "/me (cookie)", 90.0),
        entry("GET", "/me (cookie) [expired]", 900.0),
        entry("DELETE", "/me", 1_500.0),
        entry("POST", "/signin", 1_900.0),
        entry("POST", "/signin [503]", 9_000.0),
    ]
    tally = Tally(journeys=dict.fromkeys(KINDS, 1), starts=100, late=5)
    return Result("constant", 10, 1, 60.0, entries, [], [], tally)


def missed(result: Result, limits: Limits = LIMITS) -> list[str]:
    """Return what was missed."""
    return [verdict.what for verdict in judge(result, limits) if not verdict.kept]


def test_a_good_run_keeps_every_threshold() -> None:
    """At the limit is within it, and answers of another kind do not count as latencies of the real ones."""
    result = good_result()
    assert worst_p95(result, "GET", "/me") == 90.0
    assert missed(result) == []
    assert all(str(verdict).startswith("pass: ") for verdict in judge(result, LIMITS))


def test_each_threshold_is_missed_on_its_own() -> None:
    """Whatever goes wrong is named, and only that."""
    result = good_result()
    result.entries = [*result.entries[:-1], entry("POST", "/signup", 9.0, failures=1)]
    assert missed(result) == ["failed requests"]
    result = good_result()
    result.exceptions = [Trouble("x", "y", 2)]
    assert missed(result) == ["errors in journeys"]
    result = good_result()
    result.lost = 1
    assert missed(result) == ["load generator processes lost"]
    result = good_result()
    result.tally.journeys["Browser"] = 0
    assert missed(result) == ["journeys completed"]
    result = good_result()
    result.tally.late = 6
    assert missed(result) == ["constant-rate requests that started over 0.1 s late"]
    strict = msgspec.structs.replace(LIMITS, me_p95_ms=89.9, signin_p95_ms=1_899, min_requests=301)
    assert missed(good_result(), strict) == ["p95 of /me", "p95 of sign-in", "requests"]


def test_a_run_that_was_too_short_is_told_what_to_do() -> None:
    """Journeys that found no time to end are missed with a remedy; what was kept needs none."""
    result = good_result()
    result.tally.journeys["Member"] = 0
    (line,) = [str(verdict) for verdict in judge(result, LIMITS) if not verdict.kept]
    assert line.startswith("MISSED: journeys completed")
    assert "raise --seconds or --users" in line
    assert "--users" not in " ".join(str(verdict) for verdict in judge(good_result(), LIMITS))


def test_a_test_that_was_stopped_is_held_against_nothing() -> None:
    """The figures are shown without a verdict."""
    result = good_result()
    result.tally.journeys["Member"] = 0
    verdicts = judge(result, LIMITS)
    summary = Summary("2026-11-21T12:00:00Z", "own server", describe(Path()), result, verdicts, [])
    assert "MISSED: journeys completed" in markdown(summary)
    result.cut_short = True
    page = markdown(summary)
    assert "MISSED" not in page
    assert "pass:" not in page
    assert "- stopped before its time: held against no threshold\n- failed requests: 0" in page


def test_shed_load_fails_a_run_unless_it_is_allowed() -> None:
    """503 with Retry-After is no failure of its own, but only a run that expects it may have it."""
    result = good_result()
    result.tally.shed["POST /signin"] = 3
    result.tally.gave_up = 1
    assert missed(result) == ["requests shed (503 with Retry-After)", "journeys given up after repeated 503"]
    assert missed(result, msgspec.structs.replace(LIMITS, allow_shed=True)) == []


def test_what_was_not_measured_is_missed() -> None:
    """A run without a single /me does not pass for a fast one."""
    result = good_result()
    result.entries = [each for each in result.entries if each.method != "GET"]
    verdict = next(verdict for verdict in judge(result, LIMITS) if verdict.what == "p95 of /me")
    assert (verdict.kept, verdict.measured) == (False, "nothing was measured")


@pytest.mark.parametrize(("given", "kept"), [(0.5234, 0.52), (9.96, 10.0), (147, 150.0), (3_432, 3_400.0), (0, 0.0)])
def test_response_times_keep_two_digits(given: float, kept: float) -> None:
    """Times below a millisecond are told apart, and long ones share their place in the histogram."""
    assert rounded(given) == kept
