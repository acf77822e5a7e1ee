"""Serve a swarm for ten minutes and see whether anything grows: ``python -m perf.soak``.

The swarm is that of ``python -m perf.swarm --shape soak``, journeys, checks and thresholds included. Beside it each
worker's memory, open files and threads are sampled, SQLite's -wal or the connections to Postgres, the entries in L1,
and the latency of every minute. Exit status: 0 nothing grew and every threshold was kept; 1 something did, or was
not; 2 something did not start; 130 interrupted.
"""

import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from perf import plots, runner
from perf.findings import Finding, Table
from perf.rig.arguments import Parser, number, whole_number
from perf.rig.console import leave_by_interrupt, status_of
from perf.runner import RESULTS
from perf.soak_sampling import Sample, SoakSampler
from perf.soak_trend import MIB, Minute, after_warm_up, by_minute, checks, memory_lines
from perf.swarm import options as swarm_options
from perf.swarm.run import run
from perf.swarm.site import OwnSite, Site
from perf.swarm.thresholds import Summary

SECONDS, QUICK_SECONDS = 600.0, 20.0
INTERVAL_S, QUICK_INTERVAL_S = 5.0, 1.0
USERS: Final = 20  # a fifth to a third of a core: a soak is about time, not load
#: An access token's life in this run, seconds: ten-minute tokens would not be through their first life at its end.
TOKEN_S: Final = 60
HYPOTHESIS: Final = (
    "After two minutes nothing grows any more: memory, open files, threads, connections, SQLite's log and the entries "
    "in L1 stay where they are, and the tenth minute is as fast as the third."
)


@dataclass
class Watch:
    """What is seen of a site while the swarm is at work."""

    token: str
    interval_s: float
    samples: list[Sample] = field(default_factory=list)
    minutes: list[Minute] = field(default_factory=list)

    @contextmanager
    def beside(self, site: Site) -> Iterator[None]:
        """Sample the site's server until the block ends, then read its access log."""
        assert isinstance(site, OwnSite)  # no --host here
        with SoakSampler(
            site.server.pid,
            database=site.environment["DATABASE_URL"],
            metrics=f"{site.host}/metrics",
            token=self.token,
            interval_s=self.interval_s,
        ) as sampler:
            yield
        self.samples = sampler.samples
        with site.server.log.open("rb") as log:
            self.minutes = by_minute(log, began=sampler.began)


def main() -> int:
    """Run what the command line asks for."""
    leave_by_interrupt()
    given = _parser().parse_args()
    return status_of(lambda: _soak(given))


def _parser() -> Parser:
    parser = runner.parser("soak", __doc__, quick="see that it works: growth is shown and judged by nobody")
    add = parser.add_argument
    add("--storage", choices=("sqlite", "postgres"), default="sqlite", help="postgres: with Redis, both private")
    add("--workers", type=whole_number(1, 64, 2), default=2, help="processes of the server (2)")
    add("--users", type=whole_number(10, 2_000, USERS), default=USERS, help=f"users of the swarm ({USERS})")
    add("--seconds", type=number(10, 4 * 3_600, SECONDS), help=f"length ({SECONDS:g}; quick {QUICK_SECONDS:g})")
    return parser


def _soak(given: Any) -> int:
    seconds = given.seconds or (QUICK_SECONDS if given.quick else SECONDS)
    watch = Watch(secrets.token_urlsafe(32), QUICK_INTERVAL_S if given.quick else INTERVAL_S)
    name = f"soak_{given.storage}"
    summaries: list[Summary] = []

    def measure() -> Finding:
        summary = run(_swarm(given, seconds, watch.token), beside=watch.beside)
        assert summary is not None  # only Locust's page ends without
        summaries.append(summary)
        return finding(summary, watch, name=name, quick=given.quick)

    found = runner.keep(name, HYPOTHESIS, measure, quick=given.quick, update_readme=given.update_readme)
    return 0 if summaries[0].kept and found.kept else 1


def _swarm(given: Any, seconds: float, token: str) -> swarm_options.Options:
    """Return what the swarm is told; its thresholds on times are for quiet machines, these are about growth."""
    arguments = ["--shape", "soak", "--seconds", str(seconds), "--users", str(given.users)]
    arguments += ["--storage", given.storage, "--workers", str(given.workers)]
    settings = {"METRICS": 1, "METRICS_TOKEN": token, "ACCESS_TOKEN_S": TOKEN_S}
    for setting, value in settings.items():
        arguments += ["--set", f"IRONAUTH_{setting}={value}"]
    arguments += ["--max-signin-p95-ms", str(swarm_options.PATIENT_MS), *(["--quick"] if given.quick else [])]
    return swarm_options.parse(arguments)


def finding(summary: Summary, watch: Watch, *, name: str, quick: bool) -> Finding:
    """Say what was found; a quick run is over before anything is warm, and is held against nothing."""
    path = (RESULTS / "raw" / "plots" if quick else RESULTS / "plots") / f"{name.replace('_', '-')}.svg"
    memory = memory_lines(watch.samples)
    plots.lines(path, "Memory of each worker", memory, x="minutes since the start", y="resident, MiB")
    result = summary.result
    notes = [
        (
            f"{result.requests:,} requests in {result.seconds:.0f} s, {result.failed:,} failed, "
            f"{sum(result.tally.shed.values()):,} shed; {summary.about.partition(', IRONAUTH')[0]}."
        ),
        *(f"Swarm: {verdict}" for verdict in summary.verdicts if not verdict.kept),
        (
            "Growth is the Theil-Sen slope (the median of the slopes between every two samples) of the last four "
            f"fifths of the run, extrapolated to an hour. Access tokens live {TOKEN_S} s in it."
        ),
    ]
    judged = [] if quick else checks(watch.samples, watch.minutes)
    tables = [_held(watch.samples), _latency(watch.minutes)]
    data = {"samples": watch.samples, "minutes": watch.minutes}
    return Finding(tables, judged, [path.name], notes, data=data, failed=result.failed)


def _held(samples: Sequence[Sample]) -> Table:
    """Return what was held at the start, after the warm-up, half-way and at the end."""
    columns = ["after", "memory of each worker, MiB", "open files", "threads", "-wal MiB", "Postgres", "L1 entries"]
    judged = after_warm_up(samples)
    shown = [samples[0], judged[0], judged[len(judged) // 2], judged[-1]] if judged else []
    rows = [
        [
            f"{sample.at_s:.0f} s",
            ", ".join(f"{worker.rss_bytes / MIB:.1f}" for worker in sample.workers.values()),
            ", ".join(str(worker.files) for worker in sample.workers.values()),
            ", ".join(str(worker.threads) for worker in sample.workers.values()),
            "" if sample.wal_bytes is None else f"{sample.wal_bytes / MIB:.1f}",
            _or_blank(sample.backends),
            _or_blank(sample.l1_entries),
        ]
        for sample in shown
    ]
    return Table("Held by the server", columns, rows)


def _latency(minutes: Sequence[Minute]) -> Table:
    rows = [
        [str(one.number + 1), f"{one.answers:,}", f"{one.p50_ms:.2f}", f"{one.p99_ms:.1f}", f"{one.unavailable}"]
        for one in minutes
    ]
    return Table("By minute, from the access log", ["minute", "answers", "p50 ms", "p99 ms", "503"], rows)


def _or_blank(value: int | None) -> str:
    return "" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
