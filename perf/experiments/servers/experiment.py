"""The same application under three ASGI servers, directly and behind nginx that ends TLS."""

import itertools
import os
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from perf import plots
from perf.bench.measuring import to_round
from perf.experiments.servers.probes import ask, differences, refusals
from perf.experiments.servers.targets import BEHIND, CONNECTIONS, DIRECT, Target, start
from perf.findings import Check, Finding, Table
from perf.lab import Lab
from perf.load.closed_loop import run_load
from perf.load.sources import Source
from perf.rig.app_servers import OURS, TITLES
from perf.rig.nginx import Nginx
from perf.rig.processes import Meter, pin, read_meter
from perf.summary import Round, Spread, spread

HYPOTHESIS = (
    "Directly, our protocol class on Uvicorn answers /ping and a warm /me more often than Uvicorn as it comes (1.2 "
    "times for /me) and than Granian, whose parser is faster, but which hands every request from a Rust thread to "
    "Python's; at a refresh, where the database is nine tenths, they are within 10 %. nginx with TLS costs 40 µs of "
    "CPU a request, more than a warm /me itself, so that on one core the direct rate halves and the servers come "
    "closer together. Bodies are the same everywhere; the bounds on a head are lost without our protocol class."
)
WARM_UP_S, QUICK_WARM_UP_S = 30.0, 2.0  # each server, before the first round
SECONDS, QUICK_SECONDS, RAMP_S = 2.2, 1.0, 0.5
WORKLOADS = {
    "ping": "`GET /ping`",
    "me": "`GET /api/v1/access/me`, warm, bearer",
    "refresh": "`POST /api/v1/access/refresh`",
    "signin": "`POST /api/v1/access/signin`, one connection",
}
COMPARED = ("/ping", "/api/v1/access/me", "/api/v1/access/sessions", "/api/v1/nowhere")
AHEAD = 1.2  # hypothesis: warm /me, ours against Uvicorn as it comes


class Seen(msgspec.Struct, frozen=True):
    """One window: what clients saw of a server, and nginx' CPU time for each answer (µs), 0 without nginx."""

    round: Round
    nginx_cpu_us: float


def measure(lab: Lab) -> Finding:
    """Warm up and measure every server, directly and behind nginx, interleaved."""
    usable = os.sched_getaffinity(0)
    targets, proxy, supplies = start(lab)
    for target in targets:
        pin(target.server.pid, {min(usable)})
    pin(proxy.server.pid, {min(usable)})
    os.sched_setaffinity(0, {max(usable)})
    direct = [target for target in targets if target.way == DIRECT]
    pairs = supplies.exchange(targets[0])
    alike, wrong = _compare(targets, pairs[0].access_token)
    with ThreadPoolExecutor(len(direct)) as pool:
        refused = dict(
            zip([each.name for each in direct], pool.map(refusals, [each.address for each in direct]), strict=True)
        )
    warm_up_s = QUICK_WARM_UP_S if lab.quick else WARM_UP_S
    for target in targets:
        lab.say(f"warming up for {warm_up_s:.0f} s: {target.title}")
        for workload in ("ping", "me", "refresh"):
            seen = _load(target, proxy, supplies.sources(workload, target, pairs), seconds=warm_up_s / 3 - RAMP_S)
            wrong += seen.round.failed
    rounds: dict[str, dict[str, list[Seen]]] = {name: {target.title: [] for target in targets} for name in WORKLOADS}
    for number in range(1, lab.rounds + 1):
        lab.say(f"round {number}")
        pairs = supplies.exchange(targets[0])
        for workload, target in itertools.product(WORKLOADS, targets):
            sources = supplies.sources(workload, target, pairs)
            seconds = QUICK_SECONDS if lab.quick else SECONDS
            rounds[workload][target.title].append(_load(target, proxy, sources, seconds=seconds))
    found = finding(rounds, alike=alike, refused=refused, wrong=wrong)
    for workload in ("me", "refresh"):
        path = lab.plot(workload)
        rates = {title.replace("`", ""): _rate(seen) for title, seen in rounds[workload].items()}
        plots.bars(path, WORKLOADS[workload].replace("`", ""), rates, unit="requests/s, median")
        found.plots = [*found.plots, path.name]
    return found


def finding(
    rounds: Mapping[str, Mapping[str, Sequence[Seen]]],
    *,
    alike: Mapping[str, str],
    refused: Mapping[str, Mapping[str, str]],
    wrong: int,
) -> Finding:
    """Say what was found; ``alike``: how each target's answers differ from ours, ``wrong``: bad answers so far."""
    tables = [_table(WORKLOADS[workload], by_target) for workload, by_target in rounds.items()]
    names = list(refused)
    probes = list(refused[names[0]])
    tables.append(
        Table(
            "What is not a plain request",
            ["sent", *(TITLES[name] for name in names)],
            [[probe, *(refused[name][probe] for name in names)] for probe in probes],
        )
    )
    tables.append(
        Table("The same answers?", ["server", "differs from ours, direct, in"], [[*pair] for pair in alike.items()])
    )
    every = [seen.round for by_target in rounds.values() for rounds_ in by_target.values() for seen in rounds_]
    reasons = sorted({reason for each in every for reason in each.failures})
    notes = [_CORES, _LOST, *(f"Failure seen: {reason}" for reason in reasons)]
    failed = wrong + sum(each.failed + each.shed for each in every)
    return Finding(
        tables, checks(rounds), notes=notes, data={"rounds": rounds, "refused": refused, "alike": alike}, failed=failed
    )


def checks(rounds: Mapping[str, Mapping[str, Sequence[Seen]]]) -> list[Check]:
    """Hold what was measured against the hypothesis."""
    ours, stock, granian = (f"{TITLES[name]}, {DIRECT}" for name in TITLES)
    me = rounds["me"]
    return [
        Check("warm /me, ours against Uvicorn as it comes", AHEAD, _ratio(me[ours], me[stock]), unit=" times"),
        Check("warm /me, ours against Granian", 1.0, _ratio(me[ours], me[granian]), unit=" times"),
        Check(
            "warm /me on one core, behind nginx with TLS against direct, ours",
            0.4,
            _ratio(me[f"{TITLES[OURS]}, {BEHIND}"], me[ours]),
        ),
    ]


_CORES = (
    "One worker each, on one database; the server under load and nginx share the first core, the load generator has "
    f"the last. Behind nginx, requests/s are what one core serves with everything but handshakes: {CONNECTIONS} "
    "connections stay open. Sign-in is one at a time, on that core too, so its p99 is its slowest; 0.1 s of it is "
    "Argon2id."
)
_LOST = (
    "Lost without our protocol class, whatever the application does, because ASGI begins when a head is complete: the "
    "10 s a head may take, the bound on its size while it arrives, refusals as problem documents, and the limit of "
    "running requests (503 with Retry-After). Uvicorn as it comes has neither bound; Granian's are wider (30 s, about "
    "400 KiB). The application's own guard still bounds body, number of fields and target."
)


def _table(title: str, by_target: Mapping[str, Sequence[Seen]]) -> Table:
    rows = []
    for name, seen in by_target.items():
        rate = spread([each.round.rate for each in seen])
        figures = [statistics.median(getattr(each.round, what) for each in seen) for what in ("p50_ms", "p99_ms")]
        app = statistics.median(each.round.server_cpu_us for each in seen)
        proxy = statistics.median(each.nginx_cpu_us for each in seen)
        failed = sum(each.round.failed + each.round.shed for each in seen)
        rows.append([
            name, _spread(rate), *(f"{figure:.2f}" for figure in figures),
            f"{app:,.0f}", f"{proxy:,.0f}" if proxy else "", str(failed),
        ])  # fmt: skip
    columns = ["server", "requests/s: median (low-high)", "p50 ms", "p99 ms", "server CPU µs", "nginx CPU µs", "failed"]
    return Table(title, columns, rows)


def _spread(rate: Spread) -> str:
    digits = 0 if rate.median >= 100 else 1
    return f"{rate.median:,.{digits}f} ({rate.low:,.{digits}f}-{rate.high:,.{digits}f})"


def _rate(seen: Sequence[Seen]) -> float:
    return statistics.median(each.round.rate for each in seen)


def _ratio(above: Sequence[Seen], below: Sequence[Seen]) -> float:
    pairs = zip(above, below, strict=True)
    return statistics.median(one.round.rate / other.round.rate if other.round.rate else 0.0 for one, other in pairs)


def _compare(targets: Sequence[Target], token: str) -> tuple[dict[str, str], int]:
    """Ask every target the same; return how its answers differ from the first's, and how many were other answers."""
    fields = {"Authorization": f"Bearer {token}", "X-Request-ID": "0" * 32}
    alike, wrong = {}, 0
    for target in targets:
        found: dict[str, None] = {}
        for path in COMPARED:
            wanted = ask(targets[0].address, path, fields)
            for difference in differences(wanted, ask(target.address, path, fields, target.tls)):
                found[difference] = None
                wrong += difference == "body" or difference.startswith("status")
        alike[target.title] = ", ".join(found) or "nothing"
    return alike, wrong


def _load(target: Target, proxy: Nginx, sources: Sequence[Source], *, seconds: float) -> Seen:
    meters: list[Meter] = []
    passed: list[Meter] = []

    def observe() -> None:
        meters.append(read_meter(target.server.pid))
        passed.append(read_meter(proxy.server.pid))

    result = run_load(target.address, sources, seconds=seconds, ramp_s=RAMP_S, observe=observe, tls=target.tls)
    seen = to_round(result, meters)
    used = passed[-1].server - passed[0].server if target.tls and seen.completed else 0.0
    return Seen(seen, 1e6 * used / max(seen.completed, 1))
