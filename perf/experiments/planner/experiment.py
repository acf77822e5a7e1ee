"""What ``random_page_cost`` changes on 500,000 people and sessions: plans, and times from memory and from the disk."""

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from ironauth.tests.services import PrivatePostgres
from perf import plots
from perf.experiments.planner.queries import TITLES, Statements
from perf.experiments.scale.sites import seed, start_postgres, unit_environment
from perf.findings import Finding, Table
from perf.lab import RESULTS, Lab
from perf.rig import query_plans
from perf.rig.processes import StartError
from perf.rig.site_setup import ROOT, prepare

HYPOTHESIS = (
    "a person's requests find a handful of rows by an index whatever random_page_cost says: no difference. The choice "
    "matters where about 1 % of a table is wanted and lies scattered: at 4.0 a bitmap scan, at 1.0 a plain index scan, "
    "which from memory takes about two thirds of the time (the article: 11.6 and 7.8 ms for 4,937 of 500,000 rows). "
    "From a cold disk the bitmap scan, which reads pages in their order and ahead, is faster."
)
PEOPLE, QUICK_PEOPLE = 500_000, 20_000
COSTS = (1.0, 3.0, 4.0)  # Postgres' own default is 4.0
BLOCK_S, QUICK_BLOCK_S = 0.4, 0.1  # a query is repeated this long with one cost before the next one's turn
FEWEST = 3  # repetitions in a block
COLD_ROUNDS = 3
READY_S = 30.0
_KEPT = ("refresh", "sessions")  # measured cold too although their plans are one: what a person waits for

type Connection = psycopg.Connection[tuple[Any, ...]]
type Plans = dict[str, dict[float, str]]
type Times = dict[str, dict[float, list[float]]]  # query → cost → ms


def measure(lab: Lab) -> Finding:
    """Seed, plan every query at each cost, and time it from memory; those whose plan changes also from the disk."""
    people = QUICK_PEOPLE if lab.quick else PEOPLE
    postgres = start_postgres(lab.folder, lab.stack)
    environment = {**unit_environment(lab.folder), "DATABASE_URL": postgres.url}
    prepare(["manage.py", "migrate", "--verbosity", "0"], environment)
    lab.say(f"seeding {people:,} people and sessions")
    seed(environment, people)
    queries = _statements(environment)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        plans = _plans(lab, connection, queries)
        lab.say(f"{len(queries)} queries from memory, random_page_cost {', '.join(map(str, COSTS))}")
        warm = _warm(lab, connection, queries)
    changing = [name for name, found in plans.items() if len({query_plans.nodes(plan) for plan in found.values()}) > 1]
    cold = _cold(lab, postgres, queries, [*_KEPT, *changing])
    path = lab.plot()
    series = {TITLES[name]: [(cost, _middle(warm, name, cost)) for cost in COSTS] for name in changing or _KEPT}
    plots.lines(path, "p50 from memory, where the plan changes", series, x="random_page_cost", y="ms", log_y=True)
    return Finding(
        tables=[_times(warm, cold, plans, people), _choices(plans)],
        plots=[path.name],
        notes=_notes(warm, cold, changing),
        data={
            "warm_ms": {name: {str(cost): _middle(warm, name, cost) for cost in COSTS} for name in warm},
            "cold_ms": {name: {str(cost): _middle(cold, name, cost) for cost in COSTS} for name in cold},
            "cost": {name: {str(c): query_plans.cost(plan) for c, plan in found.items()}
                     for name, found in plans.items()},
        },
    )  # fmt: skip


def _statements(environment: dict[str, str]) -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "perf.experiments.planner.queries"],
        cwd=ROOT, env=environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode:
        raise StartError(f"the queries could not be built:\n{done.stderr.decode(errors='replace')}")
    return msgspec.json.decode(done.stdout, type=Statements).queries


def _set(connection: Connection, cost: float) -> None:
    connection.execute(f"SET random_page_cost = {cost}".encode())


def _plans(lab: Lab, connection: Connection, queries: dict[str, list[str]]) -> Plans:
    """Explain every query at each cost, from memory, and keep the plans as files."""
    folder = RESULTS / "raw" / "plans" if lab.quick else RESULTS / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    plans: Plans = {name: {} for name in queries}
    for name, texts in queries.items():
        connection.execute(texts[0].encode())  # into memory
        for cost in COSTS:
            _set(connection, cost)
            lines = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS) {texts[0]}".encode()).fetchall()
            plan = query_plans.shortened([str(line) for (line,) in lines])
            plans[name][cost] = plan
            page = query_plans.described(f"{TITLES[name]}, random_page_cost {cost}", [(texts[0], plan)])
            (folder / f"planner-{name}-{cost}.txt").write_text(page, encoding="utf-8")
    return plans


def _warm(lab: Lab, connection: Connection, queries: dict[str, list[str]]) -> Times:
    """Time every query, the costs taking turns; what the client sees, the planning included."""
    taken: Times = {name: {cost: [] for cost in COSTS} for name in queries}
    for _ in range(lab.rounds):
        for name, texts in queries.items():
            for cost, times in taken[name].items():
                _set(connection, cost)
                until, number = time.monotonic() + (QUICK_BLOCK_S if lab.quick else BLOCK_S), 0
                while number < FEWEST or time.monotonic() < until:
                    times.append(_timed(connection, texts[number % len(texts)]))
                    number += 1
    return taken


def _cold(lab: Lab, postgres: PrivatePostgres, queries: dict[str, list[str]], names: list[str]) -> Times:
    """Time single runs, each after a restart and with every page of the database out of the system's memory."""
    taken: Times = {name: {cost: [] for cost in COSTS} for name in names}
    rounds = min(lab.rounds, COLD_ROUNDS)
    lab.say(f"{len(names)} queries from the disk: {rounds * len(names) * len(COSTS)} restarts")
    for number in range(rounds):
        for name, costs in taken.items():
            for cost, times in costs.items():
                postgres.stop()
                forget_pages(postgres.folder / "data")
                postgres.start()
                with _connected(postgres.url) as connection:
                    _set(connection, cost)
                    text = queries[name][number % len(queries[name])]
                    connection.execute(f"EXPLAIN {text}".encode())  # reads the catalogue, which is not the question
                    times.append(_timed(connection, text))
    return taken


def _connected(url: str) -> Connection:
    """Connect as soon as the server answers: it accepts connections a moment before."""
    until = time.monotonic() + READY_S
    while True:
        try:
            return psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def forget_pages(folder: Path) -> None:
    """Have the system drop what it keeps in memory of the files below ``folder``; nothing may be writing to them."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)  # only pages that are on the disk are dropped
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _timed(connection: Connection, text: str) -> float:
    began = time.perf_counter()
    connection.execute(text.encode()).fetchall()
    return 1_000 * (time.perf_counter() - began)


def _middle(times: Times, name: str, cost: float) -> float:
    return statistics.median(times[name][cost])


def _times(warm: Times, cold: Times, plans: Plans, people: int) -> Table:
    """Return the table of times; a dash where a query was not run from the disk, because its plan is always one."""
    rows = []
    for name, found in plans.items():
        cells = [f"{_middle(warm, name, cost):.2f}" for cost in COSTS]
        cells += [f"{_middle(cold, name, cost):.1f}" if name in cold else "-" for cost in COSTS]
        different = len({query_plans.nodes(plan) for plan in found.values()})
        rows.append([TITLES[name], "one" if different == 1 else str(different), *cells])
    columns = ["query", "plans", *(f"{cost}: ms from memory" for cost in COSTS)]
    columns += [f"{cost}: ms from the disk" for cost in COSTS]
    return Table(f"random_page_cost on {people:,} people and as many sessions, p50", columns, rows)


def _choices(plans: Plans) -> Table:
    """Return what the planner chose and estimated; equal neighbours are told once."""
    rows = []
    for name, found in plans.items():
        told: dict[str, list[float]] = {}
        for cost, plan in found.items():
            told.setdefault(query_plans.nodes(plan), []).append(cost)
        rows += [
            [
                TITLES[name], ", ".join(map(str, costs)), nodes,
                ", ".join(f"{query_plans.cost(found[cost]):,.0f}" for cost in costs),
            ]
            for nodes, costs in told.items()
        ]  # fmt: skip
    return Table("What the planner chose", ["query", "random_page_cost", "plan", "estimated cost"], rows)


def _notes(warm: Times, cold: Times, changing: list[str]) -> list[str]:
    def against_default(times: Times, names: Mapping[str, object] | list[str]) -> str:
        shares = []
        for cost in COSTS[:-1]:
            logs = [math.log(_middle(times, name, cost) / _middle(times, name, COSTS[-1])) for name in names]
            shares.append(f"{cost}: {math.exp(statistics.fmean(logs)):.2f}")
        return ", ".join(shares)

    first = f"All queries from memory, geometric mean of the times against those at {COSTS[-1]}: "
    notes = [f"{first}{against_default(warm, warm)}."]
    if changing:
        notes.append(
            f"Only those whose plan changes: from memory {against_default(warm, changing)}; "
            f"from the disk {against_default(cold, changing)}."
        )
    notes.append(
        "From the disk: Postgres restarted and every page of its files dropped from the system's memory before each "
        "run; the plan was made before the clock started."
    )
    return notes
