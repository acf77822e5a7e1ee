"""``/me`` at a fixed rate while sign-ins saturate the hash pool, its threads niced and not, and what that costs."""

import statistics
from collections.abc import Sequence

from ironauth.config.checks import default_hash_threads
from perf.experiments.flood import report
from perf.experiments.flood.report import Seen
from perf.experiments.flood.rounds import FULL, QUICK, TIMES_CAPACITY, Spans, Target, busy, flooded, idle, raw_rate
from perf.findings import Finding
from perf.lab import Lab
from perf.load.workloads import SEEDED_PEOPLE
from perf.rig.processes import free_port
from perf.rig.site_setup import prepare, serve, site_environment

HYPOTHESIS = (
    "While four times as many sign-ins arrive as the pool can hash, /me at 200 requests/s keeps a p99 of 5 ms: the "
    "event loop runs first, because the hash threads are niced (19, SCHED_BATCH). Without that it will not. What can "
    "not be taken is refused with 503 and Retry-After in under 50 ms, what is taken waits at most 4 s, memory comes to "
    "about 100 MiB + 64 MiB for each thread (two threads: at most 240 MiB). The price: while everything else is busy, "
    "niced sign-ins get the rest."
)
DEFAULT_NICE = 19
NICES = (0, 10, DEFAULT_NICE)


def measure(lab: Lab) -> Finding:
    """Measure three rounds, the niceness changing inside each; about five minutes."""
    threads = default_hash_threads()
    targets = _start(lab, (0, DEFAULT_NICE) if lab.quick else NICES, threads)
    spans = QUICK if lab.quick else FULL
    seen = Seen(threads=threads, default=DEFAULT_NICE, flood_s=spans.flood)
    for number in range(1, lab.rounds + 1):
        _round(lab, number, targets, spans, seen)
    return report.finding(lab, seen)


def _start(lab: Lab, nices: Sequence[int], threads: int) -> list[Target]:
    """Start one server for each niceness, on one database; those not asked at the moment take no CPU time."""
    environment = site_environment(lab.folder, port=free_port(), hash_threads=threads)
    for arguments in (
        ["manage.py", "migrate", "--verbosity", "0"],
        ["manage.py", "create_signing_key"],
        ["-m", "perf.rig.seed", "--users", str(SEEDED_PEOPLE)],
    ):
        prepare(arguments, environment)
    targets = []
    for nice in nices:
        settings = environment | {"IRONAUTH_HASH_NICE": str(nice)}
        targets.append(Target(serve(lab.folder / f"nice-{nice}.log", free_port(), settings, lab.stack), nice))
    return targets


def _round(lab: Lab, number: int, targets: Sequence[Target], spans: Spans, seen: Seen) -> None:
    """Measure every scene once with every server."""
    seen.raw.append(raw := raw_rate(targets[0].server, seen.threads, spans.raw))
    seen.offered = TIMES_CAPACITY * statistics.median(one.rate for one in seen.raw)
    lab.say(f"round {number}  raw      {raw.rate:.1f} hashes/s")
    for target in targets:
        tokens = target.tokens()
        if target.nice == seen.default:
            seen.idle.append(idle(target, tokens, spans))
        seen.flooded[target.nice].append(under := flooded(target, tokens, spans, seen.offered))
        seen.busy[target.nice].append(beside := busy(target, tokens, spans, seen.threads))
        lab.say(
            f"round {number}  nice {target.nice:2}  {report.brief(under, spans.flood)}; "
            f"beside a busy /me {beside.sign_ins:.1f} sign-ins/s"
        )
