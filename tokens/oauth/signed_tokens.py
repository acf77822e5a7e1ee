"""Tokens for clients, not for this server's own API, on the wire: ID tokens and logout tokens (JWS, RFC 7515).

Access tokens are ``tokens.codec``'s alone, which knows no other algorithm and no other ``typ``: nothing made here ever
opens the API (security-bar 29).
"""

from typing import Any

import msgspec
from joserfc import jws
from joserfc.jwa import JWSAlgModel

from tokens.codec import QuietEdDSA
from tokens.keys import ActiveKey


class _Registry(jws.JWSRegistry):
    """The signature algorithms of clients' tokens: a foreign ``alg`` cannot be reached by any mistake."""

    algorithms: dict[str, JWSAlgModel] = {
        "EdDSA": QuietEdDSA(),
        **{alg: jws.JWSRegistry.algorithms[alg] for alg in ("Ed25519", "ES256", "RS256")},
    }


_REGISTRIES = {alg: _Registry(algorithms=[alg]) for alg in _Registry.algorithms}


def sign(claims: msgspec.Struct | dict[str, Any], key: ActiveKey, *, typ: str) -> str:
    """Return the signed token; its header names the key, the key's own algorithm, and what kind of token it is."""
    header = {"alg": key.alg, "kid": key.kid, "typ": typ}
    return jws.serialize_compact(header, msgspec.json.encode(claims), key.key, registry=_REGISTRIES[key.alg])
