"""The experiment about single requests: its verdict."""

import pytest

from perf.experiments.costs import BY_DATABASE, BY_REDIS, KINDS, KNOWN, ME_US, finding

FACTOR = 3.0  # of this machine, against the one where the bounds were set


def kept() -> dict[str, float]:
    """Return a round in which everything takes exactly what it may, on a machine that is slower."""
    return {name: FACTOR * (kind.wanted_us or ME_US) for name, kind in KINDS.items()} | {BY_DATABASE: FACTOR * 150.0}


def test_bounds_count_in_multiples_of_me() -> None:
    """A slower machine changes nothing; what is shown only has no bound."""
    seen = finding([kept()])
    assert seen.kept
    assert len(seen.checks) == 1 + sum(bool(kind.wanted_us) for kind in KINDS.values())
    assert [row[0] for row in seen.tables[0].rows] == [kind.what for kind in KINDS.values()]
    assert seen.tables[0].rows[0][1:] == ("77 (77-77)", "1.0", "")


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.wanted_us])
def test_each_bound_is_held(name: str) -> None:
    """A hundredth more of any falls short."""
    assert not finding([kept() | {name: 1.01 * kept()[name], BY_DATABASE: 10_000.0}]).kept


def test_redis_may_never_make_a_first_use_dearer() -> None:
    """As much as by the database is kept, more is not, whatever both are."""
    for by_database, good in ((FACTOR * 100.0, True), (FACTOR * 99.0, False)):
        assert finding([kept() | {BY_REDIS: FACTOR * 100.0, BY_DATABASE: by_database}]).kept is good


def test_rounds_are_told_by_their_median() -> None:
    """One slow round changes the spread, and no verdict."""
    slow = {name: 9 * us for name, us in kept().items()} | {KNOWN: FACTOR * ME_US}
    seen = finding([kept(), slow, kept()])
    assert seen.kept
    assert seen.tables[0].rows[1][1] == "450 (450-4,050)"
