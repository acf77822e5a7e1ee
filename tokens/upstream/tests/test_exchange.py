"""Asking providers: one that is slow keeps nobody else waiting."""

import asyncio

from pytest_django import Settings

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
