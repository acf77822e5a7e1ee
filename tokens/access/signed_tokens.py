"""Tokens for clients, not for this server's own API, on the wire: ID tokens and logout tokens (JWS, RFC 7515).

Access tokens are ``tokens.access.codec``'s alone, which knows no other algorithm and no other ``typ``: nothing made
here ever opens the API (security-bar 29).
"""

from typing import Any

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwa import JWSAlgModel

from tokens.access import codec
from tokens.access.codec import QuietEdDSA, compact
from tokens.errors import InvalidToken
from tokens.keys.key_set import ActiveKey, KeySet


class _Registry(jws.JWSRegistry):
    """The signature algorithms of clients' tokens: a foreign ``alg`` cannot be reached by any mistake."""

    algorithms: dict[str, JWSAlgModel] = {
        "EdDSA": QuietEdDSA(),
        **{alg: jws.JWSRegistry.algorithms[alg] for alg in ("Ed25519", "ES256", "RS256")},
    }


_REGISTRIES = {alg: _Registry(algorithms=[alg]) for alg in _Registry.algorithms}
_SIGNERS = {alg: registry.get_alg(alg) for alg, registry in _REGISTRIES.items()}


def sign(claims: msgspec.Struct | dict[str, Any], key: ActiveKey, *, typ: str) -> str:
    """Return the signed token; its header names the key, the key's own algorithm, and what kind of token it is.

    Args:
        claims: The claims, complete.
        key: The key that signs.
        typ: The ``typ`` of the header.
    """
    return compact(claims, key, _SIGNERS[key.alg], typ=typ)


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
        key = keys.client_verifier(kid, now) if isinstance(kid, str) else None
        if key is None or header.get("alg") != key.alg or header.get("typ") != typ or {"crit", "b64"} & header.keys():
            return None
        jws.deserialize_compact(token, key.key, registry=_REGISTRIES[key.alg])
        return codec.payload_of(token)
    except (InvalidToken, JoseError, ValueError, TypeError, RecursionError):
        return None
