"""An ordinary client, in a process of its own: the same request at a fixed rate while others misbehave."""

from typing import NamedTuple

from perf.load.fixed_rate import run_fixed
from perf.load.sources import Constant, get
from perf.summary import percentile_ms

RATE, CONNECTIONS = 20.0, 4
ME = "/api/v1/access/me"


class Witnessed(NamedTuple):
    """What it saw; times in ms from the moment each request was due."""

    answers: int
    p50_ms: float
    p99_ms: float
    failures: dict[str, int]
    shed: int


def testify(address: tuple[str, int], host: str, token: str, seconds: float) -> Witnessed:
    """Ask for ``/me`` as somebody signed in for ``seconds``, at `RATE` requests per second."""
    sources = [Constant(get(ME, host, token)) for _ in range(CONNECTIONS)]
    seen = run_fixed(address, sources, rate=RATE, seconds=seconds)
    ordered = sorted(seen.latencies)
    p50_ms, p99_ms = (percentile_ms(ordered, percent) if ordered else 0.0 for percent in (50, 99))
    return Witnessed(len(ordered), p50_ms, p99_ms, dict(seen.failures), len(seen.shed))
