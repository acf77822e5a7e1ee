"""How bytes become the text of a token, and back: base64url without padding (RFC 4648 §5), and one text for one token.

Python's decoder takes ``+`` and ``/`` as well, and last characters that differ in bits nobody reads: what was refused
or used up in one spelling must not come again in another.
"""

import base64
import binascii


def encode(raw: bytes) -> str:
    """Return the text of some bytes, four characters for three of them, rounded up."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode(text: str, characters: int) -> bytes | None:
    """Return the bytes of ``text``; None when it is not so long, or not what ``encode`` makes of them.

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
