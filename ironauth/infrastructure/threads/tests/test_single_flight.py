"""One reading for all who ask at the same time."""

import asyncio

import pytest

from ironauth.infrastructure.threads.single_flight import SingleFlight


async def test_a_thousand_callers_cost_one_reading() -> None:
    """Everyone gets the result of the one reading, and the next caller starts a new one."""
    flights = SingleFlight()
    readings: list[int] = []

    async def read() -> str:
        readings.append(1)
        await asyncio.sleep(0.01)
        return "value"

    assert set(await asyncio.gather(*(flights.join("k", 0, read) for _ in range(1000)))) == {"value"}
    assert len(readings) == 1
    await flights.join("k", 0, read)
    assert len(readings) == 2
    assert not flights._flights


async def test_an_error_reaches_every_caller_and_is_not_kept() -> None:
    """All who wait get the exception; the next caller tries again."""
    flights = SingleFlight()
    answers: list[BaseException | str] = [KeyError("no"), "yes"]

    async def read() -> str:
        await asyncio.sleep(0)
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    results = await asyncio.gather(*(flights.join("k", 0, read) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(result, KeyError) for result in results)
    assert await flights.join("k", 0, read) == "yes"


async def test_a_cancelled_first_caller_does_not_fail_the_others() -> None:
    """The reading goes on when anybody who started it is cancelled; when all are, its error disturbs nobody."""
    flights = SingleFlight()
    gate = asyncio.Event()

    async def read() -> str:
        await gate.wait()
        return "value"

    first = asyncio.ensure_future(flights.join("k", 0, read))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(flights.join("k", 0, read))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.set()
    assert await second == "value"

    async def fail() -> None:
        await asyncio.sleep(0.01)
        raise KeyError

    only = asyncio.ensure_future(flights.join("k", 0, fail))
    await asyncio.sleep(0)
    only.cancel()
    await asyncio.sleep(0.05)
    assert not flights._flights


async def test_a_reading_from_before_an_invalidation_is_not_joined() -> None:
    """A caller that comes after something was invalidated does not share a reading that began before."""
    flights = SingleFlight()
    gate = asyncio.Event()
    readings: list[str] = []

    async def read(value: str) -> str:
        readings.append(value)
        await gate.wait()
        return value

    before = asyncio.ensure_future(flights.join("k", 1, lambda: read("old")))
    await asyncio.sleep(0)
    after = asyncio.ensure_future(flights.join("k", 2, lambda: read("new")))
    await asyncio.sleep(0)
    gate.set()
    assert (await before, await after) == ("old", "new")
    assert readings == ["old", "new"]
    assert not flights._flights


def test_loops_do_not_share_readings() -> None:
    """A reading under way on one event loop is not waited for by another."""
    flights = SingleFlight()

    async def ask() -> str:
        async def read() -> str:
            return "value"

        return await flights.join("k", 0, read)

    assert [asyncio.run(ask()) for _ in range(3)] == ["value"] * 3


async def test_a_reading_that_is_cancelled_leaves_nobody_waiting() -> None:
    """When the reading itself is cancelled, as at the end of a server, every caller hears it and the next one reads."""
    flights = SingleFlight()

    async def stopped() -> str:
        raise asyncio.CancelledError

    async def read() -> str:
        return "value"

    waiting = [asyncio.ensure_future(flights.join("k", 0, stopped)) for _ in range(3)]
    found = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
    assert [type(one) for one in found] == [asyncio.CancelledError] * 3
    assert await flights.join("k", 0, read) == "value"
