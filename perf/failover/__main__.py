"""Failover of PostgreSQL and Redis in network namespaces: ``python -m perf.failover``, or cases: ``… primary cut``.

Linux and root only: three machines with etcd, Patroni, PostgreSQL, Redis and Sentinel, HAProxy, two IronAuth nodes and
nginx, in network namespaces of their own. Exit status: 0 every promise was kept; 1 one was broken, or the run ended
early, which the report tells; 2 something did not start; 130 interrupted.
"""

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from perf import runner
from perf.failover import history
from perf.failover.applications import USERS
from perf.failover.cases import CASES, Round, everything, run
from perf.failover.patroni import install_patroni
from perf.failover.people import PEOPLE
from perf.failover.report import finding
from perf.failover.site import ROUTES, site
from perf.findings import Finding
from perf.nodes import network
from perf.rig.arguments import whole_number
from perf.rig.console import leave_by_interrupt, say, status_of
from perf.rig.log_lines import quoted
from perf.rig.processes import StartError
from perf.runner import RESULTS

HYPOTHESIS = (
    "A lost primary costs at most 25 s (Patroni's least ttl is 20), a switchover 3 s; nothing that was acknowledged is "
    "lost, no ended session is taken for more than 5 s, every history of a session is linearizable, and what cannot be "
    "done meanwhile is answered by 503."
)
#: People who have a session before a case begins, one for each.
_PEOPLE_OF_A_ROUND = PEOPLE + USERS
LOGS: Final = "failover-logs"  # folder of a run's logs, below perf/results/raw: of rounds that broke a promise
#: Lines of the servers' logs that the report quotes, the most frequent ones.
_MOST_QUOTED = 10


def main() -> int:
    """Run the cases that the command line names, or all."""
    leave_by_interrupt()
    parser = runner.parser("failover", __doc__, quick="each once, by libpq alone")
    parser.add_argument("names", nargs="*", metavar="case", help=f"{', '.join(CASES)}; all of them by default")
    parser.add_argument(
        "--rounds", type=whole_number(1, 50, 0), default=0, help="of each case (default: its own number)"
    )
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(CASES)):
        parser.error(f"unknown case {', '.join(unknown)}: choose from {', '.join(CASES)}")
    if given.update_readme and (given.names or given.quick):
        parser.error("--update-readme publishes a whole run: leave the names and --quick out")
    names = given.names or list(CASES)

    def status() -> int:
        with tempfile.TemporaryDirectory(prefix="ironauth-failover-") as made:
            folder = Path(made)
            folder.chmod(0o711)  # PostgreSQL's own user passes through
            history.fetch()  # there is no other network afterwards
            install_patroni(folder)
            network.enter()
            found = runner.keep(
                "failover", HYPOTHESIS, lambda: _run(names, folder, quick=given.quick, rounds=given.rounds),
                quick=given.quick, update_readme=given.update_readme, saved=not given.names,
            )  # fmt: skip
        return 0 if found.kept else 1

    return status_of(status)


def _run(names: Sequence[str], folder: Path, *, quick: bool, rounds: int) -> Finding:
    plan = [
        (name, route)
        for route in (ROUTES[:1] if quick else ROUTES)
        for name in names
        for _ in range(rounds or (1 if quick else CASES[name].rounds))
    ]
    with ExitStack() as stack:
        say("compiling the judge, and preparing three database machines, two nodes and nginx")
        history.build(folder)
        place = site(folder, stack, people=_PEOPLE_OF_A_ROUND * len(plan) + 1, workers=1)
        versions = everything(place.cluster)
        seen: list[Round] = []
        ended = ""
        for number, (name, route) in enumerate(plan, start=1):
            try:
                one = run(place, name, route, folder)
            except StartError as error:
                if not seen:
                    raise
                ended = f"the run ended at round {number} of {len(plan)}, {name} by {route}: {error}"
                say(f"wrong: {ended}; logs: {_keep_logs(folder, f'{number}-{name}')}")
                break
            seen.append(one)
            cost = f"{one.gap_s:.1f} s, {one.unavailable} answers 503"
            judged = f"{one.sessions} histories, {len(one.illegal)} not linearizable, {one.seen.flows} flows"
            say(f"{number} of {len(plan)}: {name} by {route}: {cost}, {judged}")
            for text in one.broken[:5]:
                say(f"wrong: {text}")
            if one.broken:
                say(f"logs: {_keep_logs(folder, f'{number}-{name}')}")
        found = finding(seen, versions, ended=ended)
        errors = [line for node in place.nodes for line in node.errors()]
        counted = Counter(map(quoted, errors)).most_common(_MOST_QUOTED)
        found.notes = [*found.notes, *(f"in the log: {line}, {times} times" for line, times in counted)]
        return found


def _keep_logs(folder: Path, name: str) -> Path:
    """Copy what the machines and nodes wrote so far, and the history; return where it is."""
    kept = RESULTS / "raw" / LOGS / name
    for file in (*folder.glob("*.log"), *folder.glob("*/*.log"), folder / "history.jsonl"):
        if file.exists():
            target = kept / file.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    return kept


if __name__ == "__main__":
    sys.exit(main())
