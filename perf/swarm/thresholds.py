"""What a run counted and must keep to, and how it is read: each limit is judged on its own; they decide the status."""

from collections.abc import Sequence
from typing import Any, Final, Self

import msgspec

from perf.rig.machine import Machine


class Tally(msgspec.Struct):
    """Counters of one process, or of all of them.

    ``answers``: requests by process; ``shed``: answers 503 with ``Retry-After`` by name; ``gave_up``: journeys ended
    by too many of them; ``renewed``: access tokens that expired and were refreshed; ``journeys``: those completed, by
    class; ``starts`` and ``late``: of constant-rate users, and how many began over 0.1 s after their time;
    ``latest_ms``: the worst of them.
    """

    answers: dict[str, int] = {}
    shed: dict[str, int] = {}
    journeys: dict[str, int] = {}
    gave_up: int = 0
    renewed: int = 0
    starts: int = 0
    late: int = 0
    latest_ms: float = 0.0
    accounts_made: int = 0
    accounts_closed: int = 0
    sessions_opened: int = 0
    sessions_closed: int = 0
    busy_generator: int = 0

    def count(self, counter: str, key: str, by: int = 1) -> None:
        """Add to one of the counters that have keys."""
        counts: dict[str, int] = getattr(self, counter)
        counts[key] = counts.get(key, 0) + by

    def add(self, other: Self) -> None:
        """Add the counters of another process to this one's; of ``latest_ms`` the greater counts."""
        for name in self.__struct_fields__:
            theirs: Any = getattr(other, name)
            if isinstance(theirs, dict):
                for key, by in theirs.items():
                    self.count(name, key, by)
            elif name == "latest_ms":
                self.latest_ms = max(self.latest_ms, theirs)
            else:
                setattr(self, name, getattr(self, name) + theirs)

    def take(self) -> dict[str, Any]:
        """Return the counters in built-in types, ready to be sent, and start again from zero."""
        taken: dict[str, Any] = msgspec.to_builtins(self)
        self.clear()
        return taken

    def clear(self) -> None:
        """Start again from zero."""
        for name, value in msgspec.structs.asdict(type(self)()).items():
            setattr(self, name, value)

    @property
    def late_percent(self) -> float:
        """The share of constant-rate starts that were late; 0 when there were none."""
        return 100 * self.late / self.starts if self.starts else 0.0


SHOWN = 10  # different reasons for failures; the JSON has all of them
KINDS: Final = ("Member", "Browser", "ServiceClient", "Newcomer")
APPLICANT: Final = "Applicant"  # where there is a client to sign in at
# A journey takes up to 45 s and a newcomer comes every 15 s, both times --think; one user in ten is a newcomer.
LONGER: Final = (
    "a run of 60 s with 10 users or more has them all: raise --seconds or --users, or shorten journeys (--think 0.25)"
)
CALMER: Final = (
    "unless the server is to blame, repeat it on a quiet machine, with fewer --users or a lower --spawn-rate"
)


class Limits(msgspec.Struct, frozen=True):
    """The limits of a run; times in ms, the share of late starts in percent."""

    me_p95_ms: float
    signin_p95_ms: float
    min_requests: int
    late_percent: float
    allow_shed: bool


class Entry(msgspec.Struct, frozen=True):
    """One kind of request; times in ms, None when nothing was answered."""

    method: str
    name: str
    requests: int
    failures: int
    rate: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None


class Trouble(msgspec.Struct, frozen=True):
    """One reason for failures, and how often it was met."""

    where: str
    reason: str
    count: int


class Result(msgspec.Struct):
    """What Locust measured; ``seconds`` from the first request to the last, ``lost`` processes did not last.

    ``cut_short``: somebody stopped the test before its time, so that no threshold says anything about it.
    """

    shape: str
    users: int
    processes: int
    seconds: float
    entries: Sequence[Entry]
    failures: Sequence[Trouble]
    exceptions: Sequence[Trouble]
    tally: Tally
    lost: int = 0
    cut_short: bool = False

    @property
    def requests(self) -> int:
        """Every request there was, those of which an entry of their own tells included."""
        return sum(entry.requests for entry in self.entries)

    @property
    def failed(self) -> int:
        """Every request that was not answered as it must be."""
        return sum(entry.failures for entry in self.entries)


class Verdict(msgspec.Struct, frozen=True):
    """One limit, and whether it was kept; ``remedy``: what to try where it was not and the run may be to blame."""

    what: str
    wanted: str
    measured: str
    kept: bool
    remedy: str = ""

    def __str__(self) -> str:
        verdict, remedy = ("pass", "") if self.kept else ("MISSED", self.remedy and f": {self.remedy}")
        return f"{verdict}: {self.what}: {self.measured} (wanted: {self.wanted}){remedy}"


def kinds(application: object | None) -> Sequence[str]:
    """Return the kinds of journeys there are, with those to a client if there is one."""
    return KINDS if application is None else (*KINDS, APPLICANT)


def judge(result: Result, limits: Limits, wanted: Sequence[str] = KINDS) -> list[Verdict]:
    """Hold ``result`` against ``limits``; of each of ``wanted`` a journey must have been completed."""
    tally = result.tally
    shed = sum(tally.shed.values())
    told = ", ".join(f"{kind} {tally.journeys.get(kind, 0):,}" for kind in wanted)
    return [
        none_left("failed requests", result.failed),
        none_left("errors in journeys", sum(trouble.count for trouble in result.exceptions)),
        none_left("load generator processes lost", result.lost),
        none_left("requests shed (503 with Retry-After)", shed, allowed=limits.allow_shed),
        none_left("journeys given up after repeated 503", tally.gave_up, allowed=limits.allow_shed),
        _at_most_ms("p95 of /me", worst_p95(result, "GET", "/me"), limits.me_p95_ms),
        _at_most_ms("p95 of sign-in", worst_p95(result, "POST", "/signin"), limits.signin_p95_ms),
        Verdict(
            "requests",
            f"at least {limits.min_requests:,}",
            f"{result.requests:,}",
            result.requests >= limits.min_requests,
            LONGER,
        ),
        Verdict("journeys completed", "of each kind", told, all(tally.journeys.get(kind) for kind in wanted), LONGER),
        Verdict(
            "constant-rate requests that started over 0.1 s late",
            f"at most {limits.late_percent:g}%",
            f"{tally.late_percent:.2f}% of {tally.starts:,}, the worst by {tally.latest_ms:,.0f} ms",
            tally.late_percent <= limits.late_percent,
            "give the load generator more --processes, or lower --rate",
        ),
    ]


def worst_p95(result: Result, method: str, name: str) -> float | None:
    """Return the greatest p95 of the entries ``name`` and ``name (…)``; None when none of them was answered."""
    values = [
        entry.p95_ms
        for entry in result.entries
        if entry.method == method
        and (entry.name == name or entry.name.startswith(f"{name} ("))
        and "[" not in entry.name  # answers of another kind: shed, expired, signed out
        and entry.p95_ms is not None
    ]
    return max(values, default=None)


def rounded(response_time_ms: float) -> float:
    """Round a response time to two digits, so that a histogram of them stays small: 0.5234 is 0.52, 147 is 150.

    Locust rounds the same above 100 ms, but to whole milliseconds below: a /me takes less than one.
    """
    return float(f"{response_time_ms:.2g}")


def none_left(what: str, count: int, *, allowed: bool = False) -> Verdict:
    """Judge something there must be none of, unless ``allowed``."""
    return Verdict(what, "any number" if allowed else "0", f"{count:,}", allowed or count == 0)


def _at_most_ms(what: str, measured: float | None, limit: float) -> Verdict:
    wanted = f"at most {limit:g} ms"
    if measured is None:
        return Verdict(what, wanted, "nothing was measured", kept=False, remedy=LONGER)
    return Verdict(what, wanted, f"{measured:g} ms", measured <= limit, CALMER)


class Summary(msgspec.Struct):
    """A run with everything it depends on."""

    started_at: str
    about: str
    machine: Machine
    result: Result
    verdicts: Sequence[Verdict]
    notes: Sequence[str]

    @property
    def kept(self) -> bool:
        """Whether every limit was kept."""
        return all(verdict.kept for verdict in self.verdicts)


def markdown(summary: Summary) -> str:
    """Render the table, the verdicts, and what went wrong."""
    result, machine, tally = summary.result, summary.machine, summary.result.tally
    columns = ("request", "answers", "failed", "per second", "p50 ms", "p95 ms", "p99 ms", "longest ms")
    lines = [f"| {' | '.join(columns)} |", "|---|" + "---:|" * (len(columns) - 1)]
    lines += [_row(entry) for entry in result.entries]
    facts = _judged(summary)
    facts += [f"FAILED {each.count:,} times: {each.where}: {each.reason}" for each in result.failures[:SHOWN]]
    facts += [f"ERROR {each.count:,} times: {each.reason} ({each.where})" for each in result.exceptions[:SHOWN]]
    facts += [f"shed {count:,} times: {name}" for name, count in sorted(tally.shed.items())]
    facts += summary.notes
    shares = sorted(tally.answers.items(), key=lambda share: int(share[0]))
    facts += [
        f"sessions opened {tally.sessions_opened:,}, closed {tally.sessions_closed:,}",
        f"newcomers' accounts made {tally.accounts_made:,}, closed {tally.accounts_closed:,}",
        f"expired access tokens renewed: {tally.renewed:,}",
        f"requests by load generator process: {', '.join(f'{count:,}' for _, count in shares)}",
    ]
    if tally.busy_generator:
        facts.append(
            "NOT TO BE TRUSTED: the load generator was over 90% busy, so its latencies are its own: --processes"
        )
    facts.append(
        f"{summary.started_at}, {result.shape}, at most {result.users} users in {result.processes} process"
        f"{'es' if result.processes > 1 else ''}, {result.seconds:.0f} s; {summary.about}; commit {machine.commit}; "
        f"{machine.cpu}, {machine.cores} cores, load average {machine.load_average:.2f} at the start."
    )
    return "\n".join([*lines, "", *(f"- {fact}" for fact in facts), ""])


def _judged(summary: Summary) -> list[str]:
    """Return the verdicts; of a test that was stopped only the figures, because the thresholds are for whole ones."""
    if not summary.result.cut_short:
        return [*map(str, summary.verdicts)]
    figures = [f"{verdict.what}: {verdict.measured}" for verdict in summary.verdicts]
    return ["stopped before its time: held against no threshold", *figures]


def _row(entry: Entry) -> str:
    times = (entry.p50_ms, entry.p95_ms, entry.p99_ms, entry.max_ms)
    cells = [f"`{entry.method} {entry.name}`", f"{entry.requests:,}", f"{entry.failures:,}", f"{entry.rate:,.1f}"]
    return f"| {' | '.join([*cells, *('' if value is None else f'{value:,g}' for value in times)])} |"
