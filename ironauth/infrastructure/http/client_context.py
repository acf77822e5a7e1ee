"""Where the request being answered comes from, for whatever is recorded about it; services see no request.

The request itself is kept, and looked at only when something is recorded: most requests record nothing. Its address is
the peer's, or the one that a *configured* proxy names.
"""

import ipaddress
import re
import uuid
from collections.abc import Mapping
from contextvars import ContextVar, Token
from functools import lru_cache
from typing import Any, Final, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from rest_framework.request import Request

from ironauth.config.cookies import AUTHORIZE, DEVICE, KEPT_DEVICE
from ironauth.infrastructure.core.ids import current_request_id
from ironauth.infrastructure.core.live_settings import live
from ironauth.infrastructure.hashing import claims
from ironauth.infrastructure.http import cookies
from ironauth.infrastructure.threads.job_queues import Claim

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: Stands for a peer on a Unix socket in IRONAUTH_TRUSTED_PROXIES.
UNIX_SOCKET = "unix"
IPV6 = 6
#: What proxies add to a request that they pass on.
_FORWARDED_FIELDS = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA", "HTTP_X_FORWARDED_PROTO")
_own_paths: tuple[str, ...] = ()  # see `register_own_paths`
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

    Raises:
        ImproperlyConfigured: An item of the setting is neither a network nor "unix".
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


def came_by_proxy(request: HttpRequest) -> bool:
    """Return the same for a request of Django's."""
    return _is_trusted(request.META.get("REMOTE_ADDR", "") or "", tuple(live.IRONAUTH_TRUSTED_PROXIES))


def with_forwarded_scheme(scope: dict[str, Any]) -> dict[str, Any]:
    """Return ``scope`` with the scheme the client used, where a configured proxy ended TLS and names it.

    Django's SECURE_PROXY_SSL_HEADER would believe the header from any peer.
    """
    if not is_from_proxy(scope):
        return scope
    said = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    return {**scope, "scheme": "https"} if said == [b"https"] else scope


USER_AGENT_CHARACTERS: Final = 255  # what a person needs to recognise a device; the columns' size
_DEVICE: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # base64url of 32 bytes
_request: ContextVar[HttpRequest | None] = ContextVar("ironauth_request", default=None)


class ClientContext(NamedTuple):
    """Where a request comes from; empty strings where nothing is known, as in a command.

    Attributes:
        address: The client's IP address.
        user_agent: The User-Agent header, cut to ``USER_AGENT_CHARACTERS``.
        request_id: The id that log lines and audit events of the request carry.
        device: The value of the browser's device cookie. Only MACs of it are stored.
        new_device: The value that the device cookie gets with the response. Only MACs of it are stored.
        kept_device: The secret of the browser that may stand in for a second factor, where the view may use it.
        previous: The refresh token whose cookie the response replaces, where it does.
        replaces: The id of the session of that cookie, where it was looked at before the browser went to another site.
        browser: What our pages know the browser by, where the response gives it cookies. Only MACs of it are stored.
    """

    address: str = ""
    user_agent: str = ""
    request_id: str = ""
    device: str = ""
    new_device: str = ""
    kept_device: str = ""
    previous: str = ""
    replaces: str = ""
    browser: str = ""


def current() -> ClientContext:
    """Return the context of the current request, also on a pool's thread; an empty one outside a request."""
    request = _request.get()
    if request is None:
        return ClientContext(request_id=current_request_id())
    return context_of(request)


def context_of(request: HttpRequest | Request) -> ClientContext:
    """Return the context of ``request``."""
    return ClientContext(address_of(request), user_agent_of(request), current_request_id(), device_of(request))


def admin_user_id() -> uuid.UUID | None:
    """Return who uses Django's admin in this request; None anywhere else. Only for the admin's own threads."""
    user = getattr(_request.get(), "user", None)
    user_id = getattr(user, "pk", None)  # Django's AnonymousUser has None, the API's callers have no such thing
    return user_id if isinstance(user_id, uuid.UUID) else None


def caller_id() -> uuid.UUID | None:
    """Return who is known to make the request being answered; None for anybody else. Asks no database.

    The API's callers are known by their token; users of Django's admin once something has asked for them.
    """
    request = _request.get()
    if request is None:
        return None
    user = vars(request).get("user")
    if type(user) is SimpleLazyObject:  # to look at it would be to ask the database, on an event loop perhaps
        user = vars(request).get("_cached_user")
    user_id = getattr(user, "pk", None)
    return user_id if isinstance(user_id, uuid.UUID) else None


def register_own_paths(*prefixes: str) -> None:
    """Declare paths below which the caller acts for themselves, and their own language counts.

    Args:
        prefixes: Of the path, with the leading slash. The application that answers them registers them when it starts.
    """
    global _own_paths  # noqa: PLW0603 - grows while applications start, before the first request
    _own_paths = tuple(dict.fromkeys((*_own_paths, *prefixes)))


def own_request() -> HttpRequest | None:
    """Return the request being answered where its path is a registered one: not in the admin, nor for staff."""
    request = _request.get()
    return request if request is not None and request.path_info.startswith(_own_paths) else None


def page_request() -> HttpRequest | None:
    """Return the request being answered, for what a page says to its browser; None outside of one."""
    return _request.get()


def network() -> str:
    """Return what the client of the request being answered shares with as few others as it can; "" outside of one.

    An IPv4 address; of an IPv6 address the /48: a rented one has 65,536 networks of a household's size.
    """
    request = _request.get()
    if request is None:
        return ""
    return client_share(address_of(request))


def enter(request: HttpRequest) -> Token[HttpRequest | None]:
    """Make ``request`` current in this context; give the result to `leave`."""
    return _request.set(request)


def leave(token: Token[HttpRequest | None]) -> None:
    """Restore what was current before `enter`."""
    _request.reset(token)


def address_of(request: HttpRequest | Request) -> str:
    """Return the client's address, fit to be stored; "" for a Unix socket, or a proxy that names nobody."""
    return _spelled(client_address(request))


@lru_cache(maxsize=1_024)  # asked up to three times in a request, and of a client's server in each of its own
def _spelled(address: str) -> str:
    """Return the one spelling of an address, without an IPv6 zone; "" for what is none."""
    try:
        return str(ipaddress.ip_address(address.partition("%")[0]))
    except ValueError:
        return ""


def user_agent_of(request: HttpRequest | Request) -> str:
    """Return what the client calls itself, fit to be stored and shown: bounded, and without control characters."""
    return printable(request.META.get("HTTP_USER_AGENT", ""), USER_AGENT_CHARACTERS)


def device_of(request: HttpRequest | Request) -> str:
    """Return what the browser is known by; "" without the cookie, or when it says what no server of ours gave it."""
    device: str = request.COOKIES.get(cookies.name_of(DEVICE), "")
    return device if _DEVICE.fullmatch(device) else ""


def browser_of(request: HttpRequest | Request) -> str:
    """Return what our pages know the browser by; "" without the cookie, or when it has another form."""
    browser: str = request.COOKIES.get(cookies.name_of(AUTHORIZE), "")
    return browser if _DEVICE.fullmatch(browser) else ""


def current_browser() -> str:
    """Return what our pages know the browser of the request being answered by, also on a pool's thread; "" as above."""
    request = _request.get()
    return browser_of(request) if request is not None else ""


def kept_device_of(request: HttpRequest | Request) -> str:
    """Return the secret of a browser that was kept; "" without the cookie, and where IRONAUTH_KEEP_DEVICE_DAYS is 0."""
    if not live.IRONAUTH_KEEP_DEVICE_DAYS:
        return ""
    device: str = request.COOKIES.get(cookies.name_of(KEPT_DEVICE), "")
    return device if _DEVICE.fullmatch(device) else ""


def printable(text: str, longest: int) -> str:
    """Return the beginning of ``text`` without what could end a line or move a terminal's cursor.

    Args:
        text: What a client sent.
        longest: Characters that are kept.
    """
    text = text[:longest]
    return text if text.isprintable() else "".join(filter(str.isprintable, text))


def _hash_claim() -> Claim:
    caller = caller_id()
    return Claim(network(), "" if caller is None else caller.hex)


claims.register_source(_hash_claim)
