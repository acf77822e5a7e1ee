"""A small stand-in for wrk: ``python -m perf.load http://127.0.0.1:8000/ping -c 16 -d 5``."""

import sys

from perf.load.closed_loop import MAX_SECONDS, run_load
from perf.load.sources import Constant, get
from perf.rig.arguments import Parser, local_url, number, whole_number
from perf.rig.console import INTERRUPTED, leave_by_interrupt
from perf.summary import percentile_ms

MAX_CONNECTIONS = 900
RAMP_S = 0.2  # before what is measured


def main() -> int:
    """Load one URL with constant GET requests and print rate and latency."""
    leave_by_interrupt()
    parser = Parser(prog="python -m perf.load", description=main.__doc__)
    add = parser.add_argument
    add("url", type=local_url)
    add("-c", "--connections", type=whole_number(1, MAX_CONNECTIONS, 16), default=16, help="keep-alive (16)")
    add("-d", "--seconds", type=number(0.1, MAX_SECONDS - RAMP_S, 5), default=5.0, help="duration (5)")
    add("--bearer", default="", help="access token")
    options = parser.parse_args()
    parts = options.url
    request = get(parts.path or "/", parts.netloc, options.bearer)
    sources = [Constant(request, varying=True) for _ in range(options.connections)]
    address = (parts.hostname or "127.0.0.1", parts.port or 80)
    try:
        result = run_load(address, sources, seconds=options.seconds, ramp_s=RAMP_S)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: nothing was measured.\n")
        return INTERRUPTED
    lines = [f"{result.rate:,.0f} requests/s, {result.shed} shed, failures: {dict(result.failures) or 'none'}"]
    if result.latencies_ns:
        ordered = sorted(result.latencies_ns)
        lines.append(f"p50 {percentile_ms(ordered, 50):.3f} ms, p99 {percentile_ms(ordered, 99):.3f} ms")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if result.failures or result.shed else 0


if __name__ == "__main__":
    sys.exit(main())
