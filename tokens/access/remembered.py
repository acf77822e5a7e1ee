"""What is remembered of access tokens: the answers to them, and which of them other workers vouch for."""

import hashlib
import hmac
from typing import Final

from ironauth.infrastructure.cache.two_level import token_cache
from ironauth.infrastructure.core import clock
from tokens.access import codec
from tokens.access.codec import VerifiedToken
from tokens.errors import InvalidToken
from tokens.keys.key_set import kid_tag
from tokens.keys.store import key_store
from tokens.principal import Principal

#: What the key of a token in the cache begins with; its jti follows.
CACHE_PREFIX: Final = "at:"


def keep_answer(token: bytes, request: object, answer: object, size: int) -> None:
    """Add an answer to those of a token that may be used now.

    Args:
        token: The text.
        request: What it is the answer to.
        answer: What the hot lane will repeat.
        size: Bytes that it takes in memory.
    """
    token_cache().keep_beside(hashlib.sha256(token).digest(), request, answer, size)


async def recognised(token: str, digest: bytes) -> Principal | VerifiedToken | None:
    """Return who a token stands for that was verified before, here or by another worker; else what it says. No query.

    Of one that another worker vouches for the signature is not checked again. Everything else is judged here: the
    text by its digest, every claim, that its key is still held, and by the cache that nothing has been revoked since
    its session was confirmed.

    Args:
        token: The text, of which nothing is known.
        digest: Of the text.

    Returns:
        The principal, whose session is confirmed; a token that is genuine and whose session is not; or None for one
        that is not good, or of a key that is not known.

    Raises:
        Unavailable: (503) there are no keys to judge it by.
        InvalidToken: (401) its signature is not good.
    """
    cache, store = token_cache(), key_store()
    keys = await store.for_verifying()
    try:
        said = codec.decode_vouched(token, keys, now=clock.unix())
    except InvalidToken:
        return None
    claims = said.claims
    if claims.sid is not None and claims.staff is None:  # others are never in the cache
        key = CACHE_PREFIX + claims.jti
        principal = cache.peek(key) or await cache.shared(key, Principal)
        if isinstance(principal, Principal) and hmac.compare_digest(principal.digest, digest):
            if not store.holds(said.kid):  # dropped while Redis was asked, after the drop had emptied the cache
                cache.drop(kid_tag(said.kid))
                return None
            if not principal.is_bound:
                cache.add_alias(key, principal, digest)
            return principal
    codec.require_signature(token, said.kid, keys, now=clock.unix())
    return said
