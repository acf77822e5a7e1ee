"""Where the request being answered comes from, for whatever is recorded about it; services see no request.

The request itself is kept, and looked at only when something is recorded: most requests record nothing.
"""

import ipaddress
import re
import uuid
from contextvars import ContextVar, Token
from functools import lru_cache
from typing import Final, NamedTuple

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from rest_framework.request import Request

from ironauth.config.cookies import DEVICE
from ironauth.infrastructure.hashing import claims
from ironauth.infrastructure.http.client_address import client_address, client_share
from ironauth.infrastructure.http.cookies import policy as cookies
from ironauth.infrastructure.telemetry.request_id import current_request_id
from ironauth.infrastructure.threads.jobs import Claim

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
    """

    address: str = ""
    user_agent: str = ""
    request_id: str = ""
    device: str = ""
    new_device: str = ""


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


@lru_cache(maxsize=1_024)  # asked three times in a sign-in, and of a client's server in each of its requests
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


def printable(text: str, longest: int) -> str:
    """Return the beginning of ``text`` without what could end a line or move a terminal's cursor."""
    text = text[:longest]
    return text if text.isprintable() else "".join(filter(str.isprintable, text))


def _hash_claim() -> Claim:
    caller = caller_id()
    return Claim(network(), "" if caller is None else caller.hex)


claims.register_source(_hash_claim)
