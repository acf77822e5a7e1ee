"""Words an attacker tries first against one person: from the address, the name, and this service."""

import re
import unicodedata
from typing import Final

_SERVICE: Final = ("ironauth", "iron", "auth")
# Words that mean "a password" and are put beside a name; nothing is refused unless it is made of them alone.
_FILLERS: Final = (
    "password",
    "passwort",
    "passwd",
    "pass",
    "admin",
    "login",
    "welcome",
    "secret",
    "user",
    "the",
    "my",
    "this",
    "is",
    "a",
)
_SHORTEST: Final = 3  # letters; shorter pieces of a name would be found everywhere
_MOST_WORDS: Final = 24  # a bound on the work: a name may have 150 characters
_LONGEST_FORM: Final = 128  # characters; a longer password made of a name only is covered by the repetition rule
_BETWEEN: Final = re.compile(r"[\W_]+")


def of(*, email: str, name: str) -> frozenset[str]:
    """Return the words of this person, folded and without separators.

    Args:
        email: The person's address.
        name: The display name; "" is allowed.
    """
    local, _, domain = email.rpartition("@")
    whole = (local, name, email, domain, *_BETWEEN.split(local), *_BETWEEN.split(name), *domain.split(".")[:-1])
    words = (_BETWEEN.sub("", unicodedata.normalize("NFKC", word).casefold()) for word in whole)
    kept = sorted({word for word in words if len(word) >= _SHORTEST}, key=len, reverse=True)[:_MOST_WORDS]
    # The letters alone too: "alice" of alice99@example.com.
    return frozenset(kept) | {bare for word in kept if len(bare := word.strip("0123456789")) >= _SHORTEST}


def spelled_with(form: str, personal: frozenset[str]) -> str | None:
    """Return what ``form`` is made of, if it is nothing but known words: ``"context"``, or ``"fillers"`` alone.

    Args:
        form: A spelling of the password, folded and without separators.
        personal: The words of the person, as ``of`` returns them.
    """
    if len(form) > _LONGEST_FORM:
        return None
    named = personal.union(_SERVICE)
    words = named.union(_FILLERS)
    # ends[i]: the first i characters can be spelled; True when a word of the first two kinds is among them.
    ends: dict[int, bool] = {0: False}
    for start in range(len(form)):
        if start in ends:
            for word in words:
                if form.startswith(word, start):
                    end = start + len(word)
                    ends[end] = ends.get(end, False) or ends[start] or word in named
    if len(form) not in ends:
        return None
    return "context" if ends[len(form)] else "fillers"
