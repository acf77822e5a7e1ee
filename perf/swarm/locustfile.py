"""What Locust loads: the users, one shape that plays all of ``assignment``, and the verdict that sets the exit status.

``python -m perf.swarm`` prepares what is needed and starts Locust with it.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from locust import LoadTestShape, events, runners, stats
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.event import EventHook
from locust.runners import LocalRunner, MasterRunner, Runner, WorkerRunner
from locust.stats import StatsEntry

from perf.swarm.assignment import SHAPES, stages, users_at
from perf.swarm.journeys import Browser, Member, Newcomer, ServiceClient
from perf.swarm.oauth_journey import Applicant
from perf.swarm.thresholds import Entry, Result, Trouble, judge, kinds, rounded
from perf.swarm.visitor import CREW, Crew

__all__ = ["Applicant", "Browser", "Member", "Newcomer", "ServiceClient", "Swarm"]

REPORT_S: Final = 1.0  # workers tell the master what they counted; Locust's own 3 s would make the end of a run slower
DRAIN_S: Final = 60.0  # longest that journeys may take to end, a few Retry-After included
PROGRESS_S: Final = 5.0
STOP_RATE: Final = 100.0  # users per second who are asked to end

runners.WORKER_REPORT_INTERVAL = REPORT_S
stats.bucket_response_time = rounded  # type: ignore[assignment] # declared int; Locust only uses it as a key and a number


class Swarm(LoadTestShape):
    """Plays the shape that was chosen, and ends it by letting every user finish.

    A distributed run that Locust ends itself loses what the workers counted last (locustio/locust#1426): the master
    waits half a second for them, while users still sign out. Zero users as the last stage lets everything arrive.
    """

    use_common_options = True
    lost = 0  # processes that went away while the users were at work
    over = True  # whether the last test came to its end; before the first there is none to be cut short
    _empty_at: float | None = None
    _told_at = 0.0

    def reset_time(self) -> None:
        """Begin anew; called by Locust at the start of each test."""
        self.start_time = time.perf_counter()
        self.over = False
        self._empty_at = None
        self._told_at = 0.0

    def tick(self) -> tuple[int, float] | None:
        """Return how many users there should be and how many may start in a second; None at the end."""
        if self.runner is None:
            return None
        environment = self.runner.environment
        if environment.host != CREW.assignment.host:
            sys.stderr.write(f"This swarm has its people at {CREW.assignment.host} only: nothing was sent.\n")
            return None
        options: Any = environment.parsed_options  # Locust's own and ours; the page can change them
        elapsed = time.perf_counter() - self.start_time
        wanted = min(int(options.num_users or CREW.assignment.users), CREW.assignment.users)
        users = users_at(stages(options.shape, wanted, float(options.seconds)), elapsed)
        self._tell(elapsed)
        if isinstance(self.runner, MasterRunner):
            self.lost = max(self.lost, CREW.assignment.processes - self.runner.worker_count)
        if users is not None:
            return users, float(options.spawn_rate or CREW.assignment.spawn_rate)
        return self._drain(elapsed, float(options.seconds))

    def _drain(self, elapsed: float, seconds: float) -> tuple[int, float] | None:
        running = self.runner.user_count if self.runner else 0
        if running:
            self._empty_at = None
        elif self._empty_at is None:
            self._empty_at = elapsed
        elif elapsed - self._empty_at > 2 * REPORT_S:  # the last reports are in
            self.over = True
        self.over = self.over or elapsed >= seconds + DRAIN_S
        return None if self.over else (0, STOP_RATE)

    def _tell(self, elapsed: float) -> None:
        """Say every few seconds how it goes."""
        if self.runner is None or elapsed - self._told_at < PROGRESS_S:
            return
        self._told_at = elapsed
        total = self.runner.stats.total
        shed = sum(CREW.total.shed.values()) + sum(CREW.tally.shed.values())
        sys.stdout.write(
            f"{time.strftime('%H:%M:%S')} {elapsed:5.0f} s  {self.runner.user_count:4} users  "
            f"{total.current_rps:7.1f} requests/s  {total.num_requests:8,} in all, {total.num_failures:,} failed, "
            f"{shed:,} shed\n"
        )
        sys.stdout.flush()


def _options(parser: LocustArgumentParser) -> None:
    given = CREW.assignment
    parser.add_argument("--shape", choices=SHAPES, default=given.shape, help="how the number of users changes")
    parser.add_argument("--seconds", type=float, default=given.seconds, help="length of the test; then all users end")


def _enrol(environment: Environment, **_: Any) -> None:
    """Become one of the processes: the master has told its workers their number by now."""
    runner = environment.runner
    if isinstance(runner, WorkerRunner):
        CREW.enrol(runner.worker_index)


def _start(**_: Any) -> None:
    CREW.tally.clear()
    CREW.total.clear()


def _report(data: dict[str, Any], **_: Any) -> None:
    data["swarm"] = CREW.tally.take()


def _collect(data: dict[str, Any], **_: Any) -> None:
    CREW.total.add(msgspec.convert(data["swarm"], type(CREW.total)))


def _too_busy(**_: Any) -> None:
    CREW.tally.busy_generator += 1


def _judge(environment: Environment, **_: Any) -> None:
    """Write down what was measured, and set the exit status of this process, unless it is a worker."""
    runner = environment.runner
    if runner is None or isinstance(runner, WorkerRunner):
        return
    if isinstance(runner, LocalRunner):
        runner.stop()  # interrupted: what users still send to sign out belongs to the statistics; else nothing runs
    CREW.total.add(CREW.tally)
    shape = environment.shape_class
    lost, over = (shape.lost, shape.over) if isinstance(shape, Swarm) else (0, True)
    result = _measured(runner, CREW, lost=lost, cut_short=not over)
    Path(CREW.assignment.result).write_bytes(msgspec.json.encode(result))
    verdicts = judge(result, CREW.assignment.limits, kinds(CREW.assignment.application))
    environment.process_exit_code = 0 if all(verdict.kept for verdict in verdicts) else 1


def _measured(runner: Runner, crew: Crew, *, lost: int, cut_short: bool) -> Result:
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


def _listen(hook: EventHook, listener: Callable[..., None]) -> None:
    hook.add_listener(listener)  # type: ignore[no-untyped-call] # Locust does not annotate it


for _hook, _listener in (
    (events.init_command_line_parser, _options),
    (events.init, _enrol),
    (events.test_start, _start),
    (events.report_to_master, _report),
    (events.worker_report, _collect),
    (events.cpu_warning, _too_busy),
    (events.quitting, _judge),
):
    _listen(_hook, _listener)
