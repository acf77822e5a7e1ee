"""A small stand-in for wrk: ``python -m perf.load http://127.0.0.1:8000/ping -c 16 -d 5``."""

import argparse
import sys
from urllib.parse import urlsplit

from perf.load.closed_loop import run_load
from perf.load.sources import Constant, get
from perf.summary import percentile_ms


def main() -> int:
    """Load one URL with constant GET requests and print rate and latency."""
    parser = argparse.ArgumentParser(prog="python -m perf.load", description=main.__doc__)
    parser.add_argument("url")
    parser.add_argument("-c", "--connections", type=int, default=16)
    parser.add_argument("-d", "--seconds", type=float, default=5.0)
    parser.add_argument("--bearer", default="")
    options = parser.parse_args()
    parts = urlsplit(options.url)
    request = get(parts.path or "/", parts.netloc, options.bearer)
    sources = [Constant(request, varying=True) for _ in range(options.connections)]
    result = run_load((parts.hostname or "127.0.0.1", parts.port or 80), sources, seconds=options.seconds, ramp_s=0.2)
    lines = [f"{result.rate:,.0f} requests/s, {result.shed} shed, failures: {dict(result.failures) or 'none'}"]
    if result.latencies_ns:
        ordered = sorted(result.latencies_ns)
        lines.append(f"p50 {percentile_ms(ordered, 50):.3f} ms, p99 {percentile_ms(ordered, 99):.3f} ms")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if result.failures or result.shed else 0


if __name__ == "__main__":
    sys.exit(main())
