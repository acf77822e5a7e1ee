"""Formats of stored hashes: one module each, with a hasher that ``PASSWORD_HASHERS`` lists.

Django's ``identify_hasher`` finds the one that wrote a hash; new ones are of the first.
``accounts.passwords.hashing`` judges a password of any format.
"""

import unicodedata
from typing import Final

MAX_LENGTH: Final = 1024  # code points after NFC; SP 800-63B-4 §3.1.1.2 asks for at least 64
MAX_ENCODED_LENGTH: Final = 256  # characters; the longest form with a 64-byte hash and a 16-character key id is 209


def normalised(password: str) -> str:
    """Return ``password`` in NFC: what is counted and hashed (SP 800-63B-4 §3.1.1.2 (8)). Nothing is cut off."""
    return unicodedata.normalize("NFC", password)


def too_long(password: str) -> bool:
    """Tell whether ``password`` exceeds 1,024 code points after NFC."""
    # No character shortens by more than a factor of four; beyond that, the normalisation itself is refused.
    return len(password) > 4 * MAX_LENGTH or len(normalised(password)) > MAX_LENGTH
