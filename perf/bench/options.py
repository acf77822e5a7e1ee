"""The benchmark's command line."""

import argparse
from dataclasses import dataclass
from typing import Literal

from perf.bench.report import HASHING, variant
from perf.load.workloads import BARE, HASH
from perf.rig.arguments import Parser, number, whole_number
from perf.runner import parser as runner_parser
from perf.shortfalls import PAGE

CONNECTIONS = 16  # as the ceiling of design §2 was measured
MAX_SECONDS, MAX_ROUNDS, MAX_CONNECTIONS = 60, 20, 256  # a run ends within the hour, and has people enough to sign in
# A round's order: the yardsticks stand right before what is compared with them.
ORDER = (
    BARE, "bare-ours", "ping", "me", "me-cookie", "verify", "userinfo", "introspect", "me-view", "health", "refresh",
    HASH, "signin", "signup",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    seconds: float
    rounds: int
    names: tuple[str, ...]
    connections: int
    quick: bool
    update_readme: bool
    storage: Literal["sqlite", "postgres"]
    workers: int


def parse(arguments: list[str] | None = None, *, description: str | None) -> Options:
    """Read the command line; a mistake ends the program with status 2 and says what to do."""
    parser = runner_parser("bench", description, quick="windows of 2 s")
    add = parser.add_argument
    add("--seconds", type=number(0.5, MAX_SECONDS, 5), help="length of a measured window (default: 5; quick: 2)")
    add("--rounds", type=whole_number(1, MAX_ROUNDS, 3), help="measured rounds (default: 3)", default=3)
    add("--only", help=f"comma-separated workloads out of {','.join(ORDER)}; yardsticks are added")
    connections = whole_number(1, MAX_CONNECTIONS, CONNECTIONS)
    add("--connections", type=connections, default=CONNECTIONS, help=f"keep-alive connections ({CONNECTIONS})")
    add("--storage", choices=("sqlite", "postgres"), default="sqlite", help="postgres: with Redis, both private")
    add("--workers", type=whole_number(1, 2, 2), default=1, help="of IronAuth; two run on every core (1)")
    given = parser.parse_args(arguments)
    seconds = given.seconds if given.seconds is not None else (2.0 if given.quick else 5.0)
    _require_section(parser, given)
    return Options(
        seconds=seconds,
        rounds=given.rounds,
        names=_names(parser, given.only),
        connections=given.connections,
        quick=given.quick,
        update_readme=given.update_readme,
        storage=given.storage,
        workers=given.workers,
    )


def section(variant: str) -> str:
    """Return the name of the section of docs/performance/laboratory.md that takes a run of this variant."""
    return f"results{variant}"


def _require_section(parser: Parser, given: argparse.Namespace) -> None:
    """Refuse to measure for a section of the page that is missing."""
    name = section(variant(given.storage, given.workers))
    if given.update_readme and f"<!-- {name}: end -->" not in PAGE.read_text(encoding="utf-8"):
        parser.error(f"{PAGE.name} has no section {name}: add its begin and end lines, as those of results")


def _names(parser: Parser, only: str | None) -> tuple[str, ...]:
    """Return the workloads in their order, yardsticks added."""
    wanted = {name.strip() for name in only.split(",")} if only is not None else set(ORDER)
    if unknown := wanted - set(ORDER):
        shown = ", ".join(sorted(name or "''" for name in unknown))
        parser.error(f"unknown workload {shown}: choose for --only from {', '.join(ORDER)}, such as me,signin")
    wanted |= {HASH} if wanted & HASHING else set()
    wanted |= {BARE} if wanted - {HASH} else set()
    return tuple(name for name in ORDER if name in wanted)
