"""The simulation of tokens that keep their worker."""

import random
import time

import pytest

from ironauth.infrastructure.cache.memory import L1, Freshness, L1Entry
from perf.experiments.routing import POINTS, TOKENS_A_MIB, Ring, chance, served, shares, sized_value, sockets


def test_the_ring_is_that_of_nginx() -> None:
    """A worker that goes leaves its tokens to others, whose own stay; and each has its points."""
    all_of_them, without = Ring(sockets(4)), Ring(sockets(3))
    keys = [b"token %d" % number for number in range(2_000)]
    homes = [all_of_them.worker_of(key) for key in keys]
    after = [without.worker_of(key) for key in keys]
    assert set(homes) == {0, 1, 2, 3}
    assert all(new == old for old, new in zip(homes, after, strict=True) if old != 3)
    assert {new for old, new in zip(homes, after, strict=True) if old == 3} == {0, 1, 2}
    assert len(all_of_them._hashes) == 4 * POINTS


def test_every_token_has_a_worker() -> None:
    """No worker has twice its share."""
    counts = shares(10_000, 16, random.Random(1))
    assert sum(counts.values()) == 10_000
    assert len(counts) == 16
    assert max(counts.values()) < 2 * 10_000 / 16


@pytest.mark.parametrize(("mib", "low", "high"), [(1, 0.15, 0.45), (4, 0.93, 0.97)])
def test_what_does_not_fit_is_not_known(mib: int, low: float, high: float) -> None:
    """Of 1,000 tokens with twenty uses 19 in 20 are known where they fit, and about a third where a third does."""
    draw = random.Random(2)
    seen = served(1_000, mib=mib, requests=20_000, is_new=chance(1 / 20, draw), draw=draw)
    assert low < seen.share < high


def test_an_entry_takes_what_a_token_does() -> None:
    """As many fit into a MiB as the help of IRONAUTH_L1_MIB says, give or take three in a hundred."""
    store = L1(Freshness(), max_bytes=2**20, max_stale_s=60)
    value = sized_value()
    for number in range(100_000, 101_000):
        entry = L1Entry(value, time.monotonic(), 0, (f"s{number}", f"u{number}"), time.time() + 60)
        store.put(str(number), entry, sequence=0)
    assert abs(len(store) - TOKENS_A_MIB) <= 10
