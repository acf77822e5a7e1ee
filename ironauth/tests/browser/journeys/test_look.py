"""Looks are dealt fairly: over the journeys of the gate every two values of two dimensions meet."""

from itertools import combinations, product

from ironauth.tests.browser.journeys.look import (
    DEALT,
    LANGUAGES,
    LOOKS,
    SCRIPTS,
    THEMES,
    WIDTHS,
    Look,
    all_walks,
    dealt_walks,
)
from ironauth.tests.browser.journeys.registry import JOURNEYS, kinds

VALUES = dict(zip(Look._fields, (WIDTHS, THEMES, LANGUAGES, SCRIPTS), strict=True))


def test_every_pair_of_values_is_met() -> None:
    """Each journey is walked once, and any two values of two dimensions are met by at least three journeys."""
    walks = dealt_walks(kinds())
    assert sorted(name for name, _ in walks) == sorted(JOURNEYS)
    for one, other in combinations(VALUES, 2):
        for wanted in product(VALUES[one], VALUES[other]):
            met = [name for name, look in walks if (getattr(look, one), getattr(look, other)) == wanted]
            assert len(met) >= 3, (one, other, wanted, met)


def test_the_deck_has_every_three_values_once() -> None:
    """Of the sixteen looks there are eight, in which any three dimensions meet in each of their eight ways."""
    assert len(LOOKS) == len(set(LOOKS)) == 16
    for three in combinations(Look._fields, 3):
        assert len({tuple(getattr(look, name) for name in three) for look in DEALT}) == len(DEALT) == 8


def test_the_full_product_leaves_out_what_cannot_be() -> None:
    """Sixteen looks a journey, eight where a passkey is used: without a script there is none."""
    walks = all_walks([("any", False), ("passkey", True)])
    assert [sum(name == wanted for name, _ in walks) for wanted in ("any", "passkey")] == [16, 8]
    assert all(look.scripts for name, look in walks if name == "passkey")


def test_what_needs_scripts_gets_them() -> None:
    """No journey with a passkey is dealt a look without scripts."""
    needing = [name for name, needs in kinds() if needs]
    assert needing
    assert all(look.scripts for name, look in dealt_walks(kinds()) if name in needing)
