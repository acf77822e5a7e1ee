"""Identifiers of resources (RFC 8707 §2): absolute URIs, compared as texts; and the one of this server's own API.

A list of them is one text, separated by spaces, wherever it is stored or handed on: no URI has a space in it.
"""

import re
from collections.abc import Iterable
from typing import Final

from django.conf import settings

from ironauth.config.addresses import is_host

MAX_CHARACTERS: Final = 200  # of one: five of them have to fit into a token of 4 KiB
MAX_ASKED: Final = 5  # that one token may be for
LIST_CHARACTERS: Final = MAX_ASKED * (MAX_CHARACTERS + 56)  # with the setting's own audience among them, 255 long
#: RFC 3986 §2: the characters of a URI, less ``#``.
_URI: Final = re.compile(r"([a-z][a-z0-9+.-]*):((?:[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+)", re.ASCII)
_WEB: Final = re.compile(r"//([^/?@:]*|\[[^\]@]*\])(?::([1-9][0-9]{0,4}))?(/[^?]*)?", re.ASCII)
_WRITE: Final = "write it like https://api.example.com/orders"


def own() -> str:
    """Return the audience of this server's own API: what tokens are for that name no resource."""
    return str(settings.IRONAUTH_AUDIENCE)


def listed(audience: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the audiences of an ``aud``, which is one text or several."""
    return (audience,) if isinstance(audience, str) else audience


def asked(text: str) -> tuple[str, ...]:
    """Return the identifiers of a list as they are compared, each once.

    A bare origin may have a slash behind it, which libraries that parse addresses add (RFC 3986 §6.2.3). The issuer
    stands for this server's own API, whose metadata name it.

    Args:
        text: The parameters ``resource`` of a request, separated by spaces, or a stored list.
    """
    return tuple(dict.fromkeys(map(_normal, text.split())))


def joined(identifiers: Iterable[str]) -> str:
    """Return a list as it is stored."""
    return " ".join(identifiers)


def _normal(identifier: str) -> str:
    plain = identifier[:-1] if identifier.endswith("/") and identifier.count("/") == 3 else identifier  # noqa: PLR2004 - two before the host, one behind it
    return own() if plain == settings.IRONAUTH_ISSUER else plain


def problem_of(identifier: str) -> str | None:
    """Return why a resource cannot have this identifier, ending with the remedy; None for one that it can have."""
    if not 1 <= len(identifier) <= MAX_CHARACTERS:
        return f"An identifier has 1 to {MAX_CHARACTERS} characters: {_WRITE}."
    if "#" in identifier:
        return "An identifier has no fragment (RFC 8707 §2): leave out # and what follows."
    parts = _URI.fullmatch(identifier)
    if parts is None:
        return f"An identifier is an absolute URI with its scheme in lower case: {_WRITE}."
    if _normal(identifier) == own():
        return "This is the audience of this server's own API, which needs no registration: choose another."
    return _problem_of_web(parts[2]) if parts[1] in ("http", "https") else None


def _problem_of_web(rest: str) -> str | None:
    """Return what is wrong with an address behind its scheme."""
    web = _WEB.fullmatch(rest)
    if web is None or not is_host(web[1]):
        return f"The host is no name in lower case or IP address, or a query follows: {_WRITE}."
    return "The address of a whole host has no slash at its end: leave it out." if web[3] == "/" else None
