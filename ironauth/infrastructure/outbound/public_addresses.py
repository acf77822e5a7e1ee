"""Where a host name that somebody else chose may lead: to public addresses, or networks the operator has named.

A name is resolved once, and the connection goes to one of the addresses that were judged: a name server that answers
otherwise a moment later changes nothing (DNS rebinding).
"""

import ipaddress
import socket
from collections.abc import Sequence
from functools import cache
from typing import Final

from ironauth.config.addresses import is_local

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: All of IPv6 that is routed on the Internet (RFC 4291 §2.4), and the prefix that stands for IPv4 (RFC 6052 §2.1).
_ROUTED_6: Final = ipaddress.IPv6Network("2000::/3")
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
_LOW_32: Final = 0xFFFF_FFFF
#: What Python's `is_global` takes for public: 6to4 relays (RFC 7526), the host of a virtual machine at Azure, ORCHIDv2
#: identifiers (RFC 7343), and documentation (RFC 9637).
_NO_HOSTS: Final = tuple(map(ipaddress.ip_network, ("192.88.99.0/24", "168.63.129.16/32", "2001:20::/28", "3fff::/20")))


class NotPublicError(OSError):
    """The host is in a network that nobody has allowed; the text names neither."""

    def __init__(self) -> None:
        super().__init__("the address is not public, and in no network of IRONAUTH_LOGOUT_NETWORKS")


def connected(host: str, port: int, *, networks: Sequence[str], limit_s: float) -> socket.socket:
    """Return a connection to ``host``, each step of which takes at most ``limit_s`` seconds; it blocks.

    Args:
        host: A name or an address.
        port: The TCP port.
        networks: Networks that may be called although they are not public.
        limit_s: Seconds for each step.

    Raises:
        NotPublicError: An address of the host is neither public nor in ``networks``.
        OSError: There is no address, or none answers.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if not all(is_permitted(str(where[0]), networks) for *_, where in found):
        raise NotPublicError
    failure: OSError | None = None
    for family, kind, protocol, _, where in found:
        line = socket.socket(family, kind, protocol)
        try:
            line.settimeout(limit_s)
            line.connect(where)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            line.close()
            failure = error
        else:
            return line
    raise failure or OSError("the host has no address")


def may_be_called(host: str, networks: Sequence[str]) -> bool:
    """Return whether a host may be called, judged by its text alone; where a name leads is judged when it is called.

    Args:
        host: A name or an address.
        networks: Networks that may be called although they are not public.
    """
    if is_local(host):
        return is_permitted(host if _is_address(host) else "127.0.0.1", networks)
    return not _is_address(host) or is_permitted(host, networks)


def is_permitted(text: str, networks: Sequence[str]) -> bool:
    """Tell whether an address is public, or in one of ``networks``; an IPv6 zone makes it neither.

    Args:
        text: An address.
        networks: Networks that may be called although they are not public.
    """
    if not _is_address(text):
        return False
    address = ipaddress.ip_address(text)
    meant = _meant(address)
    if any(one in known for one in (address, meant) for known in map(_network, networks)):
        return True
    return _is_public(address) and _is_public(meant)


def _meant(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & _LOW_32)
    return address.ipv4_mapped or address


def _is_public(address: Address) -> bool:
    if any(address in network for network in _NO_HOSTS):
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast
    return address in _TRANSLATED or (address in _ROUTED_6 and address.is_global)


def _is_address(text: str) -> bool:
    try:
        return getattr(ipaddress.ip_address(text), "scope_id", None) is None
    except ValueError:
        return False


@cache
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(text, strict=False)
