"""Tokens for clients, not for this server's own API, on the wire: ID tokens and logout tokens (JWS, RFC 7515).

Access tokens are ``tokens.access.codec``'s alone, which knows no other ``typ``: nothing made here ever opens the API
(security-bar 29).
"""

from typing import Any

import msgspec
from joserfc import jws
from joserfc.errors import JoseError

from tokens.access import codec
from tokens.access.codec import REGISTRIES, SIGNERS, compact
from tokens.errors import InvalidToken
from tokens.keys.key_set import ActiveKey, KeySet


def sign(claims: msgspec.Struct | dict[str, Any], key: ActiveKey, *, typ: str) -> str:
    """Return the signed token; its header names the key, the key's own algorithm, and what kind of token it is.

    Args:
        claims: The claims, complete.
        key: The key that signs.
        typ: The ``typ`` of the header; "" for none.
    """
    return compact(claims, key, SIGNERS[key.alg], typ=typ)


def verified(token: str, keys: KeySet, *, typ: str, now: float) -> dict[str, Any] | None:
    """Return the claims of a token that this server has signed as one of this ``typ``; None for any other text.

    No claim is judged. ``now`` in unix seconds: keys that have retired for good sign nothing any more.

    Args:
        token: The text as it was received.
        keys: The keys that this server signs with, or did.
        typ: The only ``typ`` that is accepted.
        now: Unix seconds.
    """
    try:
        header = codec.header_of(token)
        kid = header.get("kid")
        key = keys.verifier(kid, now) if isinstance(kid, str) else None
        if key is None or header.get("alg") != key.alg or header.get("typ") != typ or {"crit", "b64"} & header.keys():
            return None
        jws.deserialize_compact(token, key.key, registry=REGISTRIES[key.alg])
        return codec.payload_of(token)
    except (InvalidToken, JoseError, ValueError, TypeError, RecursionError):
        return None
