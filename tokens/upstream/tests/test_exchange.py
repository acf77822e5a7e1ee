"""Asking providers: one that is slow keeps nobody else waiting."""

import asyncio

import pytest
from pytest_django import Settings

from ironauth.infrastructure.outbound.kept_connections import KeptConnections
from tokens.upstream import exchange
from tokens.upstream.tests.provider import FakeProvider, served


async def test_a_slow_provider_keeps_no_other_waiting(settings: Settings) -> None:
    """Twice as many requests to it as there are threads, and another provider's answer still comes first."""
    settings.DEBUG = True  # http on this machine
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    with served(FakeProvider) as slow, served(FakeProvider) as quick:
        slow.delay_s = 0.5
        many = [asyncio.create_task(exchange.get(f"{slow.issuer}/jwks")) for _ in range(2 * exchange.THREADS)]
        await asyncio.sleep(0.1)
        other = asyncio.create_task(exchange.get(f"{quick.issuer}/jwks"))
        done, _ = await asyncio.wait([*many, other], return_when=asyncio.FIRST_COMPLETED)
        assert done == {other}
        assert len(slow.asked) == exchange.AT_ONCE
        for task in many:
            task.cancel()
        await asyncio.gather(*many, return_exceptions=True)


async def test_requests_to_one_provider_take_turns(settings: Settings) -> None:
    """More at once than it may have: each has its answer, and its queue is dropped with the last."""
    settings.DEBUG = True
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    with served(FakeProvider) as provider:
        answers = await asyncio.gather(*(exchange.get(f"{provider.issuer}/jwks") for _ in range(3 * exchange.AT_ONCE)))
    assert all(answer["keys"] for answer in answers)
    assert not exchange._queues


@pytest.mark.parametrize(("protocol", "connections"), [("HTTP/1.1", 1), ("HTTP/1.0", 3)])
async def test_a_connection_serves_several_requests(settings: Settings, protocol: str, connections: int) -> None:
    """A provider that leaves its connection open is asked again on it; one that does not, on another one."""
    settings.DEBUG = True
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    with served(FakeProvider, protocol) as provider:
        try:
            for _ in range(3):
                await exchange.get(f"{provider.issuer}/jwks")
        finally:
            exchange.KEPT.clear()
        assert (len(provider.asked), provider.connections) == (3, connections)


@pytest.mark.parametrize(("once", "connections"), [(False, 1), (True, 3)])
async def test_what_may_not_be_sent_twice(settings: Settings, once: bool, connections: int) -> None:
    """It takes no connection that others have used, and leaves none."""
    settings.DEBUG = True
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    with served(FakeProvider, "HTTP/1.1") as provider:
        form = {"grant_type": "refresh_token", "refresh_token": "rt"}
        try:
            await exchange.get(f"{provider.issuer}/jwks")
            for _ in range(2):
                await exchange.post(f"{provider.issuer}/token", form, {}, once=once)
        finally:
            exchange.KEPT.clear()
        assert provider.connections == connections


async def test_a_connection_is_closed_when_its_time_is_over(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to ask again for that, and one that was kept later is looked after too."""
    settings.DEBUG = True
    settings.IRONAUTH_UPSTREAM_NETWORKS = ["127.0.0.0/8"]
    left, looked = [True, True, False], asyncio.Event()  # whether any is left, at each look

    def prune() -> bool:
        found = left.pop(0) if left else False
        if not left:
            looked.set()
        return found

    kept = KeptConnections(most=1, idle_s=0.0, life_s=60.0)
    monkeypatch.setattr(exchange, "KEPT", kept)
    monkeypatch.setattr(exchange, "_watch", exchange._Watch())
    with served(FakeProvider, "HTTP/1.0") as provider:
        await exchange.get(f"{provider.issuer}/jwks")
    monkeypatch.setattr(kept, "prune", prune)
    await asyncio.wait_for(looked.wait(), 20)
    assert left == []
