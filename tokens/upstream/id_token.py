"""Verifying another provider's ID token (OpenID Connect Core §3.1.3.7): signature, issuer, audience, nonce, time."""

import hmac
from collections.abc import Mapping
from typing import Any, Final

from accounts.federation.errors import UpstreamRefused
from accounts.federation.kinds.kind import ALGORITHMS, Endpoints, ProviderKind
from ironauth.infrastructure.core import clock
from tokens.access import codec
from tokens.clients import assertion
from tokens.clients.keys import ALGORITHMS as ALGORITHMS_OF_KEYS
from tokens.errors import InvalidToken
from tokens.upstream import discovery

LONGEST: Final = 8_192  # characters; a token with two hundred groups of Entra's has 7,000
LEEWAY_S: Final = 60  # seconds that the provider's clock may differ
MAX_AGE_S: Final = 600  # seconds since it was issued; it has just been asked for


async def verified(
    text: str, *, client_id: str, nonce: str, endpoints: Endpoints, kind: ProviderKind
) -> Mapping[str, Any]:
    """Return the claims of an ID token.

    Args:
        text: The token.
        client_id: Ours at the provider.
        nonce: Of this sign-in.
        endpoints: The provider's issuer and keys.
        kind: What else its kind says.

    Raises:
        UpstreamRefused: The first check that fails is its cause.
        UpstreamUnavailable: The keys could not be fetched.
    """
    try:
        header, claims = codec.header_of(text, longest=LONGEST), codec.payload_of(text, longest=LONGEST)
    except InvalidToken as error:
        raise UpstreamRefused(error.reason) from error
    if header.get("alg") not in ALGORITHMS or "crit" in header or "b64" in header:
        raise UpstreamRefused("alg")
    found, fetched_at = await discovery.keys(endpoints.jwks_uri)
    if not _is_signed(text, header, found):
        found, _ = await discovery.keys(endpoints.jwks_uri, newer_than=fetched_at)
        if not _is_signed(text, header, found):
            raise UpstreamRefused("key")
    _require_claims(claims, client_id=client_id, nonce=nonce, issuer=endpoints.issuer, kind=kind)
    return claims


def _is_signed(text: str, header: Mapping[str, Any], keys: list[Mapping[str, Any]]) -> bool:
    alg, kid = header["alg"], header.get("kid")
    return any(
        assertion.has_signed(assertion.public_key(key), alg, text)
        for key in keys
        if alg in ALGORITHMS_OF_KEYS.get((key["kty"], key.get("crv", "")), ())
        and key.get("alg", alg) == alg
        and (kid is None or key.get("kid", kid) == kid)
    )


def _require_claims(claims: Mapping[str, Any], *, client_id: str, nonce: str, issuer: str, kind: ProviderKind) -> None:
    """Raise ``UpstreamRefused`` unless the token is for us, from this provider, for this sign-in, and for now."""
    if not isinstance(claims.get("iss"), str) or not kind.is_issuer(claims["iss"], issuer, claims):
        raise UpstreamRefused("iss")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if client_id not in audiences or (len(audiences) > 1 and claims.get("azp") != client_id):
        raise UpstreamRefused("aud")
    if claims.get("azp", client_id) != client_id:
        raise UpstreamRefused("azp")
    said = claims.get("nonce")
    if not isinstance(said, str) or not hmac.compare_digest(said.encode(), nonce.encode()):
        raise UpstreamRefused("nonce")
    now = clock.unix()
    if not now < _number(claims, "exp") + LEEWAY_S:
        raise UpstreamRefused("exp")
    if not now - MAX_AGE_S - LEEWAY_S < _number(claims, "iat") < now + LEEWAY_S:
        raise UpstreamRefused("iat")


def _number(claims: Mapping[str, Any], name: str) -> float:
    """Return a time of the claims; of long ago where there is none."""
    value = claims.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else float("-inf")
