"""Addresses that a client registers and this server or a person opens: which ones are accepted."""

import re
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from ironauth.infrastructure.outbound.public_addresses import may_be_called
from tokens.clients import redirect_uris

#: A fragment of an address of a request says what is in it (OpenID Connect Core §6.2), and is never sent.
_FRAGMENT: Final = re.compile(r"[A-Za-z0-9._~-]{1,128}", re.ASCII)


def problem_of(uri: str) -> str | None:
    """Return why this server fetches nothing from an address, ending with the remedy; None for a good one.

    By its text alone; where its name leads is judged when it is asked.

    Args:
        uri: The address.
    """
    problem = problem_of_link(uri)
    networks = settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS
    if problem is None and not may_be_called(urlsplit(uri).hostname or "", networks):
        return "The host is in a private network: choose a public one, or name it in IRONAUTH_CLIENT_DOCUMENT_NETWORKS."
    return problem


def networks_of_logout(*, by_staff: bool) -> list[str]:
    """Return the networks that are not public and in which a client may hear of sign-outs all the same.

    An operator who has applications of the house there has not let strangers send requests into them. Staff who verify
    a stranger's client have seen a name, and its owner says where that leads, now and later.

    Args:
        by_staff: Whether staff have made the client.
    """
    return settings.IRONAUTH_LOGOUT_NETWORKS if by_staff else settings.IRONAUTH_CLIENT_DOCUMENT_NETWORKS


def problem_of_request(uri: str) -> str | None:
    """Return why no request object is fetched from an address; it may have a fragment.

    Args:
        uri: The address.
    """
    address, hashed, fragment = uri.partition("#")
    if hashed and not _FRAGMENT.fullmatch(fragment):
        return "The fragment is the SHA-256 of the request in base64url (OpenID Connect Core §6.2): correct it."
    return problem_of(address)


def problem_of_link(uri: str) -> str | None:
    """Return why an address is no page that people can be shown; None for a good one.

    Args:
        uri: The address.
    """
    if not uri.startswith("https://"):
        return "Only https:// addresses are taken here: write one."
    return redirect_uris.problem_of(uri)
