"""The text of tokens: one for each, and nothing else is taken for it."""

import base64
import os

import pytest

from ironauth.infrastructure.core import base64url


@pytest.mark.parametrize("size", range(46, 52))
def test_there_and_back(size: int) -> None:
    """Whatever the bytes, and however many are left over by threes."""
    for raw in (bytes(size), b"\xff" * size, os.urandom(size)):
        text = base64url.encode(raw)
        assert text == base64.urlsafe_b64encode(raw).decode().rstrip("=")
        assert base64url.decode(text, len(text)) == raw


def test_one_spelling() -> None:
    """Neither the plain alphabet, nor bits nobody reads, nor padding, white space, another length or alphabet."""
    raw = b"\xfb\xff\xbe\xfa"
    text = base64url.encode(raw)
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".replace(text[-1], "")
    others = [text.replace("-", "+").replace("_", "/"), *(text[:-1] + char for char in last)]
    others += [text[:-1] + char for char in (" ", "\n", "=", "é", "\x00", "\ud800")]
    read = [base64url.decode(other, len(text)) for other in others]
    assert raw not in read
    assert read[0] is None
    assert base64url.decode(text, len(text) + 1) is None
    assert base64url.decode(text + "==", len(text) + 2) is None
    assert base64url.decode(text + "\n", len(text)) is None
