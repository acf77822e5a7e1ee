"""The experiment about the garbage collector's pauses: its clients, its watch and its verdict."""

import asyncio
import gc
import json
import time

import pytest

from perf.experiments.pauses.experiment import WANTED_MS, Using, finding, part, shared_out
from perf.load.fixed_rate import FixedRateResult
from perf.pauses.watch import TICK_S, Pauses, Watch


def seen(longest_ms: float, entries: int = 50_000) -> Pauses:
    """Return what a worker saw whose longest collection took so long of its CPU, and ten times of the clock."""
    cpu = round(longest_ms * 1e6)
    return Pauses(([10 * cpu], [], []), ([cpu], [], []), [1_000_000], 700, entries)


@pytest.mark.parametrize(
    ("longest_ms", "entries", "kept"),
    [(WANTED_MS, 50_000, True), (WANTED_MS + 0.1, 50_000, False), (WANTED_MS, 49_999, False)],
)
def test_the_bound_is_on_cpu_time_with_all_tokens(longest_ms: float, entries: int, kept: bool) -> None:
    """A collection may take as long as the bound, and fewer tokens prove nothing."""
    assert finding(seen(0.1), seen(longest_ms, entries), FixedRateResult(60, 300), 50_000).kept is kept


def test_a_share_of_times_is_the_one_that_it_does_not_exceed() -> None:
    """Of a thousand times p99.9 is the last but one; of none it is 0."""
    times = [number * 1_000_000 for number in range(1, 1_001)]
    assert (part(times, 0.999), part(times, 1), part([], 1)) == (999.0, 1_000.0, 0.0)


def test_sessions_are_refreshed_in_turn_and_each_token_is_used() -> None:
    """One that goes round takes up what it was given last; one that does not ends, and has all successors."""
    pair = {"access_token": "a1", "refresh_token": "r2"}
    once = Using("h", ["r1"], questions=1, again=False)
    assert b"r1" in (once.next_request() or b"")
    assert once.accept(200, json.dumps(pair).encode())
    assert b"Bearer a1" in (once.next_request() or b"")
    assert once.accept(200, b'{"email":"p"}')
    assert once.next_request() is None
    assert once.refresh_tokens == ["r2"]
    round_ = Using("h", ["r1"], questions=0, again=True)
    round_.next_request()
    assert not round_.accept(401, b"")
    assert round_.accept(200, json.dumps(pair).encode())
    assert b"r2" in (round_.next_request() or b"")


def test_every_session_is_shared_out_once() -> None:
    """Whatever their number."""
    shares = shared_out([str(number) for number in range(21)])
    assert sorted(int(one) for share in shares for one in share) == list(range(21))


async def test_the_watch_sees_collections_and_what_holds_the_loop() -> None:
    """Since it was asked last: each collection by its generation, and how late the loop was."""
    watch = Watch()
    watch.start()
    gc.collect(1)
    time.sleep(10 * TICK_S)  # noqa: ASYNC251 - the loop has to stand still
    await asyncio.sleep(2 * TICK_S)
    first = watch.taken()
    assert first.walls[1]
    assert len(first.walls[1]) == len(first.cpus[1])
    assert max(first.late) >= 9 * TICK_S * 1e9
    assert first.tracked > 1_000
    await asyncio.sleep(0)
    assert max(watch.taken().late, default=0) < 9 * TICK_S * 1e9
    gc.callbacks.remove(watch._told)
