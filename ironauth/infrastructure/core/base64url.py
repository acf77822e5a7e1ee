"""How bytes become the text of a token, and back: base64url without padding (RFC 4648 §5), one text for one token.

Python's decoder also takes ``+`` and ``/``, and last characters that differ in bits nobody reads. Here a token has one
spelling: what was refused or used up must not come again in another.
"""

import base64
import binascii


def encode(raw: bytes) -> str:
    """Return the text of some bytes, four characters for three of them, rounded up."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode(text: str, characters: int) -> bytes | None:
    """Return the bytes of ``text``; None for another length, and for any text that ``encode`` would not make.

    Args:
        text: Without padding.
        characters: The only length that is accepted.
    """
    if len(text) != characters or not text.isascii():
        return None
    try:
        raw = base64.b64decode(text + "=" * (-characters % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if encode(raw) == text else None
