"""The benchmark's report as data: what was measured, how, and which promises it kept."""

from collections.abc import Iterator

import msgspec

from perf.bench.paced import PacedRound
from perf.findings import Check
from perf.load.workloads import BARE, HASH, WORKLOADS
from perf.rig.machine import Machine
from perf.summary import Round, Spread, ratios, spread

ME_SHARE_OF_BARE = 50.0  # %, with the access log; through the DRF view the next
ME_VIEW_SHARE_OF_BARE = 18.0
SIGN_IN_SHARE_OF_HASH = 95.0  # %; everything a sign-in or sign-up does beside its hash fits into what is left
REFRESHES = 900.0  # per second, on SQLite and on Postgres
HASHING = frozenset(workload.name for workload in WORKLOADS if workload.hashing)


class Conditions(msgspec.Struct, frozen=True):
    """How the run was made: everything a reader needs to repeat it. ``peers``: name → URL."""

    started_at: str
    rounds: int
    seconds: float
    hash_seconds: float
    connections: int
    hash_connections: int
    hash_threads: int
    argon2: str
    malloc: str
    server_cores: str
    client_cores: str
    database: str
    access_log: str
    storage: str = "sqlite"
    workers: int = 1
    peers: dict[str, str] = {}


class Report(msgspec.Struct):
    """Everything one run produced. ``paced``: the rounds at a fixed rate, if any; ``plots``: names of files."""

    machine: Machine
    conditions: Conditions
    rounds: dict[str, list[Round]]
    access_lines: int
    thresholds: list[Check] = []
    paced: dict[str, list[PacedRound]] = {}
    plots: list[str] = []

    @property
    def failed(self) -> int:
        """Answers that were wrong, missing or shed, over all rounds."""
        return sum(each.failed + each.shed for _, each in self.every_round())

    def every_round(self) -> Iterator[tuple[str, Round | PacedRound]]:
        """Return every round with its workload's name, those at a fixed rate last."""
        for measured in (self.rounds, self.paced):
            for name, rounds in measured.items():
                for each in rounds:
                    yield name, each

    @property
    def variant(self) -> str:
        """What tells this kind of run from the others, in file names: "", "-postgres", "-2workers", or both."""
        return variant(self.conditions.storage, self.conditions.workers)

    @property
    def titles(self) -> dict[str, str]:
        """The name people read, of every workload and peer."""
        titles = {workload.name: workload.title for workload in WORKLOADS}
        titles[HASH] = f"raw Argon2id, {self.conditions.hash_threads} threads, no server"
        return titles | {name: f"peer {name}: `GET {url}`" for name, url in self.conditions.peers.items()}

    def ratio(self, name: str, yardstick: str) -> Spread | None:
        """Return ``name``'s rate over ``yardstick``'s, round by round; None when one was not measured."""
        if name not in self.rounds or yardstick not in self.rounds:
            return None
        return ratios([each.rate for each in self.rounds[name]], [each.rate for each in self.rounds[yardstick]])

    def median(self, name: str, figure: str) -> float:
        """Return the median over the rounds of one figure of a workload."""
        return spread([getattr(each, figure) for each in self.rounds[name]]).median


def variant(storage: str, workers: int) -> str:
    """Return what file names add for a kind of run: nothing for one worker on SQLite."""
    return ("" if storage == "sqlite" else f"-{storage}") + (f"-{workers}workers" if workers > 1 else "")


def thresholds(report: Report) -> list[Check]:
    """Compare what was measured with what was promised; one worker on one core is what the promises are about."""
    if report.conditions.workers > 1:
        return []
    shares = (
        ("warm /me against the bare ASGI callable", ME_SHARE_OF_BARE, "me", BARE),
        ("warm /me through the DRF view against the bare ASGI callable", ME_VIEW_SHARE_OF_BARE, "me-view", BARE),
        ("sign-in against the raw hash rate", SIGN_IN_SHARE_OF_HASH, "signin", HASH),
        ("sign-up against the raw hash rate", SIGN_IN_SHARE_OF_HASH, "signup", HASH),
    )
    measured = ((what, wanted, report.ratio(name, yardstick)) for what, wanted, name, yardstick in shares)
    checks = [
        Check(what, wanted, 100 * ratio.median, unit=" %") for what, wanted, ratio in measured if ratio is not None
    ]
    if "refresh" in report.rounds:
        checks.append(Check("refresh", REFRESHES, report.median("refresh", "rate"), unit="/s"))
    return checks
