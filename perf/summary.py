"""The statistics of the benchmark: percentiles of one round, median and spread over rounds."""

import math
import statistics
from collections.abc import Sequence

import msgspec

from perf.rig.sampling import Sample

_NS_PER_MS = 1_000_000


class Round(msgspec.Struct, frozen=True):
    """One measured round of one workload. Rates per second, times in ms unless named otherwise.

    ``server_cpu_us`` is the server's CPU time per accepted answer; ``server_cores``, ``client_cores``,
    ``beside_cores`` and ``other_cores`` say how many cores the server, the load generator, what else the run started
    (databases, Redis) and everything foreign to it kept busy; ``samples`` what the machine did beside it.
    """

    rate: float
    p50_ms: float
    p99_ms: float
    completed: int
    failed: int
    shed: int
    server_cpu_us: float = 0.0
    server_cores: float = 0.0
    client_cores: float = 0.0
    beside_cores: float = 0.0
    other_cores: float = 0.0
    failures: dict[str, int] = {}
    samples: list[Sample] = []


class Spread(msgspec.Struct, frozen=True):
    """A figure over the rounds: the median and the lowest and highest round."""

    median: float
    low: float
    high: float


def percentile_ms(ordered_ns: Sequence[int], percent: float) -> float:
    """Return the nearest-rank percentile of ascending nanoseconds, in milliseconds.

    Nearest rank (the smallest value that at least ``percent`` % of the values do not exceed) never invents a
    latency nobody saw.

    Raises:
        ValueError: no values, or a percentage outside (0, 100].
    """
    if not ordered_ns or not 0 < percent <= 100:
        raise ValueError("a percentile needs at least one value and a percentage in (0, 100]")
    return ordered_ns[math.ceil(len(ordered_ns) * percent / 100) - 1] / _NS_PER_MS


def spread(values: Sequence[float]) -> Spread:
    """Summarise one figure of each round.

    Raises:
        ValueError: no values.
    """
    if not values:
        raise ValueError("a spread needs at least one round")
    return Spread(statistics.median(values), min(values), max(values))


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> Spread | None:
    """Divide round by round, so that a slow minute of the machine hits both sides; None without a denominator.

    Raises:
        ValueError: the two were not measured in the same number of rounds.
    """
    if not denominators or not all(denominators):
        return None
    return spread([above / below for above, below in zip(numerators, denominators, strict=True)])
