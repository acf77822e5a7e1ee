"""Verifying what another provider signs: ID tokens (OpenID Connect Core §3.1.3.7) and logout tokens.

Logout tokens: OpenID Connect Back-Channel Logout 1.0 §2.6.
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

from accounts.federation.errors import UpstreamRefused
from accounts.federation.kinds.kind import ALGORITHMS, Endpoints, ProviderKind
from ironauth.infrastructure.core import clock
from tokens.access import codec
from tokens.clients import assertion
from tokens.clients.keys import may_have_signed
from tokens.errors import InvalidToken
from tokens.upstream import discovery
from tokens.upstream.discovery import ProviderKey

LONGEST: Final = 8_192  # characters; a token with two hundred groups of Entra's has 7,000
LEEWAY_S: Final = 60  # seconds that the provider's clock may differ
MAX_AGE_S: Final = 600  # seconds since it was issued; it has just been asked for


#: What logout tokens may call themselves: the specification recommends the second.
LOGOUT_TYPES: Final = ("JWT", "logout+jwt")
LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
#: Seconds a logout token may be good for, at most; the specification recommends two minutes.
LOGOUT_LIFE_S: Final = 3_600


class SignedOut(NamedTuple):
    """What a logout token says: whose sessions have ended, or which one. ``id``: what stands for the token."""

    id: UUID
    expires_at: int
    subject: str
    sid: str


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
    claims, _ = await _signed(text, endpoints)
    _require_issuer(claims, client_id=client_id, issuer=endpoints.issuer, kind=kind)
    said = claims.get("nonce")
    if not isinstance(said, str) or not hmac.compare_digest(said.encode(), nonce.encode()):
        raise UpstreamRefused("nonce")
    _require_time(claims)
    if _number(claims, "auth_time") >= clock.unix() + LEEWAY_S:
        raise UpstreamRefused("auth_time")
    return claims


async def signed_out(text: str, *, client_id: str, endpoints: Endpoints, kind: ProviderKind) -> SignedOut:
    """Return what a logout token says (Back-Channel Logout 1.0 §2.6).

    Args:
        text: The token.
        client_id: Ours at the provider.
        endpoints: The provider's issuer and keys.
        kind: What else its kind says.

    Raises:
        UpstreamRefused: The first check that fails is its cause.
        UpstreamUnavailable: The keys could not be fetched.
    """
    claims, header = await _signed(text, endpoints)
    if header.get("typ", "JWT") not in LOGOUT_TYPES:
        raise UpstreamRefused("typ")
    _require_issuer(claims, client_id=client_id, issuer=endpoints.issuer, kind=kind)
    _require_time(claims)
    events = claims.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
        raise UpstreamRefused("events")
    if "nonce" in claims:  # else an ID token could pass for one
        raise UpstreamRefused("nonce")
    subject, sid, jti = (claims.get(name, "") for name in ("sub", "sid", "jti"))
    if not (isinstance(subject, str) and isinstance(sid, str) and (subject or sid)):
        raise UpstreamRefused("subject")
    expires_at = int(_number(claims, "exp")) + LEEWAY_S
    if not isinstance(jti, str) or not jti or expires_at > clock.unix() + LOGOUT_LIFE_S:
        raise UpstreamRefused("jti")
    digest = sha256(f"{endpoints.issuer}\0{jti}".encode()).digest()
    whose = kind.person(claims).subject if subject else ""
    return SignedOut(UUID(bytes=digest[:16]), expires_at, whose, sid)


async def _signed(text: str, endpoints: Endpoints) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return claims and header of a token that one of the provider's keys has signed.

    Raises:
        UpstreamRefused: None has, or it is no token.
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
    return claims, header


def _is_signed(text: str, header: Mapping[str, Any], keys: list[ProviderKey]) -> bool:
    alg, kid = header["alg"], header.get("kid")
    return any(
        assertion.has_signed(key, alg, text)
        for jwk, key in keys
        if may_have_signed(jwk, alg) and (kid is None or jwk.get("kid", kid) == kid)
    )


def _require_issuer(claims: Mapping[str, Any], *, client_id: str, issuer: str, kind: ProviderKind) -> None:
    """Raise ``UpstreamRefused`` unless the token is for us and from this provider."""
    if not isinstance(claims.get("iss"), str) or not kind.is_issuer(claims["iss"], issuer, claims):
        raise UpstreamRefused("iss")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if client_id not in audiences or (len(audiences) > 1 and claims.get("azp") != client_id):
        raise UpstreamRefused("aud")
    if claims.get("azp", client_id) != client_id:
        raise UpstreamRefused("azp")


def _require_time(claims: Mapping[str, Any]) -> None:
    """Raise ``UpstreamRefused`` unless the token was made just now, and is in force."""
    now = clock.unix()
    if not now < _number(claims, "exp") + LEEWAY_S:
        raise UpstreamRefused("exp")
    if not now - MAX_AGE_S - LEEWAY_S < _number(claims, "iat") < now + LEEWAY_S:
        raise UpstreamRefused("iat")


def _number(claims: Mapping[str, Any], name: str) -> float:
    """Return a time of the claims; of long ago where there is none."""
    value = claims.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else float("-inf")
