"""Addresses among the settings: the issuer, origins, host names, networks, URLs of services.

Each function returns what may be used, or raises ``ImproperlyConfigured`` in one line that names the variable and the
remedy. Errors of the parsers below are not chained: their messages repeat parts of a URL, such as its password.
"""

import ipaddress
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from ironauth.config.environment import Environment

UNIX_SOCKET = "unix"  # stands for a peer on a Unix socket, see client_address
DEFAULT_PORTS = {"http": 80, "https": 443}
LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"  # RFC 1123 §2.1; Django refuses a Host header with anything else
HOST_NAME = re.compile(rf"{LABEL}(?:\.{LABEL})*")
# The widest networks meant for private use: 10.0.0.0/8 (RFC 1918 §3) and fc00::/7 (RFC 4193 §3.1). Anything wider
# would believe what strangers write in X-Forwarded-For.
WIDEST_NETWORK = {4: 8, 6: 7}
PROXIES = f'list your proxies\' addresses or networks, or the word "{UNIX_SOCKET}"'
PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")  # RFC 3986 §2.3: what nobody needs to escape, or may misread

#: Below which IronAuth answers itself.
OWN_PATHS = ("/account/", "/admin/", "/api/v1/", "/oauth/", "/static/", "/.well-known/")


def is_local(host: str) -> bool:
    """Return whether a host name or an entry of ALLOWED_HOSTS can only mean this machine.

    Loopback addresses, ``localhost`` and what is below it (RFC 6761 §6.3), and ``testserver``, the host of Django's
    test clients, which no public name server knows.
    """
    name = host.strip("[]").removeprefix(".").lower()
    if name in ("localhost", "testserver") or name.endswith(".localhost"):
        return True
    address = _address(name)
    return address is not None and address.is_loopback


def hsts_reach(env: "Environment") -> tuple[bool, bool]:
    """Return whether HSTS is for the hosts below this one too, and whether browsers may list it (IRONAUTH_HSTS).

    Both bind hosts that may belong to somebody else, and the list is hard to leave: no default may say it.
    """
    reach = env.choice("IRONAUTH_HSTS", choices=("host", "subdomains", "preload"), default="host")
    return reach != "host", reach == "preload"


def issuer(value: str, name: str) -> str:
    """Return the issuer: an ``https://`` origin, plain http on loopback only (RFC 8414 §2).

    Written exactly as a browser writes an origin, because issuers are compared byte for byte (RFC 8414 §3.3). A path
    would be legal there, but this server answers ``/.well-known/`` at its root only.

    Args:
        value: The text of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: It is missing, or written in any other way.
    """
    if not value:
        raise ImproperlyConfigured(
            f"{name} is missing: set it to the public https:// origin of this server, e.g. https://id.example.com"
        )
    if not _is_origin(value):
        raise ImproperlyConfigured(
            f"{name} must be an https:// origin in lower case without path, trailing slash, query, fragment, user or "
            "default port (it is compared byte for byte, RFC 8414 §3.3): write it like https://id.example.com"
        )
    if not _is_confidential(value):
        raise ImproperlyConfigured(
            f"{name} must be an https:// origin (RFC 8414 §2), http is for loopback only: write https://"
        )
    return value


def origins(items: Sequence[str], name: str) -> list[str]:
    """Return trusted origins: each ``https://host[:port]`` as browsers send it, plain http on loopback only.

    Args:
        items: The items of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: An item is written in any other way.
    """
    for at, item in enumerate(items, start=1):
        if not _is_origin(item) or not _is_confidential(item):
            raise ImproperlyConfigured(
                f"{name}, item {at}: not an origin as browsers send it (https, lower case, no path, no *; http is for "
                "loopback only): write each like https://app.example.com"
            )
    return list(items)


def folder(value: str, name: str) -> str:
    """Return a path that paths of another kind may stand below.

    Args:
        value: As the operator wrote it: ``/api/token/``, say.
        name: Of the setting.

    Raises:
        ImproperlyConfigured: It does not begin and end with a slash, or it is one that IronAuth has.
    """
    if not re.fullmatch(r"/(?:[A-Za-z0-9._~-]+/)+", value) or value.startswith(OWN_PATHS):
        raise ImproperlyConfigured(
            f"{name} must begin and end with a slash, and be none of {', '.join(OWN_PATHS)}: write it like /api/token/"
        )
    return value


def hosts(items: Sequence[str], name: str) -> list[str]:
    """Return host names for ALLOWED_HOSTS; ``.example.com`` stands for a domain and everything below it.

    Args:
        items: The items of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: There is none, or one is ``*`` or matches no Host header (a URL, a port, a ``*``
            within, IPv6 without brackets).
    """
    if not items:
        raise ImproperlyConfigured(
            f"{name} is empty: set it to the host names this server answers to, e.g. {name}=id.example.com"
        )
    if "*" in items:
        raise ImproperlyConfigured(
            f"{name}=* trusts any Host header: name the hosts this server answers to, e.g. id.example.com"
        )
    for at, item in enumerate(items, start=1):
        if not is_host(item.lower().removeprefix(".")):
            raise ImproperlyConfigured(
                f"{name}, item {at}: not a host name (no scheme, port, path or *): write it like id.example.com, "
                ".example.com with everything below it, 192.0.2.1 or [2001:db8::1]"
            )
    return list(items)


def networks(items: Sequence[str], name: str, *, remedy: str = PROXIES) -> list[str]:
    """Return the reverse proxies' addresses and networks; ``unix`` stands for a peer on a Unix socket.

    Args:
        items: The items of the setting.
        name: The setting, for the error.
        remedy: What the error tells the operator to do.

    Raises:
        ImproperlyConfigured: An item is no address, or a network wider than those for private use.
    """
    for at, item in enumerate(items, start=1):
        if item == UNIX_SOCKET:
            continue
        try:
            network = ipaddress.ip_network(item, strict=False)
        except ValueError:
            network = None
        if network is None or network.prefixlen < WIDEST_NETWORK[network.version]:
            raise ImproperlyConfigured(
                f"{name}, item {at}: not an address or a network of at most the size of 10.0.0.0/8 or fc00::/7: "
                f"{remedy}"
            )
    return list(items)


def private_networks(items: Sequence[str], name: str) -> list[str]:
    """Return networks that are not public and that this server may call all the same.

    Args:
        items: The items of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: An item is no address, the word for a Unix socket, or a network wider than those for
            private use.
    """
    if UNIX_SOCKET in items:
        raise ImproperlyConfigured(
            f'{name}: "{UNIX_SOCKET}" is no network: name addresses or networks, or leave it out'
        )
    return networks(items, name, remedy="list the networks your applications are in")


def range_service(url: str, name: str) -> str:
    """Return the address of a service with the range API of "Have I Been Pwned"; empty stands for none.

    An ``https://`` origin and a path, to which a slash and five characters will be added; plain http on loopback only.

    Args:
        url: The text of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: It is no such address.
    """
    if not url:
        return url
    origin, path = _parts(url)
    if not _is_origin(origin) or not PLAIN_PATH.fullmatch(path):
        raise ImproperlyConfigured(
            f"{name} is not an address of a range API (lower-case host; no slash at the end, query, fragment, user or "
            "default port): write it like https://api.pwnedpasswords.com/range, or leave it empty for none"
        )
    if not _is_confidential(origin):
        raise ImproperlyConfigured(
            f"{name} must begin with https://, http is for loopback only: parts of the hashes of passwords go there"
        )
    return url


def is_service(url: str) -> bool:
    """Return whether this is an ``https://`` origin and a plain path, or plain http on loopback."""
    origin, path = _parts(url)
    return _is_origin(origin) and _is_confidential(origin) and PLAIN_PATH.fullmatch(path) is not None


def _parts(url: str) -> tuple[str, str]:
    """Return what should be an origin, and what should be a path."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}", slash + path


def _is_origin(value: str) -> bool:
    """Return whether ``value`` is an http(s) origin in its one spelling (RFC 6454 §6.2)."""
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme not in DEFAULT_PORTS or port == 0:
        return False
    host = parts.netloc.rpartition("@")[2]
    if port is not None:
        host = host.removesuffix(f":{port}")
    shown = "" if port in (None, DEFAULT_PORTS[parts.scheme]) else f":{port}"
    return is_host(host) and value == f"{parts.scheme}://{host}{shown}"


def _is_confidential(origin: str) -> bool:
    """Return whether nobody on the way can read or change what travels to an origin: TLS, or this machine."""
    parts = urlsplit(origin)
    return parts.scheme == "https" or is_local(parts.hostname or "")


def is_host(text: str) -> bool:
    """Return whether ``text`` is a lower-case host name, an IPv4 address, or an IPv6 address in brackets."""
    if text.startswith("[") and text.endswith("]"):
        address = _address(text[1:-1])
        return address is not None and f"[{address}]" == text and "%" not in text
    if text.rpartition(".")[2].isdigit():  # URL parsers take it for an IPv4 address (WHATWG URL, "ends in a number")
        return _address(text) is not None
    return HOST_NAME.fullmatch(text) is not None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def contacts(values: list[str], name: str) -> list[str]:
    """Return where holes are reported (RFC 9116 §2.5.3).

    Args:
        values: The items of the setting.
        name: The setting, for the error.

    Raises:
        ImproperlyConfigured: An item is no address of mail, the web or a telephone.
    """
    for value in values:
        if not value.startswith(("mailto:", "https://", "tel:")) or not value.isprintable() or " " in value:
            raise ImproperlyConfigured(
                f"{name} has {value!r}: write mailto:name@host, https://host/path or tel:number."
            )
    return values
