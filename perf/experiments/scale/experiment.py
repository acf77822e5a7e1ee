"""Refresh, sign-in without its hash, session list and purge, with 1,000 to 1,000,000 users and sessions."""

from collections.abc import Mapping, Sequence

from perf import plots
from perf.experiments.scale.over_http import refresh_over_http
from perf.experiments.scale.sites import DATABASES, Key, Sites, start
from perf.experiments.scale.sites import POSTGRES_OPTIONS as OPTIONS
from perf.findings import Check, Finding, Table
from perf.lab import RESULTS, Lab
from perf.rig import query_plans
from perf.summary import Spread, percentile_ms, ratios

HYPOTHESIS = (
    "nothing that happens in a person's request grows by more than 20 % from 1,000 to 1,000,000 users and sessions: "
    "every statement finds its rows by an index, a B-tree of a million entries is one or two levels deeper than one "
    "of a thousand, and each level is a page that is in memory. A purge batch reads as many rows for each one it "
    "deletes, however large the table is. What staff search for by a part of an address, and people filtered by role "
    "or staff status, is read from the whole table and grows with it."
)
SIZES = (1_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 20_000)
WANTED = 1.2  # p50 with the most people against that with the fewest, at most
OPERATIONS = {
    "refresh": "refresh",
    "signin": "sign-in without the hash",
    "token": "access token that is in no cache",
    "sessions": "session list of a person",
    "purge": "purge of 100 ended sessions",
}
UNPROMISED = frozenset({"token"})  # measured like the others, because every cold access token asks it
EXTRAS = {
    "list-first": "users, first page",
    "list-deep": "users, a page in the middle",
    "list-email": "users by address, a page in the middle",
    "list-role": "users of a role that 0.1 % have",
    "list-staff": "users who are staff (0.1 %)",
    "search-name": "search for a name that everyone has",
    "search-prefix": "search for four letters of an address",
    "search-address": "search for a whole address",
    "walk": "a purge run that finds nothing",
}
BLOCKS = 10  # databases take turns this often in each round, so that a noisy second hits them all
SAMPLES = {"purge": 20}  # runs in a block; with the most people there are a thousand batches to purge, which must last
MANY = 50  # runs in a block of everything else: 500 in a round
FEW = 3  # of what is not promised: a search may take a second
WARM_UP, QUICK_WARM_UP = 1_000, 100  # each of four reading connections must have met the upper pages of every index
_BIG = frozenset({"tokens_session", "accounts_user", "accounts_user_groups"})
_VAIN = 5_000  # rows a plan may read for nothing: a purge batch reads ten times as many as it deletes

type Taken = dict[str, dict[Key, list[list[int]]]]  # operation → database and size → round → ns


def measure(lab: Lab) -> Finding:
    """Seed a database for each size, and measure the operations in turns."""
    sizes = QUICK_SIZES if lab.quick else SIZES
    ends = (min(sizes), max(sizes))
    sites = start(lab.folder, lab.stack, sizes, lab.say)
    bench = _Bench(sites)
    lab.say("warming up")
    bench.warm_up(QUICK_WARM_UP if lab.quick else WARM_UP)
    for number in range(lab.rounds):
        lab.say(f"round {number + 1} of {lab.rounds}: {len(OPERATIONS)} operations on {len(sites.keys)} databases")
        bench.round()
    lab.say("the lists of staff, and an empty purge run")
    bench.extras(lab.rounds)
    names, scans = _keep_plans(lab, sites)
    http, unanswered = refresh_over_http(
        sites, ends, rounds=lab.rounds, folder=lab.folder, stack=lab.stack, say=lab.say
    )
    promised = bench.taken | {"http": http}
    growth = {
        (operation, database): _growth(keys, database, ends)
        for operation, keys in promised.items()
        for database in DATABASES
    }
    rows = OPERATIONS | {"http": "refresh over HTTP, one connection"}
    facts = {key: sites.do(key, "facts").facts for key in sites.keys}
    return Finding(
        tables=[_promised(rows, promised, growth, sizes), _extras(bench.extra, sizes)],
        checks=_checks(growth, ends, scans),
        plots=[_plot(lab, database, bench.taken, sizes) for database in DATABASES],
        notes=[*_notes(bench.taken, facts, sizes), *scans, f"{len(names)} query plans are kept in results/plans/."],
        data={
            "p50_ms": _figures(bench.taken | bench.extra | {"http": http}, 50),
            "p99_ms": _figures(bench.taken | bench.extra | {"http": http}, 99),
            "facts": {f"{database}-{size}": found for (database, size), found in facts.items()},
        },
        failed=bench.failed + unanswered,
    )


class _Bench:
    """Runs operations on every database in turns, and keeps the times."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self.taken: Taken = {operation: {key: [] for key in sites.keys} for operation in OPERATIONS}
        self.extra: Taken = {operation: {key: [[]] for key in sites.keys} for operation in EXTRAS}
        self.failed = 0

    def warm_up(self, runs: int) -> None:
        """Draw the people, and run everything until statements are compiled and pages are where they will be."""
        for key in self._sites.keys:
            self._sites.do(key, "meet")
            for operation in OPERATIONS:
                self._run(key, operation, 2 if operation == "purge" else runs)

    def round(self) -> None:
        """Measure every operation on every database, block by block."""
        for operation, keys in self.taken.items():
            for rounds in keys.values():
                rounds.append([])
            for _ in range(BLOCKS):
                for key, rounds in keys.items():
                    rounds[-1] += self._run(key, operation, SAMPLES.get(operation, MANY))

    def extras(self, rounds: int) -> None:
        """Measure what is not promised, a few times each."""
        for _ in range(rounds):
            for operation, keys in self.extra.items():
                for key, samples in keys.items():
                    samples[0] += self._run(key, operation, FEW)

    def _run(self, key: Key, operation: str, count: int) -> list[int]:
        whole = operation in ("purge", "walk")  # not a unit of a request: they have orders of their own
        answer = self._sites.do(key, operation if whole else "run", operation, count=count)
        self.failed += answer.failed
        return answer.ns


def faults(plan: str) -> list[str]:
    """Return what makes a plan grow with the table: reading all of it, or many rows that are then discarded."""
    found = [f"reads all of {table}" for table in query_plans.whole_tables(plan) if table in _BIG]
    vain = query_plans.discarded(plan)
    return found + ([f"reads {vain:,} rows in vain"] if vain > _VAIN else [])


def _keep_plans(lab: Lab, sites: Sites) -> tuple[list[str], list[str]]:
    """Write each operation's plans into a file; return the names, and what is wrong with those of the largest size."""
    folder = RESULTS / "raw" / "plans" if lab.quick else RESULTS / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    titles = {name: title for name, title in (OPERATIONS | EXTRAS).items() if name != "walk"}
    names, wrong = [], []
    for database, size in sites.keys:
        for operation, plans in sites.do((database, size), "plans", *titles).plans.items():
            name = f"{database}-{operation}-{size}.txt"
            page = query_plans.described(f"{titles[operation]}, {database}, {size:,} users and sessions", plans)
            (folder / name).write_text(page, encoding="utf-8")
            names.append(name)
            if size == max(key[1] for key in sites.keys) and operation in OPERATIONS:
                wrong += [f"GROWS: {name} {fault}" for _, plan in plans for fault in faults(plan)]
    return names, wrong


def _growth(keys: Mapping[Key, list[list[int]]], database: str, ends: tuple[int, int]) -> Spread:
    """Return p50 at the largest size as a multiple of that at the smallest, round by round."""
    small, large = ([_percentile(ns, 50) for ns in keys[database, size]] for size in ends)
    found = ratios(large, small)
    return found if found is not None else Spread(0.0, 0.0, 0.0)


def _checks(growth: Mapping[tuple[str, str], Spread], ends: tuple[int, int], scans: Sequence[str]) -> list[Check]:
    """Return what is promised: p50 that hardly grows, and no statement that reads a big table in vain."""
    title = f"p50 with {ends[1]:,} against {ends[0]:,}"
    checks = [
        Check(f"{name}, {database}: {title}", WANTED, round(growth[operation, database].median, 3), ceiling=True)
        for operation, name in (OPERATIONS | {"http": "refresh over HTTP"}).items()
        for database in DATABASES
        if operation not in UNPROMISED
    ]
    checks.append(Check("statements that read a whole big table, or much of it in vain", 0, len(scans), ceiling=True))
    return checks


def _promised(
    names: Mapping[str, str], taken: Taken, growth: Mapping[tuple[str, str], Spread], sizes: Sequence[int]
) -> Table:
    def cell(rounds: list[list[int]]) -> str:
        every = [ns for samples in rounds for ns in samples]
        return f"{_percentile(every, 50):.2f} / {_percentile(every, 99):.2f}" if every else ""

    rows = [
        [
            title, database, *(cell(taken[operation].get((database, size), [])) for size in sizes),
            f"{grown.median:.2f} ({grown.low:.2f}-{grown.high:.2f})",
        ]
        for operation, title in names.items()
        for database in DATABASES
        for grown in (growth[operation, database],)
    ]  # fmt: skip
    columns = ["operation", "database", *(f"{size:,}: p50 / p99 ms" for size in sizes), "growth of p50 (low-high)"]
    return Table("Units of work by number of users and sessions", columns, rows)


def _extras(taken: Taken, sizes: Sequence[int]) -> Table:
    rows = [
        [title, database, *(f"{_p50(taken[operation][database, size]):.2f}" for size in sizes)]
        for operation, title in EXTRAS.items()
        for database in DATABASES
    ]
    columns = ["operation", "database", *(f"{size:,}: p50 ms" for size in sizes)]
    return Table("Not promised: what staff and the daily purge do", columns, rows)


def _plot(lab: Lab, database: str, taken: Taken, sizes: Sequence[int]) -> str:
    series = {
        title: [(size, _p50(taken[name][database, size])) for size in sizes]
        for name, title in OPERATIONS.items()
    }  # fmt: skip
    path = lab.plot(database)
    plots.lines(path, f"p50 of units of work, {database}", series, x="users and sessions", y="ms", log_x=True)
    return path.name


def _notes(taken: Taken, facts: Mapping[Key, Mapping[str, int]], sizes: Sequence[int]) -> list[str]:
    notes = [
        f"{database} with {size:,}: {found['bytes'] / 2**20:,.0f} MiB"
        + (f"; {found['hot'] / found['updates']:.0%} of the session updates touched no index" if found.get("updates")
           else "")
        for (database, size), found in facts.items()
        if size in (min(sizes), max(sizes))
    ]  # fmt: skip
    for database in DATABASES:
        steps = [f"{_p50(taken['purge'][database, size]):.2f} ms with {size:,}" for size in sizes]
        notes.append(f"A purge batch on {database}: {', '.join(steps)}.")
    runs, batches = (sum(map(len, next(iter(taken[name].values())))) for name in ("refresh", "purge"))
    notes.append(
        f"{runs:,} runs of each operation and size ({batches:,} purge batches), on the database pool of a process, "
        "each for another person of up to 20,000 drawn from the whole table; everything is in memory, and every "
        f"commit waits for the disk. Databases take turns in blocks of a few runs. Postgres: {', '.join(OPTIONS)}."
    )
    return notes


def _p50(rounds: Sequence[Sequence[int]]) -> float:
    return _percentile([ns for samples in rounds for ns in samples], 50)


def _percentile(ns: Sequence[int], percent: float) -> float:
    return percentile_ms(sorted(ns), percent)


def _figures(taken: Taken, percent: float) -> dict[str, dict[str, float]]:
    return {
        operation: {
            f"{database}-{size}": _percentile([ns for samples in rounds for ns in samples], percent)
            for (database, size), rounds in keys.items()
        }
        for operation, keys in taken.items()
    }
