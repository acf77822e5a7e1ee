"""Nobody learns from the clock which addresses have accounts, whatever they ask to be mailed (security-bar row 8)."""

import asyncio
import random
import secrets
import time

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.test import override_settings

from accounts.conftest import PASSWORD, MakeUser
from ironauth.tests.test_sign_in_timing import REPEATS, SAMPLES, SIGNIFICANCE, fair_orders, rank_test

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.live]

#: Seconds between two requests, at most: an answer takes 0.1 s, of which a request works some 2 ms and sleeps the rest.
#: At random, so that no request wakes up at the very moment another begins, turn after turn.
APART_S = 0.02


@pytest.mark.parametrize("path", ["password/reset", "email/verify/resend", "signup", "signin/email"])
@override_settings(
    IRONAUTH_EMAIL_VERIFICATION="required",
    IRONAUTH_SIGN_IN_BY_EMAIL=True,
    IRONAUTH_THROTTLE=True,
    SECRET_KEY=secrets.token_urlsafe(48),  # other counts than any other test's, in Redis too
    IRONAUTH_THROTTLE_SIGNUPS=1_000_000,
    IRONAUTH_THROTTLE_MAILS=1_000_000,
    IRONAUTH_THROTTLE_MAILS_TO_ONE=1_000_000,
)
async def test_a_known_address_takes_as_long_as_an_unknown_one(
    path: str, api: httpx.AsyncClient, make_user: MakeUser
) -> None:
    """Interleaved requests for both are alike by a rank test; what one sample says, others must say too."""
    await sync_to_async(make_user)(email="known-person@example.com")

    times: dict[str, list[float]] = {}

    async def ask(name: str) -> None:
        email = "known-person@example.com" if name == "known" else f"{secrets.token_hex(6)}@example.com"
        body = {"email": email} | ({"password": PASSWORD} if path == "signup" else {})
        began = time.perf_counter()
        answer = await api.post(f"/api/v1/access/{path}", json=body)
        times[name].append(time.perf_counter() - began)
        assert answer.status_code == (200 if path == "signin/email" else 202)
        assert path == "signin/email" or not answer.content

    async def sample(size: int) -> float:
        times.update(known=[], other=[])
        async with asyncio.TaskGroup() as asked:
            for order in fair_orders(["known", "other"], size):
                for name in order:
                    asked.create_task(ask(name))
                    await asyncio.sleep(random.uniform(0, APART_S))
        return rank_test(times["known"], times["other"])

    await sample(3)  # warm
    ps = []
    for _ in range(REPEATS):
        ps.append(await sample(SAMPLES))
        if ps[-1] > SIGNIFICANCE:
            break
    assert max(ps) > SIGNIFICANCE, ps
