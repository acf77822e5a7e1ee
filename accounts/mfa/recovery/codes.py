"""Recovery codes: made, read as people type them, and recognised; pure functions.

A code is ``xxxx-xxxx-xxxx-xxxx`` of digits and letters that are not mistaken for each other. The first group finds the
row, the other three are 60 random bits: together 80 bits for an attacker without a copy of the database. SP 800-63B-4
§3.1.2.2 asks for 20, and for a slow hash such as Argon2id below 112.
"""

import secrets
from typing import Final

#: Crockford's Base32: no i, l, o or u.
ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
COUNT: Final = 10
GROUP: Final = 4  # characters
GROUPS: Final = 4
_READ_AS: Final = str.maketrans("ilo", "110", " -\t\u2010\u2011\u2013")  # as typed, copied and printed


def new_codes() -> list[str]:
    """Return ten codes; no two begin alike."""
    codes: dict[str, str] = {}
    while len(codes) < COUNT:
        groups = ["".join(secrets.choice(ALPHABET) for _ in range(GROUP)) for _ in range(GROUPS)]
        codes[groups[0]] = "-".join(groups)
    return list(codes.values())


def normalised(typed: str) -> str | None:
    """Return the code's characters without dashes, which is what is hashed; None for what no code looks like."""
    code = typed[:64].lower().translate(_READ_AS)
    return code if len(code) == GROUP * GROUPS and set(code) <= set(ALPHABET) else None


def is_selector(text: str) -> bool:
    """Tell whether a code can begin so."""
    return len(text) == GROUP and set(text) <= set(ALPHABET)


def selector(code: str) -> str:
    """Return the part of a normalised code that finds its row."""
    return code[:GROUP]
