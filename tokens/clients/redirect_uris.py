"""Redirect URIs: which ones a client may register, and which registered one the URI of a request is equal to.

They are compared as texts (RFC 9700 §2.1, §4.1.3). Whatever two parsers may disagree about (case, escapes, dots) is
refused at registration, so a request with it equals nothing that is registered. One exception: the port of a loopback
address, which an application on a person's device learns when it starts to listen (RFC 8252 §7.3).
"""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl

from ironauth.config.addresses import is_host
from tokens.clients.models import URI_CHARACTERS

#: Loopback addresses as RFC 8252 §7.3 writes them. Not ``localhost``: its port stays as registered, because a name
#: may lead elsewhere (RFC 8252 §8.3); for a web application under development that is all it takes.
_LOOPBACK: Final = re.compile(r"http://(127\.0\.0\.1|\[::1\])(?::([1-9][0-9]{0,4}))?((?:[/?].*)?)", re.ASCII)
_LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "[::1]", "localhost"})
_MAX_PORT: Final = 65_535
#: RFC 3986 §2: the characters of a URI, less ``#`` (RFC 6749 §3.1.2) and ``*``, which would look like a pattern.
_CHARACTERS: Final = re.compile(r"(?:[A-Za-z0-9._~:/?\[\]@!$&'()+,;=-]|%[0-9A-Fa-f]{2})+", re.ASCII)
_WEB: Final = re.compile(r"(https?)://([^/?]*)([^?]*)(?:\?(.*))?", re.ASCII)
_PRIVATE_USE: Final = re.compile(r"([a-z][a-z0-9+-]*(?:\.[a-z0-9+-]+)+):(/[^?]*)(?:\?(.*))?", re.ASCII)
_AUTHORITY: Final = re.compile(r"(\[[^\]@]*\]|[^:@\[\]]*)(?::([0-9]*))?", re.ASCII)
#: What some reader of the path decodes into something else: controls, ``%``, ``.``, ``/``, ``\``.
_MISLEADING: Final = re.compile(r"%(?:[01][0-9A-F]|25|2E|2F|5C|7F)", re.ASCII | re.IGNORECASE)
_ENCODED_CONTROL: Final = re.compile(r"%(?:[01][0-9A-F]|7F)", re.ASCII | re.IGNORECASE)
#: What the answer adds: a second one of the same name would be somebody else's (RFC 6749 §3.1).
_ANSWERED: Final = frozenset({
    "code", "state", "iss", "error", "error_description", "error_uri", "response", "session_state",
    "access_token", "id_token", "token_type", "expires_in", "scope",
})  # fmt: skip
_WRITE: Final = "write it like https://app.example.com/callback"


def matches(registered: Sequence[str], given: str) -> bool:
    """Return whether ``given`` is one of the addresses registered, by every character but a loopback address's port.

    Args:
        registered: The addresses of the client.
        given: The address of the request, not yet judged.
    """
    if given in registered:
        return True
    sent = _loopback(given)
    return sent is not None and any(_loopback(uri) == sent for uri in registered)


def problem_of(uri: str) -> str | None:
    """Return why an address cannot be registered, ending with the remedy; None for one that can.

    ``https`` anywhere, ``http`` on this machine only, and schemes of an application's own as in RFC 8252 §7.1, which
    ``is_private_use`` tells: only a public client may have them.
    """
    problem = _problem_of_text(uri)
    if problem is not None:
        return problem
    if not is_private_use(uri):
        return _problem_of_web(uri)
    private = _PRIVATE_USE.fullmatch(uri)
    if private is None:
        return (
            f"Only https:// addresses, http:// on this machine, and a reversed domain name as scheme with one slash "
            f"(RFC 8252 §7.1) can be registered: {_WRITE} or com.example.app:/callback."
        )
    return _problem_of_path(private[2]) or _problem_of_query(private[3])


def any_program_may_claim(uri: str) -> bool:
    """Return whether some other program on a person's device may be what answers at a registered address.

    A client without secret is known by where the answer goes. A scheme of its own, and a port of this machine, any
    program can claim; so nothing is answered there without somebody looking, whatever was allowed before (RFC 8252
    §8.6). Of addresses with ``http`` only such are registered.

    Args:
        uri: The address.
    """
    return not uri.startswith("https:")


def is_private_use(uri: str) -> bool:
    """Return whether an application on a device claims the address by its scheme, which nothing keeps to itself."""
    return not uri.startswith(("http:", "https:"))


def _loopback(uri: str) -> tuple[str, str] | None:
    """Return the host of a loopback address and what follows its port; None for any other address."""
    found = _LOOPBACK.fullmatch(uri)
    if found is None or int(found[2] or 0) > _MAX_PORT:
        return None
    return found[1], found[3]


def _problem_of_text(uri: str) -> str | None:
    if not uri or len(uri) > URI_CHARACTERS:
        return f"An address has 1 to {URI_CHARACTERS:,} characters: {_WRITE}."
    if "#" in uri:
        return "An address has no fragment (RFC 6749 §3.1.2): leave out # and what follows."
    if "*" in uri:
        return "Addresses are compared character by character, * stands for nothing: register each address."
    if not _CHARACTERS.fullmatch(uri):
        return (
            "An address has no spaces, controls, backslashes, quotes or letters beyond ASCII: write a host name "
            "as xn--…, anything else as %XX."
        )
    return None


def _problem_of_web(uri: str) -> str | None:
    parts = _WEB.fullmatch(uri)
    authority = _AUTHORITY.fullmatch(parts[2]) if parts else None
    if parts is None or authority is None:
        return f"This is no address of a page, or it names a user: {_WRITE}."
    host, port = authority[1], authority[2]
    if not is_host(host):
        return f"The host is not a name in lower case or an IP address: {_WRITE}."
    if port is not None and (not port or port.startswith("0") or int(port) > _MAX_PORT):
        return f"The port is not a number from 1 to {_MAX_PORT:,} without leading zeros: correct it or leave it out."
    if parts[1] == "http" and host not in _LOOPBACK_HOSTS:
        return (
            "Plain http is for this machine only (127.0.0.1, [::1], localhost), anybody on the way could read the "
            "code: write https://."
        )
    return _problem_of_path(parts[3]) or _problem_of_query(parts[4])


def _problem_of_path(path: str) -> str | None:
    segments = path.split("/")[1:]
    if _MISLEADING.search(path) or any(segment.partition(";")[0] in (".", "..") for segment in segments):
        return (
            "The path has . or .. as a part, or an escape for a dot, slash, backslash, percent sign or control "
            "character: write the path as the application serves it."
        )
    if "" in segments[:-1]:
        return "The path has two slashes in a row: leave one out."
    return None


def _problem_of_query(query: str | None) -> str | None:
    if query is None:
        return None
    if _ENCODED_CONTROL.search(query):
        return "The query has an escape for a control character: leave it out."
    names = {name for name, _ in parse_qsl(query, keep_blank_values=True)}
    if names & _ANSWERED:
        return "The query has a parameter that the answer adds (such as code or state): rename it or leave it out."
    return None
