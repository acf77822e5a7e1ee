"""What the flows came to: tables, and the promises they are held against."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from perf.experiments.oauth_flow.windows import Measured
from perf.findings import Check, Finding, Table, at_most
from perf.load.oauth_flow import STEPS
from perf.rig.hash_rate import HashRate
from perf.rig.machine import QUIET_CORES

WHEEL: Final = "not compiled"
NATIVE: Final = "compiled for this CPU"
STORAGES: Final = {"sqlite": "SQLite", "postgres": "Postgres and Redis"}
PROMISED_CLIENTS: Final = 8
REST_CPU_MS: Final = (
    10.0  # a published identity provider of this kind needs 9; clarity is worth one beside a hash of 60
)
FLOWS_S: Final = 24.0
CROWD: Final = 20
INTROSPECT_P95_MS: Final = 30.0


class Seen(NamedTuple):
    """Everything that was measured."""

    raw: Mapping[str, HashRate]  # by build
    flows: Mapping[tuple[str, str, int], Measured]  # by storage, build, clients


def finding(seen: Seen, drawn: Sequence[str]) -> Finding:
    """Say what was found."""
    every = list(seen.flows.values())
    failures: dict[str, int] = {}
    for each in every:
        for reason, count in each.failures.items():
            failures[reason] = failures.get(reason, 0) + count
    return Finding(
        [_table(seen)], _checks(seen), drawn, _notes(seen, every, failures),
        data={
            "raw": seen.raw,
            "flows": {f"{storage}, {build}, {clients}": _figures(each)
                      for (storage, build, clients), each in seen.flows.items()},
        },
        failed=sum(failures.values()),
    )  # fmt: skip


def _table(seen: Seen) -> Table:
    cpu = ("CPU ms without the hash", "by subtraction", "of Postgres, Redis")
    columns = ("storage, Argon2", "clients", "flows/s", *cpu, *(f"{step}: p50 / p95 ms" for step in STEPS), "shed")
    rows = [
        (
            f"{STORAGES[storage]}, {build}", str(clients), f"{each.rate:.1f}", f"{each.rest_cpu_ms:.1f}",
            f"{each.subtracted_cpu_ms(seen.raw[build].cpu_ms):.1f}", f"{each.database_cpu_ms:.1f}",
            *_steps(each), str(each.shed),
        )
        for (storage, build, clients), each in sorted(seen.flows.items(), key=_order)
    ]  # fmt: skip
    return Table("Five requests a flow, each client waiting for every answer", columns, rows)


def _checks(seen: Seen) -> list[Check]:
    checks = []
    for storage, name in STORAGES.items():
        eight = {build: seen.flows[storage, build, PROMISED_CLIENTS] for build in (WHEEL, NATIVE)}
        crowd = max(seen.flows[storage, build, CROWD].ms("introspect", 95) for build in (WHEEL, NATIVE))
        dearest = max(each.rest_cpu_ms for each in eight.values())
        where = f"{PROMISED_CLIENTS} clients, {name}"
        checks += [
            at_most(f"CPU time of a flow without its hash, {where}", REST_CPU_MS, dearest, " ms"),
            Check(f"flows with Argon2 compiled for this CPU, {where}", FLOWS_S, eight[NATIVE].rate, unit="/s"),
            at_most(f"p95 of introspection, {CROWD} clients, {name}", INTROSPECT_P95_MS, crowd, " ms"),
        ]  # fmt: skip
    return checks


def _notes(seen: Seen, every: Sequence[Measured], failures: Mapping[str, int]) -> list[str]:
    raw = ", ".join(
        f"{build} {one.rate:.1f}/s ({one.cpu_ms:.0f} ms of CPU time each)" for build, one in seen.raw.items()
    )
    threads = next(iter(seen.raw.values())).threads
    notes = [
        f"Hashes without anything beside, in {threads} threads with huge pages: {raw}.",
        (
            "Each flow is another person in a browser without cookies; every answer is checked: form, code, state, "
            "iss, the ID tokens' signatures, what introspection says, and that refreshing rotates. One worker; server, "
            "databases and clients share all cores."
        ),
        (
            "Without the hash: CPU time of all threads of the server that do not hash, for five answers. By "
            "subtraction: the server's whole CPU time without that of as many hashes where they have no rival; "
            "beside other work a hash takes longer, and this column has the difference."
        ),
    ]
    if (others := max(window.other_cores for each in every for window in each.windows)) > QUIET_CORES:
        notes.append(f"NOT QUIET: up to {others:.2f} cores were busy with something else")
    return [*notes, *(f"{reason}: {count}" for reason, count in failures.items())]


def _figures(each: Measured) -> dict[str, Any]:
    return {
        "flows_s": each.rate, "rest_cpu_ms": each.rest_cpu_ms, "database_cpu_ms": each.database_cpu_ms,
        "hashes": each.hashes, "shed": each.shed, "failures": dict(each.failures),
        "rounds": [{"flows_s": one.rate, "hashing_s": one.hashing_s, "rest_s": one.rest_s,
                    "other_cores": one.other_cores} for one in each.windows],
        "steps": {step: {f"p{at}_ms": each.ms(step, at) for at in (50, 95, 99)} for step in STEPS},
    }  # fmt: skip


def _steps(each: Measured) -> list[str]:
    return [f"{each.ms(step, 50):.1f} / {each.ms(step, 95):.1f}" for step in STEPS]


def _order(item: tuple[tuple[str, str, int], Measured]) -> tuple[bool, bool, int]:
    (storage, build, clients), _ = item
    return storage != "sqlite", build != WHEEL, clients
