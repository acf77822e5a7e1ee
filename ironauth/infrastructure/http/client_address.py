"""Whose request this is: the peer's address, or what a *configured* proxy says about it."""

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from rest_framework.request import Request

from ironauth.infrastructure.core.live_settings import live

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: Stands for a peer on a Unix socket in IRONAUTH_TRUSTED_PROXIES.
UNIX_SOCKET = "unix"
IPV6 = 6
#: What proxies add to a request that they pass on.
_FORWARDED_FIELDS = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA", "HTTP_X_FORWARDED_PROTO")
HOST_BITS = 64  # of an IPv6 address: those below the network's, RFC 4291 §2.5.1
SITE_HOST_BITS = 80  # below a /48: the most that one customer is given, RFC 6177 §2


@lru_cache(maxsize=8)  # one entry per process; more only in tests that override the setting
def _trusted(proxies: tuple[str, ...]) -> tuple[frozenset[str], tuple[Network, ...]]:
    words = frozenset(word for word in proxies if word == UNIX_SOCKET)
    try:
        return words, tuple(ipaddress.ip_network(item, strict=False) for item in proxies if item not in words)
    except ValueError as error:
        raise ImproperlyConfigured(
            f'IRONAUTH_TRUSTED_PROXIES: {error}; list addresses, CIDR networks, or the word "{UNIX_SOCKET}"'
        ) from error


def _address(text: str) -> Address | None:
    """Parse one hop: an address, with an optional port; IPv4 in IPv6 clothing comes back as IPv4."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_trusted(peer: str, proxies: tuple[str, ...]) -> bool:
    """Return whether the peer (empty: on a Unix socket) is a configured proxy."""
    words, networks = _trusted(proxies)
    hop = _address(peer) if peer else None
    return any(hop in network for network in networks) if hop is not None else UNIX_SOCKET in words and not peer


def _resolve(peer: str, forwarded: str, proxies: tuple[str, ...]) -> str:
    """Walk X-Forwarded-For from the right while each hop is a trusted proxy."""
    if not _is_trusted(peer, proxies):
        return peer
    _, networks = _trusted(proxies)
    hop = _address(peer) if peer else None
    for entry in reversed(forwarded.split(",")):
        previous = _address(entry)
        if previous is None:
            break  # the proxy wrote something that is not an address: the last hop known is the best answer
        hop = previous
        if not any(hop in network for network in networks):
            break
    return str(hop) if hop is not None else ""


def _from_scope(scope: Mapping[str, Any]) -> tuple[str, str]:
    client = scope.get("client")
    forwarded = b",".join(value for name, value in scope.get("headers", ()) if name == b"x-forwarded-for")
    return (client[0] if client else "") or "", forwarded.decode("latin1")


def client_address(source: HttpRequest | Request | dict[str, Any]) -> str:
    """Return the client's IP address, "" for an unknown one (a Unix socket without a trusted proxy).

    ``X-Forwarded-For`` is believed only from a peer in IRONAUTH_TRUSTED_PROXIES: the right-most entry that is
    not itself a trusted proxy is the client; everything left of it can be forged.

    Errors: `ImproperlyConfigured` for a setting that is neither network nor "unix".
    """
    proxies = live.IRONAUTH_TRUSTED_PROXIES
    if isinstance(source, dict):
        if not proxies:
            client = source.get("client")
            return (client[0] if client else "") or ""
        return _resolve(*_from_scope(source), tuple(proxies))
    meta = source.META
    peer: str = meta.get("REMOTE_ADDR", "") or ""
    if not proxies:
        return peer
    return _resolve(peer, meta.get("HTTP_X_FORWARDED_FOR", ""), tuple(proxies))


def is_local(request: HttpRequest | Request) -> bool:
    """Return whether the caller is on this machine: it comes by loopback or the Unix socket, and by no proxy."""
    meta = request.META
    if any(field in meta for field in _FORWARDED_FIELDS):
        return False
    peer = _address(meta.get("REMOTE_ADDR") or "")
    return peer.is_loopback if peer is not None else not meta.get("REMOTE_ADDR")


def client_network(address: str) -> str:
    """Return what stands for the client at ``address`` when it is counted, "" for an address that is none.

    An IPv6 address counts as its /64: that much is given to a single household or machine (RFC 6177 §2), which could
    else have a new address for every try. IPv4 in IPv6 clothing is IPv4.
    """
    found = _address(address.partition("%")[0])
    if found is None:
        return ""
    return _around(found, HOST_BITS) if found.version == IPV6 else str(found)


def client_site(address: str) -> str:
    """Return the /48 around an IPv6 client, "" for any other: that much can be rented, and has 65,536 networks."""
    found = _address(address.partition("%")[0])
    return _around(found, SITE_HOST_BITS) if found is not None and found.version == IPV6 else ""


def client_share(address: str) -> str:
    """Return what shares of a bounded resource are counted by: an IPv4 address, of an IPv6 address the /48."""
    return client_site(address) or client_network(address)


def _around(address: Address, host_bits: int) -> str:
    """Return the IPv6 network around ``address``."""
    return str(ipaddress.ip_network((int(address) >> host_bits << host_bits, 128 - host_bits)))


def is_from_proxy(scope: dict[str, Any]) -> bool:
    """Return whether the peer is in IRONAUTH_TRUSTED_PROXIES: what it adds to a request may be believed."""
    client = scope.get("client")
    return _is_trusted((client[0] if client else "") or "", tuple(live.IRONAUTH_TRUSTED_PROXIES))


def with_forwarded_scheme(scope: dict[str, Any]) -> dict[str, Any]:
    """Return ``scope`` with the scheme the client used, where a configured proxy ended TLS and names it.

    Django's SECURE_PROXY_SSL_HEADER would believe the header from any peer.
    """
    if not is_from_proxy(scope):
        return scope
    said = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    return {**scope, "scheme": "https"} if said == [b"https"] else scope
