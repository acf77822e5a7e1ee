"""How good a password looks, for pages without scripts: what the meter of ``password_meter.js`` says, by a round trip.

Nothing is kept, and the password is not shown again. The policy judges too, so that no password looks good that it
would refuse; a list of breached passwords is asked only where a password is set.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.utils.translation import gettext

from accounts.lockout import rate_limits
from accounts.passwords.policy import policy_errors
from ironauth.infrastructure.core.errors import DomainError

#: The button that asks for it.
FIELD: Final = "check_password"
#: As ``password_rules.html`` has it for the script; the level is the place of the words.
_LEVELS: Final = "Too short|Weak: add a word|Fair: another word makes it better|Good|Very good"
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")
# The script's own figures.
_FEWEST_DIFFERENT, _MANY_DIFFERENT = 6, 8
_SHORTEST_WORD, _SOME_WORDS, _MANY_WORDS = 3, 2, 3
_LONG, _VERY_LONG = 20, 25
_MOST: Final = 4
_REFUSED: Final = 1


class Strength(NamedTuple):
    """What the page says: 0 to 4, that in words, and why the policy would refuse the password."""

    level: int
    words: str
    reasons: tuple[str, ...]


def judged(password: str, *, email: str = "", name: str = "") -> Strength:
    """Return how good a password looks.

    Args:
        password: As it was typed.
        email: The person's address, where the page knows it.
        name: Their name.
    """
    reasons = tuple(one.message for one in policy_errors(password, email=email, name=name))
    level = min(_level(password), _REFUSED) if reasons else _level(password)
    return Strength(level, gettext(_LEVELS).split("|")[level], reasons)


async def shown(*, password: str, address: str, email: str = "", name: str = "") -> Mapping[str, Any]:
    """Return what a page shows where somebody has pressed the button: ``strength``, or the ``refusal`` of too many.

    Args:
        password: As it was typed.
        address: The client's.
        email: The person's address, where the page knows it.
        name: Their name.
    """
    try:
        await rate_limits.admit(rate_limits.PASSWORD_CHECK, address=address)
    except DomainError as error:
        return {"check_refused": error.detail, "status": error.status, "headers": error.headers}
    return {"strength": judged(password, email=email, name=name)}


def _level(password: str) -> int:
    if len(password) < settings.IRONAUTH_PASSWORD_MIN_LENGTH:
        return 0
    different = len(set(password.lower()))
    if different < _FEWEST_DIFFERENT:
        return 1
    kinds = len({word.lower() for word in _BETWEEN_WORDS.split(password) if len(word) >= _SHORTEST_WORD})
    better = (
        different > _MANY_DIFFERENT,
        kinds > _SOME_WORDS or len(password) > _LONG,
        kinds > _MANY_WORDS or len(password) > _VERY_LONG,
    )
    return min(_MOST, 1 + sum(better))
