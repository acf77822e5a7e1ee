"""When the garbage collector walks everything, and what it never walks again."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from ironauth.server import garbage
from ironauth.server.garbage import FullRounds


class Clock:
    """Times that stand still until the test moves them; of the world, and of the loop's thread."""

    def __init__(self) -> None:
        self.now_s = self.cpu_s = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give the module this clock."""
    clock = Clock()
    monkeypatch.setattr("ironauth.server.garbage.time.monotonic", lambda: clock.now_s)
    monkeypatch.setattr("ironauth.server.garbage.time.thread_time", lambda: clock.cpu_s)
    return clock


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Note the full rounds that are made, and leave the collector as it was."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            seen.append(1)

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)
    gc.unfreeze()


async def test_python_makes_no_full_round_by_itself_until_the_end(full: list[int]) -> None:
    """From the start on what lives long is frozen, and only young rounds come by themselves; then it is as before."""
    before = gc.get_threshold()
    rounds = FullRounds()
    rounds.start()
    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == (*before[:2], 2**31 - 1)
    full.clear()
    kept = [[number] for number in range(before[0] * (before[1] + 2) * 13)]
    assert len(kept) > 0
    assert not full
    rounds.stop()
    assert gc.get_threshold() == before


async def test_a_loop_at_rest_is_not_kept_waiting_for_load(full: list[int], clock: Clock) -> None:
    """A full round comes 10 s after the last one where the loop is at rest, and where it is not after 60."""
    rounds = FullRounds()
    rounds.start()
    full.clear()
    for passed_s, used_s, expected in ((9.9, 0, 0), (0.1, 0.021, 0), (0, 0.02, 1), (59.9, 0.5, 1), (0.1, 0.5, 2)):
        clock.now_s += passed_s
        clock.cpu_s += used_s
        rounds._look()
        assert len(full) == expected
    rounds.stop()


async def test_much_that_has_come_to_stay_is_walked_once(
    full: list[int], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many objects as the bound bring a full round at once, which freezes what is alive; a few less do neither."""
    monkeypatch.setattr(garbage, "MOST_WALKED", 3_000)
    rounds = FullRounds()
    rounds.start()
    full.clear()
    kept = [[number] for number in range(2_500)]
    gc.collect(1)  # they are of the oldest generation now
    rounds._look()
    assert not full
    kept += [[number] for number in range(500)]
    gc.collect(1)
    rounds._look()
    assert len(full) == 1
    assert len(gc.get_objects()) < 500
    rounds._look()
    assert len(full) == 1
    rounds.stop()


async def test_what_is_frozen_is_bounded(full: list[int], clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound nothing more is frozen: garbage in it that refers to itself would stay."""
    monkeypatch.setattr(garbage, "MOST_WALKED", 1_000)
    monkeypatch.setattr(garbage, "MOST_FROZEN", 3_500)
    rounds = FullRounds()
    rounds.start()
    kept: list[list[list[int]]] = []
    walked = []
    for _ in range(4):
        kept.append([[number] for number in range(1_500)])
        gc.collect(1)
        rounds._look()
        walked.append(len(gc.get_objects()) >= 1_500)
    assert walked == [False, False, True, True]
    rounds.stop()


async def test_what_stays_and_is_not_frozen_is_not_walked_each_second(
    full: list[int], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It brings one round at once, and the next when a quarter more has come, but never less than the bound."""
    monkeypatch.setattr(garbage, "MOST_WALKED", 1_000)
    monkeypatch.setattr(garbage, "MOST_FROZEN", 0)
    rounds = FullRounds()
    rounds.start()
    full.clear()
    kept: list[list[list[int]]] = []
    for more, expected in ((8_000, 1), (0, 1), (1_500, 1), (1_500, 2), (0, 2)):
        kept.append([[number] for number in range(more)])
        gc.collect(1)
        rounds._look()
        assert len(full) == expected
    rounds.stop()


async def test_it_looks_by_itself(full: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to ask: the loop does, once in each span, until the end."""
    monkeypatch.setattr(garbage, "LOOK_S", 0.01)
    monkeypatch.setattr(garbage, "REST_S", 0.0)
    monkeypatch.setattr(garbage, "BUSY_S", 0.0)
    rounds = FullRounds()
    rounds.start()
    await asyncio.sleep(0.2)
    assert len(full) >= 3
    rounds.stop()
    rounds.stop()
    seen = len(full)
    await asyncio.sleep(0.05)
    assert len(full) == seen
