"""Keys and proofs of possession made for a test (RFC 9449)."""

import base64
import hashlib
import json
import uuid
from typing import Any, Final

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

from ironauth.infrastructure.core import clock

ISSUER: Final = "http://localhost:8000"
type Key = ECKey | OKPKey | RSAKey


def new_key() -> ECKey:
    """Return a key pair of P-256."""
    return ECKey.generate_key("P-256")


def proof(
    key: Key, method: str, path: str, *, token: str = "", header: dict[str, Any] | None = None, **changes: Any
) -> str:
    """Return a proof for a request here; a change to None leaves the claim, or the member of the header, out."""
    members = {"typ": "dpop+jwt", "alg": "ES256", "jwk": key.as_dict(private=False), **(header or {})}
    claims = {"jti": uuid.uuid4().hex, "htm": method, "htu": f"{ISSUER}{path}", "iat": int(clock.unix())}
    if token:
        digest = hashlib.sha256(token.encode()).digest()
        claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    claims |= changes
    body = json.dumps({name: value for name, value in claims.items() if value is not None})
    members = {name: value for name, value in members.items() if value is not None}
    registry = jws.JWSRegistry(algorithms=[members["alg"]], strict_check_header=False)
    return jws.serialize_compact(members, body.encode(), key, registry=registry)


def shown(token: str, key: Key, method: str, path: str, **changes: Any) -> dict[str, str]:
    """Return the headers of a request that uses a bound token."""
    return {"Authorization": f"DPoP {token}", "DPoP": proof(key, method, path, token=token, **changes)}
