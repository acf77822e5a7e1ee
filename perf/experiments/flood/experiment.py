"""``/me`` at a fixed rate while sign-ins saturate the hash pool."""

import statistics

from ironauth.config.checks import default_hash_threads
from perf.experiments.flood import report
from perf.experiments.flood.neighbours import busy_neighbours
from perf.experiments.flood.report import Seen
from perf.experiments.flood.rounds import FULL, QUICK, TIMES_CAPACITY, Target, flooded, idle, raw_rate
from perf.findings import Finding
from perf.lab import Lab
from perf.load.workloads import SEEDED_PEOPLE
from perf.rig.processes import free_port
from perf.rig.site_setup import prepare_site, serve, site_environment

HYPOTHESIS = (
    "While four times as many sign-ins arrive as the pool can hash, /me at 200 requests/s keeps a p99 of 5 ms: the "
    "event loop runs first, because the hash threads are niced (19, SCHED_BATCH). What can not be taken is refused "
    "with 503 and Retry-After in under 50 ms, what is taken waits at most 4 s, memory comes to at most 150 MiB + 64 "
    "MiB for each thread (two threads: 278 MiB). "
    "Beside a busy process a core /me and the refusals keep these bounds, and the niced threads hash nine tenths of "
    "what threads of normal priority do there."
)


def measure(lab: Lab) -> Finding:
    """Measure three rounds; about three minutes."""
    threads = default_hash_threads()
    port = free_port()
    environment = site_environment(lab.folder, port=port, hash_threads=threads)
    prepare_site(environment, people=SEEDED_PEOPLE)
    target = Target(serve(lab.folder / "ironauth.log", port, environment, lab.stack))
    plain_port = free_port()
    at_0 = environment | {"IRONAUTH_HASH_NICE": "0", "IRONAUTH_ISSUER": f"http://127.0.0.1:{plain_port}"}
    plain = Target(serve(lab.folder / "nice-0.log", plain_port, at_0, lab.stack))
    spans = QUICK if lab.quick else FULL
    seen = Seen(threads=threads, flood_s=spans.flood)
    for number in range(1, lab.rounds + 1):
        seen.raw.append(raw := raw_rate(target.server, threads, spans.raw))
        seen.offered = TIMES_CAPACITY * statistics.median(one.rate for one in seen.raw)
        lab.say(f"round {number}  raw      {raw.rate:.1f} hashes/s")
        tokens = target.tokens()
        seen.idle.append(idle(target, tokens, spans))
        seen.flooded.append(under := flooded(target, tokens, spans, seen.offered))
        lab.say(f"round {number}  flooded  {report.brief(under, spans.flood)}")
        for name, asked, scene in (("beside", target, seen.beside), ("nice 0", plain, seen.beside_at_0)):
            tokens = asked.tokens()
            with busy_neighbours():
                scene.append(under := flooded(asked, tokens, spans, seen.offered))
            lab.say(f"round {number}  {name}   {report.brief(under, spans.flood)}")
    return report.finding(lab, seen)
