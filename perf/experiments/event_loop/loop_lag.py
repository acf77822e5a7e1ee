"""What ``manage.py serve --loop-debug`` wrote into a log: slow callbacks, and the histogram of the loop's lag."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ironauth.server.instrumentation.lag_histogram import BEYOND, EDGES_MS


class _Line(msgspec.Struct):
    """The members of the two events that are read; other lines have none of them."""

    timestamp: datetime
    event: str
    seconds: float = 0.0
    buckets: dict[str, int] = {}
    max_ms: float = 0.0
    ms: float = 0.0
    at: list[str] | None = None


_decoder = msgspec.json.Decoder(_Line)


@dataclass
class LoopRecord:
    """What happened to an event loop: counts of lags by the upper end of their bucket (ms), and slow callbacks (ms).

    ``where`` counts the innermost calls that were under way while a callback was slow.
    """

    buckets: Counter[str] = field(default_factory=Counter)
    max_ms: float = 0.0
    slow_ms: list[float] = field(default_factory=list)
    where: Counter[str] = field(default_factory=Counter)

    def add(self, other: "LoopRecord") -> None:
        """Count what another window saw as well."""
        self.buckets.update(other.buckets)
        self.max_ms = max(self.max_ms, other.max_ms)
        self.slow_ms.extend(other.slow_ms)
        self.where.update(other.where)


def read(log: Path, begin: float, end: float) -> LoopRecord:
    """Read the reports of one window; ``begin`` and ``end`` are Unix times. Only intervals wholly inside count.

    Raises:
        ValueError: there is no whole interval: the window is too short, or the server does not watch its loop.
    """
    found, intervals = LoopRecord(), 0
    for raw in log.read_bytes().splitlines():
        if b'"loop_lag"' not in raw and b'"slow_callback"' not in raw:
            continue
        line = _decoder.decode(raw)
        at = line.timestamp.astimezone(UTC).timestamp()
        if line.event == "slow_callback" and begin <= at <= end:
            found.slow_ms.append(line.ms)
            found.where.update([line.at[0].rpartition(":")[0] if line.at else "not seen"])
        elif line.event == "loop_lag" and begin <= at - line.seconds and at <= end:
            intervals += 1
            found.buckets.update(line.buckets)
            found.max_ms = max(found.max_ms, line.max_ms)
    if not intervals:
        raise ValueError(f"{log.name} has no loop_lag of the window: measure longer, with --loop-debug")
    return found


def at_most_ms(buckets: Mapping[str, int], percent: float) -> float:
    """Return the upper end of the bucket in which the percentile lies, in milliseconds; infinite beyond the last.

    Raises:
        ValueError: nothing was counted.
    """
    total, seen = sum(buckets.values()), 0
    if not total:
        raise ValueError("a percentile needs at least one value")
    for name in sorted(buckets, key=float):
        seen += buckets[name]
        if seen >= total * percent / 100:
            return float(name)
    raise AssertionError  # the last bucket completes the total


def shares(buckets: Mapping[str, int]) -> list[float]:
    """Return the percentage of every bucket in the order of ``EDGES_MS``; what lies beyond counts in the last."""
    total = sum(buckets.values()) or 1
    counts = [buckets.get(f"{edge:g}", 0) for edge in EDGES_MS]
    counts[-1] += buckets.get(BEYOND, 0)
    return [100 * count / total for count in counts]
