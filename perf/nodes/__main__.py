"""Two nodes in network namespaces behind nginx: ``python -m perf.nodes``, or only some cases: ``… revocation cuts``.

Linux and root only: everything, the load too, runs in network namespaces of its own and touches nothing of the host's
network. Exit status: 0 every promise was kept; 1 one was broken; 2 something did not start; 130 interrupted.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from perf import runner
from perf.findings import Finding
from perf.nodes import network, report
from perf.nodes.crowd import renew_workers, restart_in_turn
from perf.nodes.cuts import CASES, Cut, cut_off
from perf.nodes.revocation import DISABLE, PASSWORD, SIGN_OUT, measure, renew_at_both
from perf.nodes.site import Site
from perf.nodes.watch import Answers, Wrong
from perf.rig.arguments import whole_number
from perf.rig.console import leave_by_interrupt, say, status_of
from perf.rig.log_lines import quoted

HYPOTHESIS = (
    "What is ended at one node is refused at the other within 5 s, typically 0.1 s with Redis and 2 s without; a node "
    "that is cut off from anything keeps that, says 503 at worst, and costs people behind nginx no failed read; "
    "restarts cost nobody anything."
)


class Run:
    """The cases; ``quick`` does each a few times, and revocation with Redis alone."""

    def __init__(self, site: Site, *, quick: bool) -> None:
        self.site = site
        self.quick = quick
        self.wrong: list[str] = []

    def revocation(self) -> Finding:
        """Sign-out, new password and disabled account, with Redis and without."""
        answers, lags, times = Answers(), {}, 3 if self.quick else 50
        for storage in (report.WITH_REDIS,) if self.quick else (report.WITH_REDIS, report.WITHOUT_REDIS):
            self.site.start(**({} if storage == report.WITH_REDIS else {"REDIS_URL": ""}))
            for act in (SIGN_OUT, PASSWORD, DISABLE):
                found = lags[act, storage] = asyncio.run(measure(self.site, answers, act, times))
                say(f"{act}, {storage}: p50 {found.p50_ms:.0f} ms, longest {found.longest_ms:.0f} ms")
        self._tell(answers.wrong)
        return report.revocation(lags, answers)

    def refresh(self) -> Finding:
        """One refresh token at both nodes at once."""
        self.site.start()
        answers, times = Answers(), 5 if self.quick else 100
        forks = asyncio.run(renew_at_both(self.site, answers, times))
        say(f"renewed at both nodes at once {times} times, {forks} second successors")
        self._tell(answers.wrong)
        return report.refreshes(times, forks, answers)

    def cuts(self) -> Finding:
        """Node B without Redis, Postgres, both, nginx."""
        self.site.start()
        seen: list[Cut] = []
        for what in CASES:
            one = asyncio.run(cut_off(self.site, what, seconds=8 if self.quick else 20, people=3 if self.quick else 20))
            took = f"last 200 after {one.latest_s:.1f} s, back after {one.recovery_s:.1f} s"
            say(
                f"cut off from {what}: {took}, 503s to people {one.refused}, their longest {one.people.longest_s:.1f} s"
            )
            self._tell([*one.at_a.wrong, *one.at_b.wrong, *one.people.wrong])
            seen.append(one)
        return report.cuts(seen)

    def renewals(self) -> Finding:
        """Restarts and SIGHUP."""
        self.site.start()
        seen = []
        for case, rounds in ((restart_in_turn, 5), (renew_workers, 10)):
            one = asyncio.run(case(self.site, 1 if self.quick else rounds))
            say(f"{one.what}, {one.times} times: {len(one.answers.wrong)} of {one.answers.total} requests failed")
            self._tell(one.answers.wrong)
            seen.append(one)
        return report.renewals(seen)

    def _tell(self, wrong: Sequence[str]) -> None:
        """Say at once what was wrong, the first few of it, and keep it for the end."""
        for text in wrong[:5]:
            say(f"wrong: {text}")
        self.wrong += wrong


PARTS: dict[str, Callable[[Run], Finding]] = {
    "revocation": Run.revocation,
    "refresh": Run.refresh,
    "cuts": Run.cuts,
    "renewals": Run.renewals,
}


def main() -> int:
    """Run the cases that the command line names, or all."""
    leave_by_interrupt()
    parser = runner.parser("nodes", __doc__, quick="each a few times")
    parser.add_argument("names", nargs="*", metavar="case", help=f"{', '.join(PARTS)}; all of them by default")
    parser.add_argument("--workers", type=whole_number(1, 8, 2), default=2, help="of each node (default: 2)")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(PARTS)):
        parser.error(f"unknown case {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    if given.update_readme and (given.names or given.quick):
        parser.error("--update-readme publishes a whole run: leave the names and --quick out")
    return status_of(lambda: _status(given))


def _status(given: Any) -> int:
    network.enter()
    try:
        finding = runner.keep(
            "nodes", HYPOTHESIS, lambda: _run(given.names or list(PARTS), quick=given.quick, workers=given.workers),
            quick=given.quick, update_readme=given.update_readme, saved=not given.names,
        )  # fmt: skip
    except Wrong as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0 if finding.kept else 1


def _run(names: Sequence[str], *, quick: bool, workers: int) -> Finding:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ironauth-nodes-")))
        folder.chmod(0o711)  # Postgres' own user passes through
        say("preparing Postgres, Redis, nginx and two nodes")
        run = Run(Site(folder, stack, people=80 if quick else 550, workers=workers), quick=quick)
        finding = report.together([PARTS[name](run) for name in names], run.wrong)
        errors = [line for node in run.site.nodes for line in node.errors()]
        finding.notes = [*finding.notes, *(f"wrong: {quoted(line)}" for line in errors[:5])]
        return finding


if __name__ == "__main__":
    sys.exit(main())
