"""Stretches of time as people say them."""

import math
from typing import Final

from django.utils.translation import gettext, ngettext

_DAY_S: Final = 86_400
_HOUR_S: Final = 3_600
_MINUTE_S: Final = 60
_FEWEST: Final = 10  # of a unit, below which rounding up to whole ones would tell too much more than is true


def in_words(seconds: float) -> str:
    """Return e.g. "1 day", "19 hours" or "75 s": never less than it is, and at most a tenth more.

    In the language of what is written now, as it follows "try again in".
    """
    whole = math.ceil(seconds)
    for length in (_DAY_S, _HOUR_S, _MINUTE_S):
        if whole >= length and (whole % length == 0 or whole > _FEWEST * length):
            return _counted(math.ceil(whole / length), length)
    return gettext("{count} s").format(count=whole)


def _counted(count: int, unit_s: int) -> str:
    if unit_s == _DAY_S:
        text = ngettext("{count} day", "{count} days", count)
    elif unit_s == _HOUR_S:
        text = ngettext("{count} hour", "{count} hours", count)
    else:
        text = ngettext("{count} minute", "{count} minutes", count)
    return text.format(count=count)
