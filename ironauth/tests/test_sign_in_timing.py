"""Nobody learns from the clock which addresses have accounts (security-bar row 8)."""

import math
import time
from collections.abc import Sequence

import httpx
import pytest
from django.test import override_settings

from accounts.models import User
from conftest import PASSWORD
from ironauth.infrastructure.database import database

pytestmark = pytest.mark.django_db(transaction=True)

#: Requests of each kind, interleaved. The chance of a false alarm is 0.01 squared: two samples must agree.
SAMPLES = 60
SIGNIFICANCE = 0.01


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p of the Mann-Whitney U test by its normal approximation (no ties among clock readings)."""
    pooled = sorted([(value, 0) for value in first] + [(value, 1) for value in second])
    ranks = sum(rank for rank, (_, group) in enumerate(pooled, start=1) if group == 0)
    n, m = len(first), len(second)
    u = ranks - n * (n + 1) / 2
    z = (u - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
    return math.erfc(abs(z) / math.sqrt(2))


def test_the_rank_test_sees_a_difference() -> None:
    """Samples a tenth apart are told apart, equal ones are not, so that a pass below means something."""
    base = [100 + (i * 37 % 101) / 10 for i in range(SAMPLES)]
    assert rank_test(base, [value + 5 for value in base]) < SIGNIFICANCE
    assert rank_test(base, [value + 0.001 for value in base]) > SIGNIFICANCE


@override_settings(IRONAUTH_ARGON2_TIME_COST=2, IRONAUTH_ARGON2_MEMORY_KIB=19_456)
async def test_unknown_wrong_and_inactive_take_the_same_time_and_bytes(
    api: httpx.AsyncClient, signing_key: str
) -> None:
    """Interleaved sign-ins for an unknown, an active and an inactive account are alike in bytes and in time."""

    def people() -> None:
        User.objects.create_user(email="active@example.com", password=PASSWORD)
        User.objects.create_user(email="inactive@example.com", password=PASSWORD, is_active=False)

    await database().write(people)
    bodies = {
        "unknown": {"email": "unknown@example.com", "password": "wrong horse battery 7"},
        "wrong": {"email": "active@example.com", "password": "wrong horse battery 7"},
        "inactive": {"email": "inactive@example.com", "password": PASSWORD},
    }

    async def sample() -> dict[str, list[float]]:
        seen = set()
        times: dict[str, list[float]] = {name: [] for name in bodies}
        for turn in range(SAMPLES):
            for name in sorted(bodies, key=lambda name: hash((turn, name))):
                began = time.perf_counter()
                answer = await api.post("/api/v1/access/signin", json=bodies[name])
                times[name].append(time.perf_counter() - began)
                assert answer.status_code == 401
                answer.headers.pop("x-request-id")
                problem = answer.json()
                problem.pop("request_id")
                seen.add((tuple(sorted(answer.headers.items())), tuple(sorted(problem.items()))))
        assert len(seen) == 1
        return times

    await sample()  # warm
    for first, second in (("unknown", "wrong"), ("unknown", "inactive"), ("wrong", "inactive")):
        ps = []
        for _ in range(2):
            times = await sample()
            ps.append(rank_test(times[first], times[second]))
            if ps[-1] > SIGNIFICANCE:
                break
        assert max(ps) > SIGNIFICANCE, (first, second, ps)
