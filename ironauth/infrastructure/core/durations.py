"""Stretches of time as people say them."""

import math
from typing import Final

_UNITS: Final = (("day", 86_400), ("hour", 3_600), ("minute", 60))
_FEWEST: Final = 10  # of a unit, below which rounding up to whole ones would tell too much more than is true


def in_words(seconds: float) -> str:
    """Return e.g. "1 day", "19 hours" or "75 s": never less than it is, and at most a tenth more."""
    whole = math.ceil(seconds)
    for name, length in _UNITS:
        if whole >= length and (whole % length == 0 or whole > _FEWEST * length):
            count = math.ceil(whole / length)
            return f"{count} {name}" if count == 1 else f"{count} {name}s"
    return f"{whole} s"
