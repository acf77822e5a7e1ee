"""The answers that are remembered for access tokens."""

import hashlib

from ironauth.infrastructure.cache.two_level import token_cache


def keep_answer(token: bytes, request: object, answer: object, size: int) -> None:
    """Add an answer to those of a token that may be used now.

    Args:
        token: The text.
        request: What it is the answer to.
        answer: What the hot lane will repeat.
        size: Bytes that it takes in memory.
    """
    token_cache().keep_beside(hashlib.sha256(token).digest(), request, answer, size)
