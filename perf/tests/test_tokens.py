"""The experiment on tokens: its stop-watches, and what it concludes."""

import asyncio

import pytest

from perf.experiments.tokens import token_paths
from perf.experiments.tokens.experiment import ED_ALG, PATHS, RSA_ALG, Signature, finding
from perf.experiments.tokens.token_paths import Cost, Paths, one_by_one, repeated

SIGNATURES = {
    RSA_ALG: [Signature(Cost(260, 260), Cost(40, 40), 830)],
    ED_ALG: [Signature(Cost(50, 50), Cost(120, 120), 580)],
}


def paths(*, hit_us: float = 2.0, wrong: int = 0) -> list[Paths]:
    """Return one round without Redis and one with it."""
    alone = {
        token_paths.ENCODE: Cost(60, 60),
        token_paths.DECODE: Cost(180, 180),
        token_paths.FULL: Cost(400, 390, 900),
        token_paths.L1_HIT: Cost(hit_us, hit_us),
        token_paths.HOT: Cost(0.5, 0.5),
    }
    shared = {token_paths.FULL_SHARED: Cost(800, 700, 1_500), token_paths.L2_HIT: Cost(500, 450, 900)}
    return [Paths(alone, 572, wrong), Paths(shared, 572, 0)]


def test_every_path_has_its_line() -> None:
    """The table has all paths in order, each as a share of the full verification."""
    found = finding(SIGNATURES, paths())
    assert [row[0] for row in found.tables[1].rows] == list(PATHS.values())
    shares = {row[0]: row[-1] for row in found.tables[1].rows}
    assert shares[PATHS[token_paths.L1_HIT]] == "0.0050"
    assert shares[PATHS[token_paths.FULL]] == "1.0000"
    assert found.failed == 0


def test_the_checks_compare_medians() -> None:
    """A hit that costs as much as a verification falls short; a wrong answer spoils the finding."""
    good, bad = finding(SIGNATURES, paths()), finding(SIGNATURES, paths(hit_us=180, wrong=3))
    assert [round(check.measured, 1) for check in good.checks] == [5.2, 90.0, 200.0]
    assert [check.met for check in good.checks] == [True, True, True]
    assert [check.met for check in bad.checks] == [True, False, False]
    assert bad.failed == 3


def test_a_repeated_call_is_timed_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost is that of one call, however often it was made."""
    monkeypatch.setattr(token_paths, "BATCH_S", 0.002)
    calls = 0

    def work() -> None:
        nonlocal calls
        calls += 1

    cost = repeated(work)
    assert calls > token_paths.REPEATS
    assert 0 < cost.median_us < 2_000


async def test_calls_one_by_one_are_each_waited_for() -> None:
    """Every item is used once, in order, and none overlaps another."""
    seen: list[int] = []

    async def call(item: int) -> None:
        await asyncio.sleep(0)
        seen.append(item)

    cost = await one_by_one(call, range(5))
    assert seen == [0, 1, 2, 3, 4]
    assert 0 < cost.median_us <= cost.p99_us
