"""How many hashes may wait while other programs take the processor now and then: on a clock of the test's own."""

import random
from collections import deque
from heapq import heappop, heappush

import pytest

from ironauth.infrastructure.hashing.local_pool import HashPool

LIMIT_S = 4.0
HASH_S = 0.08
ARRIVALS = 60.0  # a second, two to five times what is hashed


class Flood:
    """Sign-ins that come faster than two threads hash, at a pool's own rule of admission."""

    def __init__(self, pool: HashPool, slower: tuple[float, ...], seed: int) -> None:
        """Every 0.5 to 3 seconds the machine is as many times slower as one of ``slower``."""
        self.pool, self.slower, self.random = pool, slower, random.Random(seed)
        self.late = self.refused = self.hashed = 0
        self.longest_s = 0.0

    def run(self, seconds: float) -> None:
        """Let them come."""
        now, slow, slow_until, waiting = 0.0, 1.0, 0.0, deque[float]()
        ends: list[tuple[float, float]] = []
        due = self.random.expovariate(ARRIVALS)
        while now < seconds:
            if ends and ends[0][0] < due:
                now, took = heappop(ends)
                self.pool._learn(took)
                self.hashed += 1
            else:
                now = due
                due += self.random.expovariate(ARRIVALS)
                self.pool._running = len(ends)
                if len(waiting) < self.pool._room():
                    waiting.append(now)
                else:
                    self.refused += 1
            while slow_until < now:
                slow, slow_until = self.random.choice(self.slower), slow_until + self.random.uniform(0.5, 3)
            while waiting and len(ends) < self.pool.threads:
                waited = now - waiting.popleft()
                if waited > LIMIT_S:
                    self.late += 1
                    continue
                self.longest_s = max(self.longest_s, waited)
                took = HASH_S * slow * self.random.lognormvariate(0, 0.1)
                heappush(ends, (now + took, took))


def flood(*slower: float) -> Flood:
    """Return what became of five minutes of it."""
    pool = HashPool(2, LIMIT_S)
    pool._learn(HASH_S)
    come = Flood(pool, slower, seed=len(slower))
    come.run(300)
    return come


@pytest.mark.parametrize("slower", [(1.0,), (1.0, 1.3, 1.6), (1.0, 1.5, 2.0, 2.5), (1.0, 2.0, 4.0)])
def test_refusals_come_at_once_beside_others(slower: tuple[float, ...]) -> None:
    """Of a hundred refusals not one is of somebody who was let in, and waited to the limit in vain."""
    seen = flood(*slower)
    assert seen.refused > seen.hashed
    assert seen.late <= 0.01 * (seen.late + seen.refused)


def test_without_the_deviation_many_would_wait_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short mean alone is what this is better than; and no hash is lost to the caution."""
    careful = flood(1.0, 1.5, 2.0, 2.5)
    monkeypatch.setattr(HashPool, "_cautious_s", lambda pool: pool._mean_s)
    careless = flood(1.0, 1.5, 2.0, 2.5)
    assert careless.late > 0.03 * (careless.late + careless.refused)
    assert careful.hashed > 0.97 * careless.hashed


def test_on_a_machine_of_its_own_little_is_given_up() -> None:
    """Runs that are alike let nearly as many wait as the safety factor allows."""
    assert flood(1.0).longest_s > 0.7 * LIMIT_S


def test_what_a_hash_is_taken_to_last() -> None:
    """The larger of both means, and twice what runs deviate by."""
    pool = HashPool(1, LIMIT_S)
    for took_s in (0.1, 0.1, 0.1):
        pool._learn(took_s)
    assert pool._cautious_s() == pytest.approx(0.1)
    pool._learn(0.2)  # the fourth: a quarter of its deviation counts in the long run, a fifth in the short
    assert pool._cautious_s() == pytest.approx(0.125 + 2 * 0.025)
    assert pool.stats().mean_hash_s == pytest.approx(0.12)


def test_one_run_that_met_a_suspended_machine_is_soon_forgotten() -> None:
    """A minute counts as five times the mean in the long run; twenty runs later a second of hashes may wait again."""
    pool = HashPool(2, LIMIT_S)
    for took_s in [0.1] * 60 + [60.0] + [0.1] * 40:
        pool._learn(took_s)
    assert pool._cautious_s() < 0.16
    assert pool._room() >= 2 * LIMIT_S / (0.16 * 1.25)
