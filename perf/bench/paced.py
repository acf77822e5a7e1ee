"""The benchmark's second mode: requests at a fixed rate, latencies from the moment each was due."""

from collections.abc import Sequence

import msgspec

from perf.load.open_loop import FixedRateResult
from perf.summary import percentile_ms, spread

LAG_MS = 1.0  # a generator whose p99 lag is above measures itself


class PacedRound(msgspec.Struct, frozen=True):
    """One round of one workload at a fixed rate (per second); times in ms from the intended send time.

    ``lag_p99_ms``: how late the generator itself was; ``completed`` were accepted inside the window.
    """

    rate: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    lag_p99_ms: float
    completed: int
    failed: int
    shed: int
    failures: dict[str, int] = {}


def paced_round(result: FixedRateResult) -> PacedRound:
    """Turn what the open loop saw into a round; without answers its times are 0, and that is a failure."""
    ordered, lags = sorted(result.latencies), sorted(result.lags)
    failed = result.failures.total()
    p50, p99, p999 = (percentile_ms(ordered, percent) if ordered else 0.0 for percent in (50, 99, 99.9))
    return PacedRound(
        rate=result.rate,
        p50_ms=p50,
        p99_ms=p99,
        p999_ms=p999,
        max_ms=percentile_ms(ordered, 100) if ordered else 0.0,
        lag_p99_ms=percentile_ms(lags, 99) if lags else 0.0,
        completed=len(ordered),
        failed=failed if ordered else failed or 1,
        shed=len(result.shed),
        failures=dict(result.failures),
    )


def table(rounds: dict[str, list[PacedRound]], titles: dict[str, str]) -> list[str]:
    """Return the rounds as Markdown lines: medians over the rounds, the worst of all."""
    lines = [
        "| at a fixed rate | requests/s | p50 ms | p99 ms | p99.9 ms | worst ms | generator's lag p99 | failed | 503 |",
        f"|{'---|' * 9}",
    ]
    for name, each in rounds.items():
        late = " LATE" if _median(each, "lag_p99_ms") > LAG_MS else ""
        lines.append(
            f"| {titles.get(name, name)} | {each[0].rate:,g} | {_median(each, 'p50_ms'):.2f} "
            f"| {_median(each, 'p99_ms'):.2f} | {_median(each, 'p999_ms'):.2f} | {max(one.max_ms for one in each):.2f} "
            f"| {_median(each, 'lag_p99_ms'):.2f}{late} | {sum(one.failed for one in each)} "
            f"| {sum(one.shed for one in each)} |"
        )
    return lines


def _median(rounds: Sequence[PacedRound], figure: str) -> float:
    return spread([getattr(each, figure) for each in rounds]).median
