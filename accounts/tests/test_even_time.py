"""Answers at even times."""

import asyncio
import time
from functools import partial

import pytest

from accounts import services
from accounts.errors import InvalidCredentials
from accounts.even_time import REFUSAL_STEP_S, STEP_S, answered_evenly
from accounts.models import User
from conftest import PASSWORD
from ironauth.infrastructure.database import database


@pytest.mark.parametrize(("work_s", "steps"), [(0, 1), (0.5, 1), (1.2, 2), (2.5, 3)])
async def test_a_block_ends_with_the_next_step(work_s: float, steps: int) -> None:
    """Whatever takes less than a step takes a step, and so on."""
    began = time.perf_counter()
    async with answered_evenly():
        await asyncio.sleep(work_s * STEP_S)
    assert steps * STEP_S <= time.perf_counter() - began + 0.002 < (steps + 0.9) * STEP_S


async def test_an_error_is_not_held_back() -> None:
    """A database that cannot be reached is reported at once."""
    began = time.perf_counter()
    with pytest.raises(ZeroDivisionError):
        async with answered_evenly():
            _ = 1 / 0
    assert time.perf_counter() - began < STEP_S / 2


@pytest.mark.django_db(transaction=True)
async def test_a_refused_sign_in_ends_with_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is refused waits, address known or not; a right password is not kept waiting."""
    waits: list[float] = []

    async def noted(began: float, step_s: float) -> None:
        assert 0 <= asyncio.get_running_loop().time() - began < 10
        waits.append(step_s)

    await database().write(partial(User.objects.create_user, email="known@example.com", password=PASSWORD))
    monkeypatch.setattr(services, "wait_for_step", noted)
    await services.authenticate(email="known@example.com", password=PASSWORD)
    assert not waits
    for email in ("known@example.com", "unknown@example.com"):
        with pytest.raises(InvalidCredentials):
            await services.authenticate(email=email, password="wrong horse battery 7")
    assert waits == [REFUSAL_STEP_S, REFUSAL_STEP_S]
