"""Other servers that the operator has started, measured in the same run: ``--peer irontrack=http://127.0.0.1:9000/me``.

A peer is only ever asked for one URL with GET. It is neither pinned nor metered: whoever starts it gives it the
server's core (``taskset -c 0 …``), or the comparison is not fair.
"""

import argparse
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from perf.load.sources import NO_CONTENT, OK, Constant, Source, get

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,31}")
_HTTP_PORT = 80


@dataclass(frozen=True)
class Peer:
    """One URL of one server on this machine; the credentials are sent and shown nowhere."""

    name: str
    address: tuple[str, int]
    host: str
    path: str
    bearer: str = field(default="", repr=False)
    cookie: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        """What is measured, without the query, which may hold a secret."""
        return f"http://{self.host}{self.path.partition('?')[0]}"

    def sources(self, connections: int) -> Sequence[Source]:
        """Return a closed loop for each connection; any body is accepted with 200 or 204."""
        request = get(self.path, self.host, self.bearer, self.cookie)
        return [Constant(request, varying=True, statuses=(OK, NO_CONTENT)) for _ in range(connections)]


class PeerError(ValueError):
    """A peer on the command line is not usable; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--peer`` and its credentials to a command line."""
    add = parser.add_argument
    add("--peer", action="append", default=[], metavar="NAME=URL", help="another server on this machine; repeatable")
    add("--peer-bearer", action="append", default=[], metavar="NAME=TOKEN", help="sent to that peer as Bearer token")
    add("--peer-cookie", action="append", default=[], metavar="NAME=COOKIE", help="sent as Cookie, e.g. irontrack=a=b")


def chosen(given: argparse.Namespace, *, taken: Sequence[str]) -> tuple[Peer, ...]:
    """Return the peers of a command line; ``taken`` names are not free.

    Raises:
        PeerError: a malformed or repeated name, a URL that is no http URL on this machine, a credential of nobody
            or anything with characters that cannot stand in a request.
    """
    bearers, cookies = _credentials(given.peer_bearer), _credentials(given.peer_cookie)
    peers: list[Peer] = []
    for text in given.peer:
        name, _, url = text.partition("=")
        if not _NAME.fullmatch(name) or name in taken or any(name == peer.name for peer in peers):
            raise PeerError(f"{name!r} cannot name a peer: use 1 to 32 of a-z, 0-9, . and -, each name once")
        peers.append(_peer(name, url, bearers.pop(name, ""), cookies.pop(name, "")))
    for name in (*bearers, *cookies):
        raise PeerError(f"there is no peer {name!r}: give --peer {name}=URL too")
    return tuple(peers)


def _credentials(given: Sequence[str]) -> dict[str, str]:
    credentials = {}
    for text in given:
        name, found, value = text.partition("=")
        if not found or not value.isascii() or not value.isprintable():
            raise PeerError(f"the credential of peer {name!r} is not NAME=VALUE in visible ASCII")
        credentials[name] = value
    return credentials


def _peer(name: str, url: str, bearer: str, cookie: str) -> Peer:
    try:
        parts = urlsplit(url)
        port = parts.port or _HTTP_PORT
        address = ipaddress.ip_address("127.0.0.1" if parts.hostname == "localhost" else parts.hostname or "")
    except ValueError as error:
        raise PeerError(
            f"peer {name}: give an http URL with a loopback address, e.g. {name}=http://127.0.0.1:9000/"
        ) from error
    if parts.scheme != "http" or not address.is_loopback or "@" in parts.netloc:
        raise PeerError(f"peer {name}: only http URLs of this machine are measured (a loopback address, no password)")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise PeerError(f"peer {name}: its URL has characters that cannot stand in a request: percent-encode them")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Peer(name, (str(address), port), parts.netloc, path, bearer, cookie)
