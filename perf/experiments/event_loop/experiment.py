"""Argon2id on the event loop and in the pool: what everybody else notices of a sign-in."""

import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ironauth.config.checks import default_hash_threads
from ironauth.server.instrumentation.lag_histogram import EDGES_MS
from perf.experiments.event_loop import loop_lag
from perf.experiments.event_loop.loop_lag import LoopRecord
from perf.experiments.flood.clients import Job, Outcome, together
from perf.findings import Check, Finding, Table
from perf.lab import Lab
from perf.load.workloads import SEEDED_PEOPLE, Site
from perf.plots import histogram, lines
from perf.rig.processes import Server, free_port
from perf.rig.site_setup import ARGON2, ROOT, prepare_site, site_environment
from perf.summary import percentile_ms

HYPOTHESIS = (
    "On the loop, every sign-in stops everything for the length of a hash, at least 100 ms, and four that wait at once "
    "for several in a row: /me, which takes less than a millisecond, gets a median above 50 ms, and asyncio's debug "
    "mode reports about one slow callback for each sign-in. In the pool the same hashes leave the loop alone: no slow "
    "callback, /me below 5 ms at p99, and more sign-ins, because there are as many threads as cores."
)
ON_LOOP, IN_POOL = "on the loop", "in the pool"
PROGRAMS = {ON_LOOP: ["-m", "perf.experiments.event_loop.loop_hashing"], IN_POOL: ["manage.py"]}
RATE, ME_CONNECTIONS, TOKENS = 200.0, 64, 8  # /me requests/s; enough connections that none waits for another's answer
SIGN_IN_CONNECTIONS = 4
RAMP_S = 2.0  # until sign-ins follow each other evenly
LEAD_S = 2.0  # until both clients are up
WATCHED_S, QUICK_WATCHED_S = 15.0, 11.0  # at least one whole interval of loop_lag, 5 s, is inside
PLAIN_S, QUICK_PLAIN_S = 10.0, 4.0
REPORTED_MS, SLOW_MS = 50.0, 100.0  # well below a hash, also one of a native build; the article's threshold
POINTS = (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9)
PLACE = (
    "Only the place of the hash differs: `loop_hashing` replaces two methods of the pool. The real pool refuses "
    "to hash on a thread that runs an event loop."
)


@dataclass
class Seen:
    """What was measured of one arrangement: clients' times without debug mode, the loop's with it."""

    me: list[Outcome] = field(default_factory=list)
    sign_ins: list[Outcome] = field(default_factory=list)
    loop: LoopRecord = field(default_factory=LoopRecord)
    watched_sign_ins: int = 0
    failed: int = 0


def measure(lab: Lab) -> Finding:
    """Let four people at a time sign in while /me is asked 200 times a second, hashing here and there in turn."""
    environment = site_environment(lab.folder, port=free_port(), hash_threads=default_hash_threads())
    prepare_site(environment, people=SEEDED_PEOPLE)
    plain_s, watched_s = (QUICK_PLAIN_S, QUICK_WATCHED_S) if lab.quick else (PLAIN_S, WATCHED_S)
    seen = {name: Seen() for name in PROGRAMS}
    for number in range(1, lab.rounds + 1):
        for name, program in PROGRAMS.items():
            log = lab.folder / f"{name.replace(' ', '-')}-{number}.log"
            me, sign_ins, _ = _window(program, environment, log, plain_s)
            seen[name].me.append(me)
            seen[name].sign_ins.append(sign_ins)
            lab.say(f"round {number}  {name:12} /me p99 {_percentile(me, 99):8.2f} ms")
            options = ("--loop-debug", "--slow-callback-ms", f"{REPORTED_MS:g}")
            watched_me, watched, begin = _window(program, environment, log, watched_s, *options)
            record = loop_lag.read(log, begin, begin + watched_s)
            seen[name].loop.add(record)
            seen[name].watched_sign_ins += len(watched.latencies)
            seen[name].failed += sum(_failures(each) for each in (me, sign_ins, watched_me, watched))
            lab.say(
                f"round {number}  {name:12} {len(record.slow_ms)} slow callbacks, longest lag {record.max_ms:.1f} ms"
            )
    return _finding(lab, seen, plain_s)


def _window(
    program: Sequence[str], environment: dict[str, str], log: Path, seconds: float, *options: str
) -> tuple[Outcome, Outcome, float]:
    """Measure one window on a fresh server; return what /me and the sign-ins saw, and when it began (Unix time)."""
    with ExitStack() as stack:
        port = free_port()
        command = [sys.executable, *program, "serve", "--workers", "1", "--port", str(port), *options]
        server = stack.enter_context(Server(command, folder=ROOT, port=port, environment=environment, log=log))
        tokens = [pair.access_token for pair in Site(server).sign_in(TOKENS)]
        begin_at = time.monotonic() + LEAD_S
        window_at = time.time() + LEAD_S + RAMP_S

        def job(what: Literal["me", "sign-in"], connections: int, rate: float = 0.0) -> Job:
            return Job(what, port, connections, RAMP_S, seconds, begin_at, rate, tokens, first_person=TOKENS)

        me, sign_ins = together([job("me", ME_CONNECTIONS, RATE), job("sign-in", SIGN_IN_CONNECTIONS)])
    return me, sign_ins, window_at


def _finding(lab: Lab, seen: dict[str, Seen], seconds: float) -> Finding:
    """Put what was seen into tables, plots and checks."""
    _plot(lab, seen)
    pool, loop = seen[IN_POOL], seen[ON_LOOP]
    hashes = f"Argon2id t={ARGON2['time-cost']}, m={ARGON2['memory-kib'] // 1024} MiB, p={ARGON2['parallelism']}"
    return Finding(
        tables=[
            Table(
                f"/me at {RATE:g} requests/s while {SIGN_IN_CONNECTIONS} people at a time sign in",
                ("hashing", "/me p50 ms", "p90 ms", "p99 ms", "max ms", "sign-ins/s", "sign-in p50 ms"),
                [_client_row(name, each, seconds) for name, each in seen.items()],
            ),
            Table(
                "The event loop in the same minute, in asyncio's debug mode",
                (
                    "hashing",
                    "lag p50 ms, at most",
                    "lag p99 ms, at most",
                    "longest lag ms",
                    f"callbacks over {REPORTED_MS:g} ms",
                    f"over {SLOW_MS:g} ms",
                    "for each sign-in",
                    "longest ms",
                    "mostly in",
                ),
                [_loop_row(name, each) for name, each in seen.items()],
            ),
        ],
        checks=[
            Check("/me p99 while the pool hashes", 5, _median(pool.me, 99), ceiling=True, unit=" ms"),
            Check(f"callbacks over {SLOW_MS:g} ms while the pool hashes", 0, _over(pool, SLOW_MS), ceiling=True),
            Check(f"callbacks over {REPORTED_MS:g} ms for each sign-in on the loop", 0.9, _for_each(loop)),
        ],
        plots=[lab.plot("lag").name, lab.plot("me").name],
        notes=_notes(seen, hashes),
        data={name: _data(each) for name, each in seen.items()},
        failed=sum(each.failed for each in seen.values()),
    )


def _plot(lab: Lab, seen: dict[str, Seen]) -> None:
    histogram(
        lab.plot("lag"),
        "How late the event loop was, for something due every 10 ms",
        (EDGES_MS[0] / 1.25, *EDGES_MS),
        {name: loop_lag.shares(each.loop.buckets) for name, each in seen.items()},
        x="lag, ms",
        y="% of the times",
    )
    merged = {name: sorted(ns for outcome in each.me for ns in outcome.latencies) for name, each in seen.items()}
    lines(
        lab.plot("me"),
        f"/me at {RATE:g} requests/s while people sign in",
        {name: [(percent, percentile_ms(values, percent)) for percent in POINTS] for name, values in merged.items()},
        x="percentile",
        y="ms from the intended send time",
        log_y=True,
    )


def _client_row(name: str, seen: Seen, seconds: float) -> tuple[str, ...]:
    rate = statistics.median(len(each.latencies) for each in seen.sign_ins) / seconds
    figures = [f"{_median(seen.me, percent):,.2f}" for percent in (50, 90, 99)]
    longest = max(_percentile(each, 100) for each in seen.me)
    return name, *figures, f"{longest:,.1f}", f"{rate:.1f}", f"{_median(seen.sign_ins, 50):,.0f}"


def _loop_row(name: str, seen: Seen) -> tuple[str, ...]:
    loop = seen.loop
    return (
        name,
        *(f"{loop_lag.at_most_ms(loop.buckets, percent):g}" for percent in (50, 99)),
        f"{loop.max_ms:,.1f}",
        str(len(loop.slow_ms)),
        str(_over(seen, SLOW_MS)),
        f"{_for_each(seen):.2f}",
        f"{max(loop.slow_ms, default=0):,.0f}",
        loop.where.most_common(1)[0][0] if loop.where else "",
    )


def _notes(seen: dict[str, Seen], hashes: str) -> list[str]:
    lags = sorted(lag for each in seen.values() for outcome in each.me for lag in outcome.lags)
    return [
        f"{hashes}, one worker, {default_hash_threads()} threads in the pool; server and clients share every core.",
        "Latencies count from the intended send time and were measured without debug mode, lags and callbacks with it.",
        PLACE,
        f"The client of /me noticed what was due {percentile_ms(lags, 99):.2f} ms late at p99.",
    ]


def _data(seen: Seen) -> dict[str, object]:
    return {
        "me_ms": [{f"p{percent:g}": _percentile(each, percent) for percent in POINTS} for each in seen.me],
        "sign_ins": [len(each.latencies) for each in seen.sign_ins],
        "lag_buckets": dict(seen.loop.buckets),
        "slow_callbacks_ms": seen.loop.slow_ms,
        "where": dict(seen.loop.where),
    }


def _percentile(outcome: Outcome, percent: float) -> float:
    return percentile_ms(sorted(outcome.latencies), percent) if outcome.latencies else 0.0


def _median(outcomes: Sequence[Outcome], percent: float) -> float:
    return statistics.median(_percentile(each, percent) for each in outcomes)


def _over(seen: Seen, threshold_ms: float) -> int:
    return sum(ms > threshold_ms for ms in seen.loop.slow_ms)


def _for_each(seen: Seen) -> float:
    return len(seen.loop.slow_ms) / seen.watched_sign_ins if seen.watched_sign_ins else 0.0


def _failures(outcome: Outcome) -> int:
    """Count what was not accepted; a client without any answer failed as well."""
    return sum(outcome.failures.values()) + outcome.refused or int(not outcome.latencies)
