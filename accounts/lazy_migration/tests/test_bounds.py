"""Where a password may go, and what a system that is slow, down or hostile costs."""

import asyncio
import json
import threading
import time
from collections.abc import Callable

import pytest
from pytest_django import Settings
from structlog.testing import capture_logs

from accounts.lazy_migration import asking
from accounts.lazy_migration.asking import NotAskedError
from accounts.lazy_migration.conversation import LONGEST
from accounts.lazy_migration.tests.old_system import EMAIL, PASSWORD, OldSystem, Said, endpoint, person
from accounts.transfer.records import Person
from ironauth.infrastructure.threads.circuit_breaker import Breaker


async def ask(limit_s: float = 10.0) -> Person | None:
    """Ask for the person."""
    return await asking.ask(email=EMAIL, password=PASSWORD, until=time.monotonic() + limit_s)


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is true, at most 10 s."""
    for _ in range(1_000):
        if true():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it did not come true")


async def test_no_redirect_is_followed(old_system: OldSystem, breaker: Breaker) -> None:
    """A password goes to the configured host and to no other, whatever that says."""
    with OldSystem(endpoint()) as other:
        old_system.answers = lambda _: Said(307, {}, {"Location": f"{other.url}/check"})
        with pytest.raises(NotAskedError):
            await ask()
        assert other.requests == []
    assert breaker.failures == 1


async def test_it_goes_to_public_addresses_only(old_system: OldSystem, settings: Settings, breaker: Breaker) -> None:
    """An address on this machine is called only where the operator has named its network."""
    settings.IRONAUTH_LAZY_MIGRATION_NETWORKS = ["10.0.0.0/8"]
    with pytest.raises(NotAskedError):
        await ask()
    assert old_system.requests == []
    assert breaker.failures == 1


@pytest.mark.parametrize(("length", "fits"), [(LONGEST, True), (LONGEST + 1, False)])
async def test_an_answer_has_a_longest_length(length: int, fits: bool, old_system: OldSystem) -> None:
    """A byte more is no answer."""
    room = length - len(json.dumps(person(more="")))
    old_system.answers = lambda _: Said(200, person(more="x" * room))
    if fits:
        assert await ask() is not None
        return
    with pytest.raises(NotAskedError):
        await ask()


async def test_who_waits_for_a_slow_system_gives_up(old_system: OldSystem, breaker: Breaker) -> None:
    """At the deadline the conversation is cut, and its thread is free again."""
    release = threading.Event()

    def slow(_: object) -> Said:
        release.wait(10)
        return Said(200, person())

    old_system.answers = slow
    try:
        with pytest.raises(NotAskedError):
            await ask(0.2)
        assert breaker.failures == 1
        await until(lambda: not asking._executor.running)  # nobody has released it
    finally:
        release.set()


async def test_without_time_nobody_is_asked(old_system: OldSystem, breaker: Breaker) -> None:
    """Where the hash has taken all of it; that is no fault of the system's."""
    with pytest.raises(NotAskedError):
        await ask(0.0)
    assert (old_system.requests, breaker.failures) == ([], 0)


async def test_a_failing_system_is_left_alone(old_system: OldSystem, breaker: Breaker) -> None:
    """After a failure nobody is asked for, until a pause is over and one tries again; then everybody is."""

    async def tried() -> bool:
        try:
            return await ask() is not None
        except NotAskedError:
            return False

    old_system.answers = lambda _: Said(500, {})
    assert not await tried()
    old_system.answers = endpoint()
    breaker._again_at = time.monotonic() + 3_600  # the pause, as long as this test takes
    assert not await tried()
    assert len(old_system.requests) == 1
    breaker._again_at = 0.0
    assert await tried()
    assert await tried()
    assert len(old_system.requests) == 3


async def test_only_so_many_wait(old_system: OldSystem, monkeypatch: pytest.MonkeyPatch, breaker: Breaker) -> None:
    """Threads are busy and places taken: one more is not asked for, nor who waits too long; the system has no fault."""
    release, busy = threading.Event(), threading.Semaphore(0)

    def slow(_: object) -> Said:
        busy.release()
        release.wait(10)
        return Said(200, person())

    old_system.answers = slow
    try:
        running = [asyncio.ensure_future(ask()) for _ in range(asking.THREADS)]
        for _ in running:
            assert await asyncio.to_thread(busy.acquire, timeout=10)
        monkeypatch.setattr(asking, "MOST_WAITING", 1)
        waiting = asyncio.ensure_future(ask())
        await until(lambda: asking._executor.queued == 1)
        with pytest.raises(NotAskedError):
            await ask()
        monkeypatch.setattr(asking, "MOST_WAITING", 2)
        with pytest.raises(NotAskedError):
            await ask(0.05)
        assert breaker.failures == 0
    finally:
        release.set()
    assert all([await one for one in (*running, waiting)])


@pytest.mark.parametrize("said", [Said(500, {"you sent": PASSWORD}), Said(400, {"you sent": PASSWORD})])
async def test_nothing_of_the_answer_is_logged(said: Said, old_system: OldSystem) -> None:
    """A system may repeat what it was asked."""
    old_system.answers = lambda _: said
    with capture_logs() as lines, pytest.raises(NotAskedError):
        await ask()
    assert lines
    assert PASSWORD not in str(lines)
    assert EMAIL not in str(lines)
