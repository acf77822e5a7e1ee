"""Names of clients that are addresses: which ones are accepted, and the id of the row that stands for one."""

import hashlib
import ipaddress
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings

from ironauth.config.addresses import is_local
from tokens.clients import redirect_uris
from tokens.clients.models import DOCUMENT_CHARACTERS

#: The bits of a UUID that say of which kind it is, and their value for one of our own making (RFC 9562 §5.8).
_FIXED: Final = 0xF000 << 64 | 0xC000 << 48
_VERSION_8: Final = 0x8000 << 64 | 0x8000 << 48


def is_accepted(text: str) -> bool:
    """Return whether a text is the address of a document that may be fetched.

    Https, with a path, in one spelling: no user, fragment, escape or part of the path that two readers take for
    different things (draft-ietf-oauth-client-id-metadata-document-02 §3). The host is a public name that
    IRONAUTH_CLIENT_DOCUMENT_HOSTS allows; where it leads is judged when it is asked.

    Args:
        text: The ``client_id`` as it was received.
    """
    if len(text) > DOCUMENT_CHARACTERS or not text.startswith("https://") or redirect_uris.problem_of(text) is not None:
        return False
    parts = urlsplit(text)
    host = parts.hostname or ""
    if not parts.path or is_local(host) or "." not in host or _is_ip(host):
        return False
    allowed, blocked = settings.IRONAUTH_CLIENT_DOCUMENT_HOSTS, settings.IRONAUTH_CLIENT_DOCUMENT_BLOCKED_HOSTS
    return not _is_among(host, blocked) and (not allowed or _is_among(host, allowed))


def id_of(url: str) -> UUID:
    """Return the id of the row that stands for the client of this address.

    Made of 122 bits of its SHA-256: nobody finds an address that stands for another's client.

    Args:
        url: The address.
    """
    number = int.from_bytes(hashlib.sha256(f"client document\0{url}".encode()).digest()[:16])
    return UUID(int=number & ~_FIXED | _VERSION_8)


def _is_among(host: str, hosts: Sequence[str]) -> bool:
    """Return whether a host is one of these, or below one that begins with a dot."""
    return any(host == one or (one.startswith(".") and host.endswith(one)) for one in hosts)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
