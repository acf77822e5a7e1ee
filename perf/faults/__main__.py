"""Break what IronAuth depends on, one thing after the other, under load, and hold every answer against its promises.

Exit status: 0 every promise was kept; 1 one was broken (said, with the servers' logs); 2 something did not start; 130
interrupted.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

from perf import runner
from perf.faults.cases import CASES
from perf.faults.checker import Checker
from perf.faults.report import HYPOTHESIS, finding, row
from perf.faults.site import NotRun, Site
from perf.faults.stage import FULL, QUICK, Crowd, Outcome, Times, show
from perf.findings import Finding
from perf.rig.console import leave_by_interrupt, say, status_of
from perf.rig.site_setup import ROOT
from perf.runner import RESULTS

BOUND_S = 5.0  # IRONAUTH_L1_MAX_STALE_S as it is by default
GRACE_S = 10.0  # IRONAUTH_REFRESH_GRACE_S as it is by default
LOGS = "faults-logs"  # folder of a run's logs, below perf/results/raw


class Run:
    """What is shown so far."""

    def __init__(self, times: Times, logs: Path) -> None:
        self.times = times
        self.logs = logs
        self.outcomes: list[Outcome] = []
        self.not_run: dict[str, str] = {}

    async def everything(self, names: Sequence[str]) -> None:
        """Show the faults named, those of one kind on one site.

        Raises:
            StartError: a site could not be started.
        """
        for kind, group in groupby(names, key=lambda name: CASES[name].kind):
            together = list(group)
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ironauth-faults-")))
                site = Site(kind, folder, stack)
                say(f"starting {kind.value}")
                try:
                    await site.open()
                    await self._on(site, together)
                except NotRun as error:
                    self.not_run |= dict.fromkeys(together, str(error))
                    say(f"NOT RUN: {', '.join(together)}: {error}")
                finally:
                    await site.close()
                    self._keep_logs(site)

    async def _on(self, site: Site, names: Sequence[str]) -> None:
        crowd = Crowd(site, Checker(bound_s=BOUND_S, grace_s=GRACE_S))
        try:
            for name in names:
                outcome = await show(name, CASES[name], crowd, self.times)
                self.outcomes.append(outcome)
                self._tell(outcome, site)
        finally:
            await crowd.end()

    def _tell(self, outcome: Outcome, site: Site) -> None:
        say(", ".join([f"{outcome.name}: {row(outcome)[1]} answers", *_said(outcome)]))
        for detail in outcome.figures.details:
            say(f"  {detail}")
        for promise, times in outcome.figures.broken.most_common():
            logs = " ".join(str(self.logs / f"{site.kind.name.lower()}-{one.log.name}") for one in site.servers)
            say(f"  BROKEN: {promise} ({times} times); logs: {logs}")

    def _keep_logs(self, site: Site) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
        for server in site.servers:
            shutil.copy(server.log, self.logs / f"{site.kind.name.lower()}-{server.log.name}")


def _said(outcome: Outcome) -> list[str]:
    """Return a fault's figures for the line of progress."""
    one = outcome.figures
    recovery = "NO RECOVERY" if outcome.recovery_s is None else f"recovered in {outcome.recovery_s:.1f} s"
    said = [f"{one.unavailable:,} x 503 (longest {one.longest_refusal_s:.2f} s)", f"{one.other_5xx} other 5xx"]
    said += [f"{times} {kind}" for kind, times in one.lost.items()]
    said += [f"{one.revocations} revocations, accepted for {one.latest_acceptance_s:.2f} s", recovery]
    return said


def main() -> int:
    """Show the faults that the command line names, or all."""
    leave_by_interrupt()
    parser = runner.parser("faults", __doc__, quick="2 s each")
    parser.add_argument("names", nargs="*", metavar="fault", help=f"of {', '.join(CASES)} (default: all)")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(CASES)):
        parser.error(f"unknown fault {', '.join(unknown)}: choose from {', '.join(CASES)}")
    names = [name for name in CASES if name in given.names or not given.names]
    if given.update_readme and (given.quick or given.names):
        parser.error("--update-readme is for all faults at their full length: leave out --quick and names")
    return status_of(lambda: report(names, quick=given.quick, update_readme=given.update_readme))


def report(names: Sequence[str], *, quick: bool, update_readme: bool) -> int:
    """Show these faults, keep the record, and return the exit status."""
    run = Run(QUICK if quick else FULL, RESULTS / "raw" / LOGS)

    def measure() -> Finding:
        asyncio.run(run.everything(names))
        return finding(run.outcomes, run.not_run, bound_s=BOUND_S)

    partly = quick or len(names) < len(CASES)
    found = runner.keep("faults", HYPOTHESIS, measure, quick=partly, update_readme=update_readme)
    if found.failed:
        say(f"a promise was broken: the servers' logs are in {run.logs.relative_to(ROOT)}")
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
