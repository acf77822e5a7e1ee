"""Fifty objects as JSON by DRF's serializer, by msgspec Structs, by both, through the server."""

import json
import statistics
import urllib.request
from collections.abc import Mapping, Sequence
from os import sched_getaffinity, sched_setaffinity

from ironauth.config.checks import default_hash_threads
from perf.bench.measuring import load_round
from perf.findings import Check, Finding, Table
from perf.lab import Lab
from perf.load.sources import Constant, get
from perf.plots import bars
from perf.rig.processes import Server, free_port, pin
from perf.rig.site_setup import prepare, serve, site_environment
from perf.summary import Round, ratios, spread

HYPOTHESIS = (
    "DRF's serializer looks at every field of every object in Python; the JSON writer behind it does little. So "
    "msgspec behind the same serializer gains less than a fifth in requests/s, and Structs, which need no serializer, "
    "at least five times. Making the Structs of other objects first costs less than a request does."
)
CONNECTIONS = 16
FIRST, STRUCTS = "drf", "msgspec"
FLOOR = "live"
WAYS = {  # the last part of the path: what it stands for
    FIRST: "DRF serializer + JSONRenderer",
    "drf-msgspec": "DRF serializer + msgspec",
    "msgspec-converted": "Structs made of the same objects + msgspec",
    STRUCTS: "Structs + msgspec",
}
TITLES = {**WAYS, FLOOR: "`/health/live`: a view with nothing to serialize"}
PATHS = {**{way: f"/perf/serialization/{way}" for way in WAYS}, FLOOR: "/health/live"}
PREPARED = (
    "The Structs and the objects exist before the request, as if a query had returned them. The third way makes its "
    "Structs of the very objects the serializer reads, in every request."
)
CHECKED = "The four answers are compared before measuring; then each has to stay the same byte for byte."
PEER = (
    "Not of this run, so an order of magnitude only: IronTrack's two endpoints for fifty objects answered 3,413/s "
    "(msgspec) and 1,899/s (pydantic) with one worker on a machine of this kind."
)


def measure(lab: Lab) -> Finding:
    """Serve the four endpoints on one core, load them from the other, and time the work without a server."""
    every = sched_getaffinity(0)
    core, client = min(every), max(every)
    environment = site_environment(lab.folder, port=free_port(), hash_threads=default_hash_threads())
    environment["IRONAUTH_PERF_ENDPOINTS"] = "1"
    for command in (["manage.py", "migrate", "--verbosity", "0"], ["manage.py", "create_signing_key"]):
        prepare(command, environment)
    server = serve(lab.folder / "serve.log", free_port(), environment, lab.stack)
    size = same_answer([_fetch(server, PATHS[way]) for way in WAYS])
    lab.say(f"the four answers are the same: {size:,} bytes")
    pin(server.pid, {core})
    sched_setaffinity(0, {client})  # after the server, which would inherit it
    rounds: dict[str, list[Round]] = {name: [] for name in PATHS}
    for name in PATHS:
        _load(server, name, seconds=1.0)  # warm-up
    for number in range(1, lab.rounds + 1):
        for name in PATHS:
            rounds[name].append(_load(server, name, seconds=2.0 if lab.quick else 5.0))
            lab.say(f"round {number}  {name:18} {rounds[name][-1].rate:10,.0f}/s")
    return _finding(lab, rounds, size)


def same_answer(bodies: Sequence[bytes]) -> int:
    """Return the length of the first body, when all of them mean the same.

    Raises:
        RuntimeError: they do not: nothing measured with them would be a comparison.
    """
    first, *others = [json.loads(body) for body in bodies]
    if any(other != first for other in others):
        raise RuntimeError("the ways of serializing do not answer the same")
    return len(bodies[0])


def _fetch(server: Server, path: str) -> bytes:
    with urllib.request.urlopen(f"http://{server.host}{path}", timeout=10) as answer:
        body: bytes = answer.read()
    return body


def _load(server: Server, name: str, *, seconds: float) -> Round:
    """Measure one window; every answer has to be the first one, byte for byte."""
    sources = [Constant(get(PATHS[name], server.host)) for _ in range(CONNECTIONS)]
    return load_round(server, sources, seconds=seconds)


def _finding(lab: Lab, rounds: dict[str, list[Round]], size: int) -> Finding:
    """Put the medians into tables, plots and the check."""
    rates = {name: [each.rate for each in rounds[name]] for name in rounds}
    times_faster = {name: ratios(rates[name], rates[FIRST]) for name in WAYS}
    gains = {name: ratio.median for name, ratio in times_faster.items() if ratio is not None}
    path = lab.plot("rate")
    medians = {WAYS[name]: statistics.median(rates[name]) for name in WAYS}
    bars(path, "Fifty objects: requests answered", medians, unit="requests/s, one worker on one core")
    every = [each for measured in rounds.values() for each in measured]
    return Finding(
        tables=[_answers(rounds, gains, size)],
        checks=[
            Check(
                "Structs + msgspec against DRF serializer + JSONRenderer, requests/s",
                5.0,
                gains[STRUCTS],
                unit=" times",
            )
        ],
        plots=[path.name],
        notes=[PREPARED, CHECKED, PEER],
        data={"rounds": {name: rounds[name] for name in rounds}, "bytes": size},
        failed=sum(each.failed + each.shed for each in every),
    )


def _answers(rounds: Mapping[str, Sequence[Round]], gains: Mapping[str, float], size: int) -> Table:
    columns = ("answer", "requests/s: median (low-high)", "of the first", "p50 ms", "p99 ms", "server CPU ms/request")
    title = f"{size:,} bytes, {CONNECTIONS} connections, one worker on one core"
    return Table(title, columns, [_row(name, rounds[name], gains) for name in PATHS])


def _row(name: str, rounds: Sequence[Round], gains: Mapping[str, float]) -> tuple[str, ...]:
    rate = spread([each.rate for each in rounds])
    return (
        TITLES[name],
        f"{rate.median:,.0f} ({rate.low:,.0f}-{rate.high:,.0f})",
        f"{gains[name]:.1f} times" if name in gains else "",
        f"{statistics.median(each.p50_ms for each in rounds):.2f}",
        f"{statistics.median(each.p99_ms for each in rounds):.2f}",
        f"{statistics.median(each.server_cpu_us for each in rounds) / 1000:.3f}",
    )
