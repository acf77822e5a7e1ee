"""What it costs to be watched: metrics that are scraped, and traces of some requests or of all."""

import os
import secrets
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress

import httpx

from perf import plots
from perf.bench.variants import (
    COLUMNS,
    CONNECTIONS,
    LANES,
    Key,
    Rounds,
    lost_percent,
    measure_variants,
    medians,
    percent_text,
    rows,
    start_variants,
    wrong,
)
from perf.findings import Check, Finding, Table
from perf.lab import Lab
from perf.rig.processes import Server, free_port
from perf.rig.site_setup import ROOT

HYPOTHESIS = (
    "Counting a request costs half a microsecond on its way and the scrape nothing that shows: metrics cost warm /me "
    "less than 3 % of its requests/s. A span is an object with a dozen attributes made in Python: tracing every "
    "request halves the hot lane; tracing one in a hundred costs what deciding costs, about 10 %."
)
LIMIT_PERCENT = 3.0  # of the requests/s of warm /me, metrics on and scraped against off
SCRAPE_S = 5.0  # three times as often as Prometheus does by default
#: One start of a server is up to 3 % faster than the next, for as long as it runs: as much as is judged here.
STARTS = 3
ROUNDS, SECONDS = 4, 2.5  # of each start
QUICK_STARTS, QUICK_ROUNDS, QUICK_SECONDS = 1, 2, 1.0
NONE, METRICS, SOME, ALL = "neither", "metrics", "traces, 1 %", "traces, all"


def measure(lab: Lab) -> Finding:
    """Measure warm /me on eight servers over one database, in rounds; then on eight others."""
    token, collector = secrets.token_urlsafe(32), free_port()
    environment = {"PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "perf.rig.trace_sink", str(collector)]
    lab.stack.enter_context(
        Server(command, folder=ROOT, port=collector, environment=environment, log=lab.folder / "collector.log")
    )
    rounds: Rounds = {}
    scrapes = 0
    cores = os.sched_getaffinity(0)
    for start in range(QUICK_STARTS if lab.quick else STARTS):
        lab.say(f"start {start + 1}: a database and eight servers")
        folder = lab.folder / str(start)
        folder.mkdir()
        with ExitStack() as stack:
            os.sched_setaffinity(0, cores)  # the last measurement was from one of them
            servers = start_variants(folder, variants(token, collector), stack)
            found, read = _measure_scraped(lab, servers, token, start)
        scrapes += read
        for key, each in found.items():
            rounds.setdefault(key, []).extend(each)
    path = lab.plot()
    plots.bars(path, "Warm /me by what watches it", medians(rounds, "rate"), unit="requests/s")
    return finding(rounds, [path.name], scrapes=scrapes, starts=start + 1)


def _measure_scraped(lab: Lab, servers: Mapping[Key, Server], token: str, start: int) -> tuple[Rounds, int]:
    """Return the rounds of a start, and how often metrics were read meanwhile."""
    scraped = dict.fromkeys((key for key in servers if key[1] == METRICS), 0)
    over = threading.Event()
    scraper = threading.Thread(target=_scrape, args=(servers, token, scraped, over))
    scraper.start()
    seconds, count = (QUICK_SECONDS, QUICK_ROUNDS) if lab.quick else (SECONDS, ROUNDS)
    try:
        rounds = measure_variants(servers, rounds=count, seconds=seconds, say=lab.say, first=1 + start * count)
    finally:
        over.set()
        scraper.join()
    return rounds, sum(scraped.values())


def variants(token: str, collector: int) -> dict[str, dict[str, str]]:
    """Return the settings of the four; ``collector``: the port that takes the traces."""
    traces = {"IRONAUTH_TRACES": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector}"}
    some = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"}
    return {
        NONE: {},
        METRICS: {"IRONAUTH_METRICS": "1", "IRONAUTH_METRICS_TOKEN": token},
        SOME: {**traces, **some},
        ALL: traces,
    }


def finding(rounds: Rounds, drawn: list[str], *, scrapes: int, starts: int = 1) -> Finding:
    """Say what was found; ``scrapes``: how often metrics were read; ``starts``: of each server."""
    checks, notes = [], []
    for lane in LANES:
        lost = lost_percent(rounds, (lane, METRICS), NONE, "rate")
        measured = lost.median if lost is not None and scrapes else float("inf")
        checks.append(
            Check(f"requests/s that metrics cost warm /me, {lane}", LIMIT_PERCENT, measured, ceiling=True, unit=" %")
        )
        for name in (METRICS, SOME, ALL):
            grown = lost_percent(rounds, (lane, name), NONE, "server_cpu_us")
            notes.append(f"By CPU time, {lane}, {name}: {percent_text(grown)} of a request.")
    notes.append(
        f"One worker pinned to the first core, {CONNECTIONS} connections from the last; one SQLite database, access "
        f"log on. Metrics were read {scrapes} times, every {SCRAPE_S:g} s; the collector answers at once and keeps "
        f"nothing. Servers were started {starts} times. Losses are taken within each round; the median and the "
        "lowest and highest round are shown."
    )
    data = {", ".join(key): each for key, each in rounds.items()}
    table = Table("Warm /me", ["watched by", *COLUMNS], rows(rounds, NONE, {}))
    return Finding([table], checks, drawn, notes, data=data, failed=wrong(rounds))


def _scrape(servers: Mapping[Key, Server], token: str, scraped: dict[Key, int], over: threading.Event) -> None:
    """Read the metrics of those that have them until the end, and count how often that went well."""
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=SCRAPE_S) as client:
        while True:
            for key in scraped:
                with suppress(httpx.HTTPError):
                    answer = client.get(f"http://{servers[key].host}/metrics")
                    scraped[key] += "ironauth_" in answer.text
            if over.wait(SCRAPE_S):
                return
