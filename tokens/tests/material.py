"""Keys and tokens made for a test, without a database."""

import base64
import json
import uuid
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings

from tokens.keys.key_set import KeyRecord, KeySet, PublicJwk, build_key_set, new_key_pair

NOW = 1_800_000_000  # unix seconds; what the tests call now
SEED_BYTES = 32


def b64(raw: bytes) -> str:
    """Return unpadded base64url."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class Issuer:
    """A key pair, the key set a server with that active key holds, and a way to sign anything with it."""

    def __init__(self, alg: str = "EdDSA", not_after: float | None = None) -> None:
        self.jwk: PublicJwk
        self.jwk, self.seed = new_key_pair(alg)
        record = KeyRecord(jwk=self.jwk, active=not_after is None, seed=self.seed, not_after=not_after)
        self.keys: KeySet = build_key_set([record], now=NOW)

    @property
    def header(self) -> dict[str, Any]:
        """The header of a good token."""
        return {"alg": self.jwk.alg, "kid": self.jwk.kid, "typ": "at+jwt"}

    def sign(self, header: dict[str, Any] | bytes, payload: dict[str, Any] | bytes) -> str:
        """Return a token with these parts, well-formed or not, under a genuine signature."""
        parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, payload)]
        signing_input = ".".join(map(b64, parts))
        signature = Ed25519PrivateKey.from_private_bytes(self.seed).sign(signing_input.encode())
        return f"{signing_input}.{b64(signature)}"


def good_payload(**changes: Any) -> dict[str, Any]:
    """Return the claims of a good token at ``NOW``; a change to ``...`` removes the claim."""
    claims = {
        "iss": settings.IRONAUTH_ISSUER,
        "sub": str(uuid.UUID(int=7)),
        "aud": settings.IRONAUTH_AUDIENCE,
        "client_id": "ironauth",
        "iat": NOW - 10,
        "exp": NOW + 590,
        "jti": "j" * 22,
        "sid": str(uuid.UUID(int=9)),
        "scope": "account",
        "epoch": 0,
        "roles": ["editors"],
        **changes,
    }
    return {name: value for name, value in claims.items() if value is not ...}
