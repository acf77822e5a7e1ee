"""Locust's statistics as a ``Result``."""

import time

from locust.runners import Runner
from locust.stats import StatsEntry

from perf.swarm.crew import Crew
from perf.swarm.thresholds import Entry, Result, Trouble


def measured(runner: Runner, crew: Crew, *, lost: int, cut_short: bool) -> Result:
    """Return what ``runner`` has in its statistics; ``lost``: processes that were there at first and not at last.

    ``cut_short``: the test was stopped before its time.
    """
    statistics = runner.stats
    began, ended = statistics.start_time, statistics.last_request_timestamp or time.time()
    options = runner.environment.parsed_options
    entries = sorted(statistics.entries.values(), key=lambda entry: (entry.name, entry.method))
    return Result(
        shape=options.shape if options else crew.assignment.shape,
        users=crew.assignment.users,
        processes=crew.assignment.processes,
        seconds=max(ended - began, 0.0),
        entries=[_entry(entry, max(ended - began, 1.0)) for entry in entries],
        failures=[
            Trouble(f"{error.method} {error.name}", str(error.error), error.occurrences)
            for error in statistics.errors.values()
        ],
        exceptions=[
            Trouble(_last_line(row["traceback"]), str(row["msg"]), row["count"]) for row in runner.exceptions.values()
        ],
        tally=crew.total,
        lost=lost,
        cut_short=cut_short,
    )


def _entry(entry: StatsEntry, seconds: float) -> Entry:
    def percentile(share: float) -> float | None:
        return float(entry.get_response_time_percentile(share)) if entry.num_requests else None

    return Entry(
        method=entry.method,
        name=entry.name,
        requests=entry.num_requests,
        failures=entry.num_failures,
        rate=entry.num_requests / seconds,
        p50_ms=percentile(0.5),
        p95_ms=percentile(0.95),
        p99_ms=percentile(0.99),
        max_ms=float(f"{entry.max_response_time:.3g}") if entry.num_requests else None,
    )


def _last_line(traceback: str) -> str:
    """Return the code line an exception came from, without the path of the file."""
    return traceback.strip().rsplit("\n", 1)[-1].strip()
