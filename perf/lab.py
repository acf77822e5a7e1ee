"""Run experiments: ``python -m perf.lab flood serialization``; ``--list`` tells what there is, programs too.

Each has a hypothesis written before it was measured, and leaves ``perf/results/<date>-<name>.{json,md}`` and its plots.
Exit status: 0 measured; 1 an answer was wrong or missing; 2 something did not start; 130 interrupted.
"""

import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import msgspec

from perf import runner
from perf.findings import Finding
from perf.rig.console import leave_by_interrupt, say, status_of
from perf.runner import RESULTS

POSTGRES, REDIS = "Postgres", "Redis"


@dataclass(frozen=True)
class Entry:
    """An experiment or a program as the list tells it.

    Attributes:
        what: What it compares or does.
        needs: What has to be there apart from Python.
        kept: What its published results are called, where that is not its name.
    """

    what: str
    needs: tuple[str, ...] = ()
    kept: str = ""


# In the order that docs/performance/laboratory.md tells them; each is a module or package of perf.experiments.
# Settled questions, whose code is gone, are in docs/performance/settled.md.
EXPERIMENTS = {
    "flood": Entry("/me at a fixed rate while sign-ins saturate the hash pool"),
    "serialization": Entry("fifty objects by DRF, by msgspec, and by both"),
    "oauth_flow": Entry(
        "five requests of a sign-in at a client: clients, builds of Argon2",
        (POSTGRES, REDIS, "C compiler", "package index"),
    ),
    "pauses": Entry("the garbage collector's pauses with 50,000 live tokens in a worker"),
    "people": Entry("people searched for and filtered, a thousand and millions (--size)", (POSTGRES,)),
    "trail": Entry("the audit trail: bytes an event, a month dropped, a table partitioned (--size)", (POSTGRES,)),
    "scale": Entry("what people and staff ask, among a thousand people and millions (--size)", (POSTGRES,)),
    "routing": Entry("a million tokens over sixteen workers, each token with its worker: a simulation"),
    "costs": Entry("CPU time of single requests: a token's first use, userinfo, a flow", (POSTGRES, REDIS)),
    "upstream": Entry("three requests of a sign-in with another provider: CPU time"),
    "moving_in": Entry("people of another system moved in, again, and taken back: time and memory (--size)"),
}

ROOT_RIGHTS = "root"
# Programs with options of their own: `python -m perf.lab faults --quick` is `python -m perf.faults --quick`.
PROGRAMS = {
    "swarm": Entry("Locust's journeys against a server made for them; --ui: at Locust's page"),
    "soak": Entry("the swarm for ten minutes, and what grows: memory, files, threads, connections", kept="soak_sqlite"),
    "limits": Entry("every limit with slow, greedy and malformed clients, and an unreachable database", (POSTGRES,)),
    "faults": Entry("Redis, Postgres, workers, clocks and disks broken under load", (POSTGRES, REDIS)),
    "nodes": Entry("cables cut and servers restarted between two nodes", (POSTGRES, REDIS, "nginx", ROOT_RIGHTS)),
    "failover": Entry(
        "machines of PostgreSQL and Redis killed, cut off and switched under load",
        (POSTGRES, REDIS, "Patroni", "etcd", "HAProxy", "Go", ROOT_RIGHTS),
    ),
    "previous": Entry("the previous commits served while their database is migrated", (POSTGRES, REDIS)),
    "profile": Entry("a flame graph under load: profile me, ping, refresh, signin"),
}


@dataclass(frozen=True)
class Lab:
    """What an experiment works with: a folder of its own, and ``stack``, which ends what it starts."""

    name: str
    folder: Path
    stack: ExitStack
    quick: bool
    say: Callable[[str], None]
    size: int = 0  # rows asked for, of an experiment that fills a database; 0: its own choice

    @property
    def rounds(self) -> int:
        """How often everything is measured, interleaved."""
        return 1 if self.quick else 3

    def plot(self, suffix: str = "") -> Path:
        """Return where a plot goes (SVG); a quick run's is not committed. ``Finding.plots`` names it by ``.name``."""
        folder = RESULTS / "raw" / "plots" if self.quick else RESULTS / "plots"
        return folder / f"{self.name.replace('_', '-')}{'-' if suffix else ''}{suffix}.svg"


class Took(msgspec.Struct):
    """How long a kept run took."""

    seconds: float


class Experiment(Protocol):
    """A module of ``perf.experiments``, or ``experiment`` of a package there."""

    HYPOTHESIS: str
    __file__: str

    def measure(self, lab: Lab) -> Finding:
        """Measure, and say what was found."""


def main() -> int:
    """Run what the command line names."""
    if sys.argv[1:] and sys.argv[1] in PROGRAMS:
        os.execv(sys.executable, [sys.executable, "-m", f"perf.{sys.argv[1]}", *sys.argv[2:]])  # noqa: S606 - our own module
    leave_by_interrupt()
    parser = runner.parser("lab", __doc__, quick="one short round")
    parser.add_argument("names", nargs="*", metavar="experiment", help="see --list")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--size", type=int, default=0, help="rows, of an experiment that fills a database")
    given = parser.parse_args()
    if given.list or not given.names:
        sys.stdout.writelines(f"{line}\n" for line in listing())
        return 0
    if unknown := sorted(set(given.names) - set(EXPERIMENTS)):
        parser.error(f"unknown experiment {', '.join(unknown)}: choose from {', '.join(EXPERIMENTS)}")
    return status_of(
        lambda: max([_run(name, given) for name in given.names]),
        lost=", the experiment under way was not saved",
    )


def listing(results: Path = RESULTS) -> list[str]:
    """Return a line for each experiment and program: how long its newest published run took, its subject and needs."""
    lines = []
    for name, entry in {**EXPERIMENTS, **PROGRAMS}.items():
        kept = sorted(results.glob(f"*-{entry.kept or name}.json"))
        took = f"{msgspec.json.decode(kept[-1].read_bytes(), type=Took).seconds:.0f} s" if kept else "?"
        needs = f" (needs {', '.join(entry.needs)})" if entry.needs else ""
        lines.append(f"{name:15}{took:>6}  {entry.what}{needs}")
    return lines


def find(name: str) -> Experiment:
    """Import what ``EXPERIMENTS`` names.

    Raises:
        ModuleNotFoundError: there is no such experiment.
    """
    module = import_module(f"perf.experiments.{name}")
    if hasattr(module, "__path__"):
        module = import_module(f"perf.experiments.{name}.experiment")
    return cast("Experiment", module)


def _run(name: str, given: Namespace) -> int:
    """Run one experiment, keep its record, and say what it found."""
    experiment = find(name)
    cores = os.sched_getaffinity(0)
    say(f"{name}: {EXPERIMENTS[name].what}")

    def measure() -> Finding:
        try:
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"ironauth-{name}-")))
                return experiment.measure(Lab(name, folder, stack, given.quick, say, given.size))
        finally:
            os.sched_setaffinity(0, cores)  # experiments pin themselves

    kept = runner.keep(name, experiment.HYPOTHESIS, measure, quick=given.quick, update_readme=given.update_readme)
    return 1 if kept.failed else 0


if __name__ == "__main__":
    sys.exit(main())
