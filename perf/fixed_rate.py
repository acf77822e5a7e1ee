"""One URL at a fixed rate: ``python -m perf.fixed_rate http://127.0.0.1:8000/ping --rate 200 -d 10``.

``perf.load.fixed_rate`` says how it is sent, and why latencies count from when a request was due.
"""

import sys

from perf.load.closed_loop import MAX_SECONDS
from perf.load.fixed_rate import MAX_CONNECTIONS, MAX_RATE, run_fixed
from perf.load.open_loop import FixedRateResult
from perf.load.sources import Constant, get
from perf.rig.arguments import Parser, local_url, number, whole_number
from perf.rig.console import INTERRUPTED, leave_by_interrupt
from perf.summary import percentile_ms

RAMP_S = 0.5  # before what is measured
LAG_MS = 1.0  # a generator later than this in 1 % of its requests is reported: it measures itself


def describe(result: FixedRateResult) -> list[str]:
    """Say what a run saw, in lines for people."""
    counts = f"{len(result.latencies):,} accepted, {len(result.shed):,} shed"
    failures = dict(result.failures) or "none"
    lines = [f"{result.rate:,g} requests/s for {result.seconds:g} s: {counts}, failures: {failures}"]
    figures = {
        "from due": result.latencies,
        "from sent": result.services,
        "503 from due": result.shed,
        "generator's lag": result.lags,
    }
    for name, values in figures.items():
        if values:
            ordered = sorted(values)
            points = ", ".join(f"p{percent:g} {percentile_ms(ordered, percent):.3f}" for percent in (50, 99, 99.9))
            lines.append(f"{name + ':':16} {points}, max {ordered[-1] / 1e6:.3f} ms")
    if result.no_retry_after:
        lines.append(f"{result.no_retry_after:,} answers 503 without Retry-After")
    if result.waited:
        lines.append(f"{result.waited:,} requests found no free connection: more of them (-c) if that was not meant")
    if result.lags and (lag := percentile_ms(sorted(result.lags), 99)) > LAG_MS:
        lines.append(f"THE GENERATOR IS LATE (p99 {lag:.1f} ms): lower the rate, or give it a core of its own")
    return [*lines, f"The generator ran at {result.scheduling}." if result.scheduling else "Nothing was sent."]


def main() -> int:
    """Send GET requests to one URL at a fixed rate and print latencies from the intended send time."""
    leave_by_interrupt()
    parser = Parser(prog="python -m perf.fixed_rate", description=main.__doc__)
    add = parser.add_argument
    add("url", type=local_url)
    add("--rate", type=number(0.01, MAX_RATE, 200), default=200.0, help="requests per second (200)")
    connections = whole_number(1, MAX_CONNECTIONS, 16)
    add("-c", "--connections", type=connections, default=16, help="keep-alive connections (16)")
    add("-d", "--seconds", type=number(0.1, MAX_SECONDS - RAMP_S, 10), default=10.0, help="duration (10)")
    add("--bearer", default="", help="access token")
    options = parser.parse_args()
    parts = options.url
    request = get(parts.path or "/", parts.netloc, options.bearer)
    sources = [Constant(request, varying=True) for _ in range(options.connections)]
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    try:
        result = run_fixed(address, sources, rate=options.rate, seconds=options.seconds, ramp_s=RAMP_S)
    except ValueError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: nothing was measured.\n")
        return INTERRUPTED
    sys.stdout.write("\n".join(describe(result)) + "\n")
    return 1 if result.failures or result.shed else 0


if __name__ == "__main__":
    sys.exit(main())
