"""An old system that can be asked, and nobody waits for refusals."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from pytest_django import Settings

from accounts.lazy_migration import asking
from accounts.lazy_migration.tests.old_system import OldSystem, endpoint
from accounts.users import services
from ironauth.infrastructure.core import clock
from ironauth.infrastructure.threads.circuit_breaker import Breaker


@pytest.fixture(autouse=True)
def breaker(monkeypatch: pytest.MonkeyPatch) -> Breaker:
    """A breaker that has seen nothing."""
    fresh = Breaker("old_system")
    monkeypatch.setattr(asking, "_breaker", fresh)
    return fresh


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The steps, in seconds, that refused sign-ins wait for, instead of the wait."""
    found: list[float] = []

    async def noted(_began_ns: int, step_s: float) -> None:
        found.append(step_s)

    monkeypatch.setattr(services, "wait_for_step", noted)
    return found


@pytest.fixture
def old_system(settings: Settings, steps: list[float]) -> Iterator[OldSystem]:
    """An endpoint with one person, which is asked until tomorrow."""
    with OldSystem(endpoint()) as there:
        settings.IRONAUTH_LAZY_MIGRATION = "endpoint"
        settings.IRONAUTH_LAZY_MIGRATION_URL = f"{there.url}/check"
        settings.IRONAUTH_LAZY_MIGRATION_UNTIL = clock.now() + timedelta(days=1)
        settings.IRONAUTH_LAZY_MIGRATION_TIMEOUT_S = 10.0  # nothing here is about time unless a test says it
        settings.IRONAUTH_LAZY_MIGRATION_NETWORKS = ["127.0.0.0/8"]
        yield there
