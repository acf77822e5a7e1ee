"""A small stand-in for wrk: ``python -m perf.load http://127.0.0.1:8000/ping -c 16 -d 5``, or at a fixed ``--rate``.

``perf.load.fixed_rate`` says how requests are sent at a rate, and why latencies count from when one was due.
"""

import sys

from perf.load.closed_loop import MAX_SECONDS, run_load
from perf.load.fixed_rate import MAX_CONNECTIONS, MAX_RATE, FixedRateResult, run_fixed
from perf.load.sources import Constant, get
from perf.rig.arguments import Parser, local_url, number, whole_number
from perf.rig.console import leave_by_interrupt, status_of
from perf.summary import percentile_ms

RAMP_S = 0.5  # before what is measured
LAG_MS = 1.0  # a generator later than this in 1 % of its requests is reported: it measures itself


def main() -> int:
    """Load one URL with constant GET requests and print rate and latency."""
    leave_by_interrupt()
    parser = Parser(prog="python -m perf.load", description=main.__doc__)
    add = parser.add_argument
    add("url", type=local_url)
    add("-c", "--connections", type=whole_number(1, MAX_CONNECTIONS, 16), default=16, help="keep-alive (16)")
    add("-d", "--seconds", type=number(0.1, MAX_SECONDS - RAMP_S, 5), default=5.0, help="duration (5)")
    rate = "requests per second, whatever the answers (default: each connection asks as soon as it is answered)"
    add("--rate", type=number(0.01, MAX_RATE, 200), help=rate)
    add("--bearer", default="", help="access token")
    options = parser.parse_args()
    parts = options.url
    request = get(parts.path or "/", parts.netloc, options.bearer)
    sources = [Constant(request, varying=True) for _ in range(options.connections)]
    address = (parts.hostname or "127.0.0.1", parts.port or 80)

    def load() -> int:
        if options.rate is None:
            closed = run_load(address, sources, seconds=options.seconds, ramp_s=RAMP_S)
            shed, failures = closed.shed, closed.failures
            lines = [f"{closed.rate:,.0f} requests/s, {shed} shed, failures: {dict(failures) or 'none'}"]
            lines += _percentiles({"latency": closed.latencies_ns})
        else:
            fixed = run_fixed(address, sources, rate=options.rate, seconds=options.seconds, ramp_s=RAMP_S)
            shed, failures, lines = len(fixed.shed), fixed.failures, describe(fixed)
        sys.stdout.write("\n".join(lines) + "\n")
        return 1 if failures or shed else 0

    try:
        return status_of(load)
    except ValueError as error:
        parser.error(str(error))


def describe(result: FixedRateResult) -> list[str]:
    """Say what a run at a fixed rate saw, in lines for people."""
    counts = f"{len(result.latencies):,} accepted, {len(result.shed):,} shed"
    failures = dict(result.failures) or "none"
    lines = [f"{result.rate:,g} requests/s for {result.seconds:g} s: {counts}, failures: {failures}"]
    lines += _percentiles(
        {
            "from due": result.latencies,
            "from sent": result.services,
            "503 from due": result.shed,
            "generator's lag": result.lags,
        }
    )
    if result.no_retry_after:
        lines.append(f"{result.no_retry_after:,} answers 503 without Retry-After")
    if result.waited:
        lines.append(f"{result.waited:,} requests found no free connection: more of them (-c) if that was not meant")
    if result.lags and (lag := percentile_ms(sorted(result.lags), 99)) > LAG_MS:
        lines.append(f"THE GENERATOR IS LATE (p99 {lag:.1f} ms): lower the rate, or give it a core of its own")
    return [*lines, f"The generator ran at {result.scheduling}." if result.scheduling else "Nothing was sent."]


def _percentiles(figures: dict[str, list[int]]) -> list[str]:
    lines = []
    for name, values in figures.items():
        if values:
            ordered = sorted(values)
            points = ", ".join(f"p{percent:g} {percentile_ms(ordered, percent):.3f}" for percent in (50, 99, 99.9))
            lines.append(f"{name + ':':16} {points}, max {ordered[-1] / 1e6:.3f} ms")
    return lines


if __name__ == "__main__":
    sys.exit(main())
