"""Authorize, password, token, introspection, refresh: flows/s, latencies and CPU time, by clients and builds."""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from ironauth.config.checks import default_hash_threads
from perf import plots
from perf.experiments.oauth_flow import windows
from perf.experiments.oauth_flow.report import NATIVE, PROMISED_CLIENTS, STORAGES, WHEEL, Seen, finding
from perf.experiments.oauth_flow.sites import NATIVE_FLAGS, PEOPLE, Site, install, start
from perf.experiments.oauth_flow.windows import Measured, Window
from perf.findings import Finding
from perf.lab import Lab
from perf.load.oauth_flow import STEPS
from perf.rig.hash_rate import in_a_process
from perf.rig.seed import email_of
from perf.rig.site_setup import ARGON2

HYPOTHESIS = (
    "Of the five requests only the password is dear: without its hash a flow takes 10 ms of the server's CPU time at "
    "most, so that with Argon2 compiled for the CPU eight clients complete 24 flows/s on two cores. Hashing holds up "
    "nothing else: with 20 clients 95 % of the introspections are answered within 30 ms."
)
CLIENTS, QUICK_CLIENTS = (1, 4, 8, 20, 50), (1, 8, 20)
ROUNDS = 2  # they come to five minutes
#: Windows in each round with the number of clients that something is promised for: two of fifty flows gave 8.6 to
#: 9.4 ms for the same code.
PROMISED_WINDOWS = 4
WINDOW_S, QUICK_WINDOW_S = 3.5, 2.5
RAMP_S = 1.0
RAW_S = 3.0
HUGE = "glibc.malloc.hugetlb=1"  # as manage.py serve


def measure(lab: Lab) -> Finding:
    """Measure both builds on both storages."""
    lab.say("fetching the wheel and compiling the source of Argon2")
    builds = {
        WHEEL: install(lab.folder / "wheel", "--only-binary"),
        NATIVE: install(lab.folder / "native", "--no-binary", NATIVE_FLAGS),
    }
    raw = {
        name: in_a_process(
            threads=default_hash_threads(), seconds=RAW_S, ramp_s=0.5, cost=ARGON2, tunables=HUGE, bindings=build
        )
        for name, build in builds.items()
    }
    people = itertools.cycle([email_of(serial) for serial in range(PEOPLE)])
    flows: dict[tuple[str, str, int], list[Window]] = {}
    for storage in STORAGES:
        lab.say(f"preparing {STORAGES[storage]}")
        with ExitStack() as stack:
            started = start(lab.folder / storage, storage, builds, stack)
            _flows(lab, storage, started, people, flows)
    seen = Seen(raw, {key: Measured(each) for key, each in flows.items()})
    return finding(seen, _draw(lab, seen))


def _flows(
    lab: Lab, storage: str, started: Mapping[str, Site], people: Iterator[str],
    taken: dict[tuple[str, str, int], list[Window]],
) -> None:  # fmt: skip
    """Measure every number of clients, the builds taking turns."""
    for number in range(1, _rounds(lab) + 1):
        for clients in _turns(lab):
            for build, site in started.items():
                one = _window(lab, site, people, clients)
                taken.setdefault((storage, build, clients), []).append(one)
                lab.say(f"round {number}  {STORAGES[storage]}, {build}, {clients} clients: {one.rate:.1f} flows/s")


def _turns(lab: Lab) -> list[int]:
    """Return the numbers of clients of a round, the promised one again and again between the others."""
    if lab.quick:
        return list(QUICK_CLIENTS)
    others = [clients for clients in CLIENTS if clients != PROMISED_CLIENTS]
    pairs = itertools.zip_longest(others, [PROMISED_CLIENTS] * PROMISED_WINDOWS)
    return [clients for pair in pairs for clients in pair if clients is not None]


def _window(lab: Lab, site: Site, people: Iterator[str], clients: int) -> Window:
    seconds = QUICK_WINDOW_S if lab.quick else WINDOW_S
    return windows.measure(site, people, clients=clients, seconds=seconds, ramp_s=RAMP_S)


def _rounds(lab: Lab) -> int:
    return 1 if lab.quick else ROUNDS


def _draw(lab: Lab, seen: Seen) -> list[str]:
    """Draw flows/s over clients, and each step's p95; return the names of the files."""
    rates: dict[str, Any] = {}
    flows = sorted(seen.flows.items(), key=lambda one: one[0])  # lines go from point to point as they come
    for (storage, build, clients), each in flows:
        rates.setdefault(f"{STORAGES[storage]}, {build}", []).append((clients, each.rate))
    first = lab.plot()
    plots.lines(first, "Sign-ins at a client, five requests each", rates, x="clients", y="flows/s", log_x=True)
    steps: dict[str, Any] = {}
    for (storage, build, clients), each in flows:
        if storage == "sqlite" and build == NATIVE:
            for step in STEPS:
                steps.setdefault(step, []).append((clients, each.ms(step, 95)))
    second = lab.plot("steps")
    title = "p95 of each request, SQLite, Argon2 compiled for this CPU"
    plots.lines(second, title, steps, x="clients", y="ms", log_x=True, log_y=True)
    return [first.name, second.name]
