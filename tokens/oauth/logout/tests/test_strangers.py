"""Notices to applications of strangers: none fails that was not sent, and a thread that hangs is counted to its end."""

import asyncio
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_django import Settings

from ironauth.infrastructure.core import clock
from ironauth.infrastructure.db import outbox
from ironauth.infrastructure.db.unit_of_work import database
from tokens.clients.models import OAuthClient
from tokens.oauth.logout import delivery as logout_delivery
from tokens.oauth.logout import units
from tokens.oauth.logout.delivery import LogoutDelivery
from tokens.oauth.logout.tests.test_logout_delivery import Application, application, delivery, notice
from tokens.oauth.models import LogoutNotice

__all__ = ["application", "delivery"]  # fixtures

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.storage, pytest.mark.usefixtures("still_clock")]

LIMIT_S = 0.2
STRANGER = {"origin": OAuthClient.Origin.REGISTERED}
#: Later than any notice that was put back once more.
A_WHILE_S = units.FIRST_RETRY_S * (1 + outbox.JITTER)
PATIENCE_S = 10.0


@pytest.fixture(autouse=True)
def this_machine(settings: Settings) -> None:
    """Strangers may be told here, too: the application of the tests is on this machine."""
    settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS = ["127.0.0.0/8"]


class Resolver:
    """Name servers that do not answer for names of strangers, until they are let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hanging = 0
        self.may_answer = threading.Event()
        self._lock = threading.Lock()
        look_up = socket.getaddrinfo

        def slow(host: Any, *args: Any, **kwargs: Any) -> Any:
            if str(host).endswith(".stranger.example"):
                with self._lock:
                    self.hanging += 1
                try:
                    self.may_answer.wait(PATIENCE_S)
                finally:
                    with self._lock:
                        self.hanging -= 1
                raise socket.gaierror(socket.EAI_AGAIN, "no answer")
            return look_up(host, *args, **kwargs)

        monkeypatch.setattr(socket, "getaddrinfo", slow)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    """A resolver that hangs, with little time for each notice."""
    monkeypatch.setattr(logout_delivery, "LIMIT_S", LIMIT_S)
    found = Resolver(monkeypatch)
    yield found
    found.may_answer.set()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what other threads do."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def strangers(count: int) -> list[OAuthClient]:
    """Queue a notice to each of some strangers whose names nobody resolves."""
    return [
        (await notice(f"https://app{number}.stranger.example/out", name=f"Stranger {number}", **STRANGER))[0]
        for number in range(count)
    ]


async def test_a_burst_to_one_healthy_stranger(
    application: Application, delivery: LogoutDelivery, signing_key: str
) -> None:
    """All hundred arrive, each once; whatever had to wait for a place was neither failed nor made to wait longer."""
    row, _ = await notice(application.uri, **STRANGER)
    await LogoutNotice.objects.abulk_create(
        LogoutNotice(client=row, user_id=uuid.uuid4(), session_id=uuid.uuid4()) for _ in range(99)
    )
    rounds = 0
    while await LogoutNotice.objects.aexists():
        rounds += 1
        assert rounds <= 10
        with clock.shifted(rounds * A_WHILE_S):
            waiting = await LogoutNotice.objects.acount()
            assert await delivery.deliver_due() == waiting
            now = clock.now()
            async for left in LogoutNotice.objects.all():
                assert left.attempts == 0
                assert 0 < (left.due_at - now).total_seconds() <= A_WHILE_S
    assert len(application.received) == 100


async def test_a_name_that_hangs_keeps_its_place(
    application: Application, delivery: LogoutDelivery, signing_key: str, resolver: Resolver
) -> None:
    """Until its thread is free no further stranger is tried, and none fails; the house's notices go on meanwhile."""
    await strangers(6)
    assert await delivery.deliver_due() == 6
    most = logout_delivery.MOST_STRANGERS
    assert (delivery._strangers, delivery._stuck, resolver.hanging) == (0, most, most)
    assert await LogoutNotice.objects.filter(attempts=1).acount() == most
    assert await LogoutNotice.objects.filter(attempts=0).acount() == 6 - most
    for _ in range(3):
        await notice(application.uri, name="House")
    with clock.shifted(A_WHILE_S):
        assert await delivery.deliver_due() == 9
    assert (len(application.received), resolver.hanging) == (3, most)
    assert await LogoutNotice.objects.filter(attempts=0).acount() == 6 - most
    resolver.may_answer.set()
    await until(lambda: delivery._stuck == 0 and delivery._executor.running == 0)
    await LogoutNotice.objects.all().adelete()
    await notice(application.uri, name="Healthy", **STRANGER)
    assert await delivery.deliver_due() == 1
    assert len(application.received) == 4


async def test_an_answer_in_time_leaves_nothing_counted(
    application: Application, delivery: LogoutDelivery, signing_key: str, resolver: Resolver
) -> None:
    """Nor does a failure: places are counted down as often as up."""
    resolver.may_answer.set()
    await strangers(4)
    await notice(application.uri, name="Healthy", **STRANGER)
    for shift in range(5):
        with clock.shifted(shift * 2 * A_WHILE_S):
            await delivery.deliver_due()
        assert (delivery._strangers, delivery._stuck) == (0, 0)
    assert len(application.received) == 1


async def test_a_name_of_the_house_takes_no_place_of_strangers(
    application: Application, delivery: LogoutDelivery, signing_key: str, resolver: Resolver
) -> None:
    """One that hangs costs a thread, as ever, and strangers are told through the others."""
    await notice("https://house.stranger.example/out", name="House")
    await delivery.deliver_due()
    assert (delivery._stuck, resolver.hanging) == (0, 1)
    await notice(application.uri, **STRANGER)
    await delivery.deliver_due()
    assert len(application.received) == 1


async def test_a_server_that_stops_waits_for_no_name(signing_key: str, resolver: Resolver) -> None:
    """Names that hang are given up with the process: it ends in its time."""
    await strangers(4)
    found = LogoutDelivery()
    await found.start()
    await until(lambda: resolver.hanging == logout_delivery.MOST_STRANGERS)
    began = time.monotonic()
    await found.stop()
    assert time.monotonic() - began < logout_delivery.STOP_S
    assert resolver.hanging == logout_delivery.MOST_STRANGERS


async def test_one_that_lost_its_lease_is_not_put_back(signing_key: str) -> None:
    """Another worker has it then, and the number of its attempts is that worker's."""
    _, told = await notice("https://app.stranger.example/out", **STRANGER)
    first = await database().write(units.claim, told.pk)
    assert first is not None
    with clock.shifted(outbox.LEASE_S + 1):
        second = await database().write(units.claim, told.pk)
        assert second is not None
        await database().write(units.put_back, first)
        assert (await LogoutNotice.objects.aget()).attempts == 2
        await database().write(units.put_back, second)
        assert (await LogoutNotice.objects.aget()).attempts == 1
