"""Nobody learns from the clock which addresses have accounts (security-bar row 8)."""

import math
import random
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import httpx
import pytest
from django.test import override_settings

from accounts.privacy import units as deletions
from accounts.users.models import User
from conftest import PASSWORD
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db.unit_of_work import database
from ironauth.infrastructure.models import ThrottleFailures

pytestmark = pytest.mark.django_db(transaction=True)

#: Requests of each kind, interleaved. Three samples must agree: chance alone tells a pair apart once in a million.
SAMPLES = 200
REPEATS = 3
SIGNIFICANCE = 0.01


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p of the Mann-Whitney U test by its normal approximation (no ties among clock readings)."""
    pooled = sorted([(value, 0) for value in first] + [(value, 1) for value in second])
    ranks = sum(rank for rank, (_, group) in enumerate(pooled, start=1) if group == 0)
    n, m = len(first), len(second)
    u = ranks - n * (n + 1) / 2
    z = (u - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
    return math.erfc(abs(z) / math.sqrt(2))


def fair_orders(names: Sequence[str], turns: int) -> Iterator[list[str]]:
    """Yield ``turns`` orders of ``names``, new ones each time, in which every name stands equally often everywhere.

    Each is followed by its rotations: whatever the first request of a turn pays for is paid by all names alike. An
    order that came back with the next sample would let the same chance speak twice.
    """
    order: list[str] = []
    for turn in range(turns):
        order = [*order[1:], order[0]] if turn % len(names) else random.sample(names, len(names))
        yield order


def test_the_rank_test_sees_a_difference() -> None:
    """Samples a tenth apart are told apart, equal ones are not, so that a pass below means something."""
    base = [100 + (i * 37 % 101) / 10 for i in range(SAMPLES)]
    assert rank_test(base, [value + 5 for value in base]) < SIGNIFICANCE
    assert rank_test(base, [value + 0.001 for value in base]) > SIGNIFICANCE


def test_orders_are_fair_and_new() -> None:
    """Each name is as often first, second and third, and no two samples ask in the same order."""
    one, other = (list(fair_orders("abc", 99)) for _ in range(2))
    assert set(Counter((place, name) for order in one for place, name in enumerate(order)).values()) == {33}
    assert one != other


@pytest.mark.live
@override_settings(
    IRONAUTH_THROTTLE=True,
    SECRET_KEY=secrets.token_urlsafe(48),  # other counts than any other test's, in Redis too
    IRONAUTH_THROTTLE_SIGNIN_FAILURES=1_000_000,
    IRONAUTH_EMAIL_VERIFICATION="required",
)
async def test_unknown_wrong_inactive_and_unproved_take_the_same_time_and_bytes(
    api: httpx.AsyncClient, signing_key: str
) -> None:
    """Interleaved sign-ins for an unknown, an active, an inactive and an unproved account are alike in bytes and time.

    The last one with the right password: a sign-up with an address that is free, and a sign-in, are told from nothing.

    With the suite's cheap hash, which hides nothing: a real one takes ten times what all the rest does.
    """
    bodies = {
        "unknown": {"email": "unknown@example.com", "password": "wrong horse battery 7"},
        "wrong": {"email": "active@example.com", "password": "wrong horse battery 7"},
        "inactive": {"email": "inactive@example.com", "password": PASSWORD},
        "deleted": {"email": "deleted@example.com", "password": PASSWORD},
        "unproved": {"email": "unproved@example.com", "password": PASSWORD},
    }

    def people() -> None:
        proved: dict[str, Any] = {"password": PASSWORD, "email_verified_at": clock.now()}
        User.objects.create_user(email="active@example.com", **proved)
        User.objects.create_user(email="inactive@example.com", is_active=False, **proved)
        User.objects.create_user(email="unproved@example.com", password=PASSWORD)
        leaving = User.objects.create_user(email="deleted@example.com", **proved)
        deletions.request(user_id=leaving.pk, old=leaving.password, session_id=None)

    def forgive() -> None:  # the eleventh failure in a row would have to wait
        ThrottleFailures.objects.all().delete()

    async def sample(size: int) -> dict[str, list[float]]:
        seen = set()
        times: dict[str, list[float]] = {name: [] for name in bodies}
        for order in fair_orders(list(bodies), size):
            await database().write(forgive)
            for name in order:
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

    await database().write(people)
    await sample(3)  # warm
    # Told apart counts only what every sample says of the very pair that the first told apart.
    suspects = set(combinations(sorted(bodies), 2))
    for _ in range(REPEATS):
        times = await sample(SAMPLES)
        suspects = {pair for pair in suspects if rank_test(times[pair[0]], times[pair[1]]) < SIGNIFICANCE}
        if not suspects:
            break
    assert not suspects
