"""Where a provider is asked, and its keys: fetched by its issuer (OpenID Connect Discovery 1.0) and kept for a while.

Keys rotate: a token of an unknown key has them fetched again, at most once a minute. Who asks for something that is on
its way waits for that: anybody can send tokens of keys that do not exist, a thousand at once.
"""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from accounts.federation.errors import UpstreamUnavailable
from accounts.federation.kinds.kind import DISCOVERY, TENANT, Endpoints, ProviderKind
from ironauth.infrastructure.threads.single_flight import SingleFlight
from tokens.clients import assertion
from tokens.clients.keys import problem_of_key
from tokens.upstream import exchange

KEEP_S: Final = 3_600.0  # seconds
KEYS_GAP_S: Final = 60.0  # seconds between two looks for a key that is not there
MOST_KEYS: Final = 50


class ProviderKey(NamedTuple):
    """A public key of a provider: what its JWK says, and the key, imported once."""

    jwk: Mapping[str, Any]
    key: assertion.PublicKey


class _Kept(NamedTuple):
    """Something fetched, and when (monotonic)."""

    value: Any
    fetched_at: float


_endpoints: dict[tuple[UUID, str], _Kept] = {}
_keys: dict[str, _Kept] = {}
_flights: Final = SingleFlight()


async def endpoints(provider_id: UUID, issuer: str, kind: ProviderKind) -> Endpoints:
    """Return where a provider is asked.

    Args:
        provider_id: Which provider.
        issuer: As it is configured.
        kind: Its kind.

    Raises:
        UpstreamUnavailable: It does not answer, or its document is another provider's or incomplete.
    """
    if kind.endpoints is not None:
        return kind.endpoints
    kept = _endpoints.get((provider_id, issuer))
    if kept is None or time.monotonic() - kept.fetched_at >= KEEP_S:
        fresh = await _flights.join(issuer, 0, partial(fetched, issuer))
        kept = _endpoints[provider_id, issuer] = _Kept(fresh, time.monotonic())
    found: Endpoints = kept.value
    return found


async def fetched(issuer: str) -> Endpoints:
    """Return what a provider's discovery document says now.

    Raises:
        UpstreamUnavailable: It does not answer, or its document is another provider's or incomplete.
    """
    document = await exchange.get(issuer.rstrip("/") + DISCOVERY)
    if not isinstance(document, dict):
        raise UpstreamUnavailable("discovery")
    names = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")
    told = [document.get(name) for name in names]
    if not _is_issuer_of(str(told[0]), issuer) or not all(
        isinstance(one, str) and exchange.is_acceptable(one) for one in told[1:]
    ):
        raise UpstreamUnavailable("discovery")
    userinfo = document.get("userinfo_endpoint")
    methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Endpoints(
        issuer=str(told[0]),
        authorization=str(told[1]),
        token=str(told[2]),
        jwks_uri=str(told[3]),
        says_iss=document.get("authorization_response_iss_parameter_supported") is True,
        tells_logout=document.get("backchannel_logout_supported") is True,
        userinfo=userinfo if isinstance(userinfo, str) and exchange.is_acceptable(userinfo) else "",
        auth_methods=tuple(map(str, methods)) if isinstance(methods, list) else (),
    )


def _is_issuer_of(claimed: str, issuer: str) -> bool:
    """Tell whether a document's issuer is the one it was asked for (§4.3).

    Entra's document for all tenants has a template in its place, of the same origin: else one provider's document could
    speak for another one's tenants.
    """
    if claimed in (issuer, issuer.rstrip("/")):
        return True
    return TENANT in claimed and urlsplit(claimed)[:2] == urlsplit(issuer)[:2]


async def keys(uri: str, *, newer_than: float = 0.0) -> tuple[list[ProviderKey], float]:
    """Return a provider's public keys that are of a form we know, and when they were fetched (monotonic).

    Args:
        uri: Of its key set.
        newer_than: When the copy was fetched that lacked a key; it is fetched again, unless it was a minute ago.

    Raises:
        UpstreamUnavailable: It does not answer, or with something else.
    """
    kept, now = _keys.get(uri), time.monotonic()
    stale = kept is None or now - kept.fetched_at >= KEEP_S
    lacking = kept is not None and kept.fetched_at <= newer_than and now - kept.fetched_at >= KEYS_GAP_S
    if stale or lacking:
        kept = await _flights.join(uri, 0, partial(_fetch_keys, uri))
    assert kept is not None
    return kept.value, kept.fetched_at


async def _fetch_keys(uri: str) -> _Kept:
    """Fetch the keys at an address, and keep those that are of a form we know."""
    now = time.monotonic()
    document = await exchange.get(uri)
    found = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise UpstreamUnavailable("keys")
    usable = [
        ProviderKey(key, assertion.public_key(key))
        for key in found[:MOST_KEYS]
        if isinstance(key, dict) and not _is_unusable(key)
    ]
    kept = _keys[uri] = _Kept(usable, now)
    return kept


def forget() -> None:
    """Drop everything fetched; a provider was changed."""
    _endpoints.clear()
    _keys.clear()


def _is_unusable(key: dict[str, Any]) -> bool:
    return key.get("use", "sig") != "sig" or bool(problem_of_key(key))
