"""Where a host name that somebody else chose may lead: to public addresses, or networks the operator has named.

A name is resolved once, and the connection goes to one of the addresses that were judged: a name server that answers
otherwise a moment later changes nothing (DNS rebinding).
"""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from functools import cache
from time import monotonic
from typing import Final

from ironauth.config.addresses import is_local

#: Addresses of one name that are tried; whose name it is decides how many it has.
MOST_ADDRESSES: Final = 4

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
        super().__init__("the address is not public, and in none of the networks that a setting names for it")


def connected(
    host: str,
    port: int,
    *,
    networks: Sequence[str],
    limit_s: float,
    opened: Callable[[socket.socket], None],
    now: Callable[[], float] = monotonic,
) -> socket.socket:
    """Return a connection to one of the first ``MOST_ADDRESSES`` addresses of ``host``; it blocks.

    ``limit_s`` seconds are for all of it, and each later step on the connection has as many. A name that takes longer
    is waited for as long as the system's resolver does; nothing is connected to then.

    Args:
        host: A name or an address.
        port: The TCP port.
        networks: Networks that may be called although they are not public.
        limit_s: Seconds.
        opened: Called with each socket before it connects, so that somebody else can end it; what it raises ends all.
        now: The clock, in seconds.

    Raises:
        NotPublicError: An address of the host is neither public nor in ``networks``.
        OSError: There is no address, or none answers in time.
    """
    until = now() + limit_s
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if not all(is_permitted(str(where[0]), networks) for *_, where in found):
        raise NotPublicError
    failure: OSError | None = None
    for family, kind, protocol, _, where in found[:MOST_ADDRESSES]:
        left = until - now()
        if left <= 0:
            raise failure or TimeoutError("the name took too long")
        line = socket.socket(family, kind, protocol)
        try:
            opened(line)
            line.settimeout(left)
            line.connect(where)
            line.settimeout(limit_s)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            line.close()
            failure = error
        except BaseException:
            line.close()
            raise
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
