"""Whether something grows: the Theil-Sen slope of what was sampled after the warm-up, extrapolated to an hour.

The slope is the median of the slopes between every two samples (Sen 1968): a garbage collection, a checkpoint or a
noisy minute of the machine moves a least-squares line, and hardly this one.
"""

import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import combinations
from typing import Final

import msgspec

from perf.findings import Check, at_most
from perf.plots import Points
from perf.soak_sampling import Sample
from perf.summary import percentile_ms

#: Of the run: imports, caches, pools and the C allocator's arenas reach their size, and the users come, in this time.
WARM_UP_SHARE: Final = 0.2
HOUR_S: Final = 3_600.0
MIB: Final = 2**20
_NS_PER_MS: Final = 1_000_000
#: p50 at the end against the beginning; the machine's own minutes differ by a fifth.
SLOWER: Final = 1.5


class Minute(msgspec.Struct, frozen=True):
    """What the server's access log says about one minute; times in ms."""

    number: int
    answers: int
    p50_ms: float
    p99_ms: float
    unavailable: int


class Growing(msgspec.Struct, frozen=True):
    """Something that must not grow by more than ``per_hour``, and where a sample has it (None: nowhere)."""

    what: str
    per_hour: float
    of: Callable[[Sample], float | None]
    unit: str = ""


#: 16 MiB an hour are 2 MiB in the eight minutes that are judged: what the allocator moves by itself there and back.
WATCHED: Final = (
    Growing("memory (RSS) of the worker that grew most", 16.0, lambda _: None, " MiB"),
    Growing("open files of all workers", 6.0, lambda one: sum(each.files for each in one.workers.values())),
    Growing("threads of all workers", 6.0, lambda one: sum(each.threads for each in one.workers.values())),
    Growing("size of SQLite's -wal", 8.0, lambda one: _mib(one.wal_bytes), " MiB"),
    Growing("connections to Postgres", 6.0, lambda one: one.backends),
    Growing("entries in L1", 600.0, lambda one: one.l1_entries),
)


def slope(points: Points) -> float:
    """Return the Theil-Sen slope of (x, y) points; 0 for fewer than two different x."""
    slopes = [(after[1] - before[1]) / (after[0] - before[0]) for before, after in combinations(points, 2)
              if after[0] != before[0]]  # fmt: skip
    return statistics.median(slopes) if slopes else 0.0


def after_warm_up(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples that are judged."""
    if not samples:
        return []
    first, last = samples[0].at_s, samples[-1].at_s
    return [sample for sample in samples if sample.at_s >= first + WARM_UP_SHARE * (last - first)]


def checks(samples: Sequence[Sample], minutes: Sequence[Minute]) -> list[Check]:
    """Hold the growth of everything that was sampled against its limit, and the last minutes against the first."""
    judged = after_warm_up(samples)
    found = []
    for growing in WATCHED:
        lines = _memory(judged) if growing is WATCHED[0] else [_series(judged, growing.of)]
        hourly = [HOUR_S * slope(line) for line in lines if line]
        if hourly:
            what = f"growth in an hour: {growing.what}"
            found.append(at_most(what, growing.per_hour, max(hourly), growing.unit))
    born = {pid for sample in samples for pid in sample.workers}
    first = set(samples[0].workers) if samples else set()
    found.append(at_most("workers that died", 0, len(born - first)))
    if ratio := slowed(minutes):
        found.append(at_most("p50 of the last third against the first after warm-up", SLOWER, ratio))
    return found


def slowed(minutes: Sequence[Minute]) -> float | None:
    """Return how many times the p50 of the first third of the judged minutes the last third's is; None if too few."""
    judged = minutes[round(WARM_UP_SHARE * len(minutes)) :]
    third = len(judged) // 3
    if not third:
        return None
    before = statistics.median(minute.p50_ms for minute in judged[:third])
    after = statistics.median(minute.p50_ms for minute in judged[-third:])
    return after / before if before else None


def by_minute(log: Iterable[bytes], *, began: float) -> list[Minute]:
    """Read an access log line by line; ``began``: unix seconds of minute 0. The last, incomplete minute is left out.

    Answers that hash a password are in it: they are few, and only the p99 knows them.
    """
    times: dict[int, list[int]] = defaultdict(list)
    unavailable: dict[int, int] = defaultdict(int)
    for line in log:
        if b'"event":"request"' not in line:
            continue
        event = json.loads(line)
        number = int((datetime.fromisoformat(event["timestamp"]).timestamp() - began) // 60)
        times[number].append(round(event["duration_ms"] * _NS_PER_MS))
        unavailable[number] += event["status"] == 503
    return [
        Minute(number, len(each), percentile_ms(sorted(each), 50), percentile_ms(sorted(each), 99), unavailable[number])
        for number, each in sorted(times.items())[:-1]
        if number >= 0
    ]


def memory_lines(samples: Sequence[Sample]) -> dict[str, Points]:
    """Return the memory of each worker in MiB by minutes, for a plot."""
    pids = sorted({pid for sample in samples for pid in sample.workers})
    return {
        f"worker {number}": [
            (sample.at_s / 60, sample.workers[pid].rss_bytes / MIB) for sample in samples if pid in sample.workers
        ]
        for number, pid in enumerate(pids, start=1)
    }


def _memory(samples: Sequence[Sample]) -> list[Points]:
    return [[(60 * at, mib) for at, mib in line] for line in memory_lines(samples).values()]


def _series(samples: Sequence[Sample], of: Callable[[Sample], float | None]) -> Points:
    return [(sample.at_s, value) for sample in samples if (value := of(sample)) is not None]


def _mib(size: int | None) -> float | None:
    return None if size is None else size / MIB
