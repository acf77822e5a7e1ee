"""The registry of hash formats: what another system wrote becomes the form that one of our hashers judges."""

from collections.abc import Callable
from typing import Final

from accounts.passwords.formats import MAX_ENCODED_LENGTH, argon2, bcrypt, firebase, pbkdf2, salted_sha, scrypt
from accounts.passwords.formats.foreign import UnusableHashError

#: One of each format's module: None where the text is of another format.
_RECOGNISE: Final[tuple[Callable[[str], str | None], ...]] = (
    argon2.recognise,
    bcrypt.recognise,
    pbkdf2.recognise,
    scrypt.recognise,
    firebase.recognise,
    salted_sha.recognise,
)


def stored_form(text: str) -> str:
    """Return ``text``, a hash as another system stores it, in the form that is stored here.

    Raises:
        UnusableHashError: No format recognises it, it is malformed, its costs are out of bounds, or it is not allowed.
    """
    for recognise in _RECOGNISE:
        if (found := recognise(text)) is not None:
            if len(found) > MAX_ENCODED_LENGTH:
                raise UnusableHashError(UnusableHashError.MALFORMED, "The hash is too long to be stored.")
            return found
    raise UnusableHashError(UnusableHashError.UNKNOWN, "No format that is known here.")
