"""How late the event loop was, counted in buckets that grow with what they hold."""

from bisect import bisect_left
from math import ceil

#: Upper ends of the buckets in ms, 0.1 to 10,000, ten for each power of ten (preferred numbers, ISO 3, R10).
EDGES_MS = (
    *(
        round(step * power, 4)
        for power in (0.1, 1, 10, 100, 1000)
        for step in (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8)
    ),
    10_000.0,
)
BEYOND = "inf"  # the bucket of what was later still


class LagHistogram:
    """Lags of one interval, in milliseconds; percentiles are exact (nearest rank), buckets are for adding up."""

    def __init__(self) -> None:
        self._values: list[float] = []

    def __len__(self) -> int:
        return len(self._values)

    def add(self, lag_ms: float) -> None:
        """Count one lag."""
        self._values.append(lag_ms)

    def report(self) -> dict[str, object]:
        """Return ``count``, ``p50_ms``, ``p99_ms``, ``max_ms`` and ``buckets``: counts by upper end, no empty ones."""
        if not self._values:
            return {"count": 0}
        ordered = sorted(self._values)
        buckets: dict[str, int] = {}
        for lag_ms in ordered:
            at = bisect_left(EDGES_MS, lag_ms)
            name = f"{EDGES_MS[at]:g}" if at < len(EDGES_MS) else BEYOND
            buckets[name] = buckets.get(name, 0) + 1
        return {
            "count": len(ordered),
            "p50_ms": round(_percentile(ordered, 50), 3),
            "p99_ms": round(_percentile(ordered, 99), 3),
            "max_ms": round(ordered[-1], 3),
            "buckets": buckets,
        }


def _percentile(ordered: list[float], percent: int) -> float:
    return ordered[ceil(len(ordered) * percent / 100) - 1]
