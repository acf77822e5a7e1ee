"""Patterns of weak passwords: common ones, walks, repetitions, and the decorations people put around them."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from django.contrib.auth.password_validation import CommonPasswordValidator

_SHORTEST_PART: Final = 4  # characters; shorter entries of the list would be found in anything
_SHORTEST_RUN: Final = 3  # keys; a password is a walk if it is made of nothing but runs of this length
_SHORTEST_WALK: Final = 5  # characters; what is left after decoration is only then called a walk
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
# Rows of US, German, French, Dvorak, Russian and Greek keyboards; columns and zigzags over the US rows; the number pad.
_KEYBOARDS: Final = """
`1234567890-= ~!@#$%^&*()_+ qwertyuiop[]\\ qwertyuiop{}| asdfghjkl;' asdfghjkl:" zxcvbnm,./ zxcvbnm<>?
qwertzuiopü+ asdfghjklöä# yxcvbnm,.- azertyuiop^$ qsdfghjklmù* wxcvbn,;:! &é"'(-è_çà)=
',.pyfgcrl/= aoeuidhtns- ;qjkxbmwvz йцукенгшщзхъ фывапролджэ ячсмитьбю. ;ςερτυθιοπ ασδφγηξκλ
1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik,9ol.0p;/ qazwsxedcrfvtgbyhnujmik,ol.p;/ qazxswedcvfrtgbnhyujmki,.lo
1q2w3e4r5t6y7u8i9o0p q1w2e3r4t5y6u7i8o9p0 qawsedrftgyhujikolp zaxscdvfbgnhmj zaqxswcdevfrbgtnhymju
741852963 147258369 789456123 159357 951753
"""
_ALPHABETS: Final = (
    "абвгдеёжзийклмнопрстуфхцчшщъыьэюя αβγδεζηθικλμνξοπρστυφχψω 01234567890123456789 02468024680 13579135791"
)
#: Orders people walk along, in both directions.
_LINES: Final = (_LETTERS * 2, _LETTERS[::2], _LETTERS[1::2], *_ALPHABETS.split(), *_KEYBOARDS.split())
_STEPS: Final = frozenset(
    line[i : i + 3] for whole in _LINES for line in (whole, whole[::-1]) for i in range(len(whole) - 2)
)
# US layout: what the number row gives with and without Shift.
_UNSHIFT: Final = str.maketrans("~!@#$%^&*()_+", "`1234567890-=")
_LEET: Final = str.maketrans("0134578@$!|+€", "oieastbasilte")
_LEET_L: Final = str.maketrans("0134578@$!|+€", "oleastbaslite")
_NOT_ALPHANUMERIC: Final = re.compile(r"[\W_]+")
_DECORATION: Final = re.compile(r"^[\W\d_]+|[\W\d_]+$")
_SYMBOLS: Final = re.compile(r"^[\W_]+|[\W_]+$")


@cache
def common_passwords() -> frozenset[str]:
    """Return Django's list of about 20,000 common passwords, folded; read once, about 20 ms."""
    return frozenset(word.casefold() for word in CommonPasswordValidator().passwords)


async def load_common_passwords() -> None:
    """Read the list while the server starts, so that no request waits for the disk."""
    common_passwords()


def is_common(form: str) -> bool:
    """Tell whether ``form`` is a common password, forwards or backwards, or two of them beside each other."""
    known = common_passwords()
    if form in known or form[::-1] in known:
        return True
    # Two entries of a list of 20,000 are 4 * 10^8 guesses: an afternoon against a stolen Argon2 hash, not a barrier.
    return any(
        form[:cut] in known and form[cut:] in known for cut in range(_SHORTEST_PART, len(form) - _SHORTEST_PART + 1)
    )


def is_repetition(form: str, longest_unit: int) -> bool:
    """Tell whether ``form`` is at least two turns of at most ``longest_unit`` characters; the last may be cut short.

    Args:
        form: A spelling of the password.
        longest_unit: Characters.
    """
    return any(form[unit:] == form[:-unit] for unit in range(1, min(longest_unit, len(form) // 2) + 1))


def is_walk(form: str) -> bool:
    """Tell whether ``form`` is made of nothing but runs along a keyboard or an alphabet."""
    if len(form) < _SHORTEST_WALK:
        return False
    squeezed = "".join(char for i, char in enumerate(form) if i == 0 or form[i - 1] != char)
    return any(_all_runs(text) for text in {form, squeezed, form.translate(_UNSHIFT)})


def _all_runs(text: str) -> bool:
    """Tell whether ``text`` can be cut into runs of three or more neighbours."""
    position, length = 0, len(text)
    while position < length:
        end = position + 2
        while end < length and text[end - 2 : end + 1] in _STEPS:
            end += 1
        if end - position < _SHORTEST_RUN or end > length:
            return False
        position = end
    return length >= _SHORTEST_RUN


def simplified(form: str) -> Iterator[str]:
    """Yield ``form`` with one kind of decoration taken off, for each kind."""
    yield _SYMBOLS.sub("", form)
    yield _DECORATION.sub("", form)
    yield _NOT_ALPHANUMERIC.sub("", form)
    yield form.translate(_LEET)
    yield form.translate(_LEET_L)
    unit = (form + form).find(form, 1)  # the shortest unit that makes the whole form when repeated
    yield form[:unit]
