"""What a request line must say (RFC 9112 §3): a version that is spoken here, and the authority that Host names.

Also the parser of a body whose request asked for an upgrade that is declined.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from httptools import HttpParserError, HttpRequestParser

from ironauth.infrastructure.http.refusal import Refusal, malformed

#: The parser also takes 0.9 and 2.0, whose messages it cannot read.
VERSIONS: Final = frozenset({"1.0", "1.1"})
#: What llhttp says of a version it does not take, and of HTTP/2 without an upgrade.
_OTHER_VERSIONS: Final = frozenset(
    {"Invalid HTTP version", "Expected HTTP/2 Connection Preface", "Pause on PRI/Upgrade"}
)
_FRAMING_FIELDS: Final = frozenset({b"content-length", b"transfer-encoding"})
_SCHEMES: Final = frozenset({b"http", b"https"})


def refusal_of(error: HttpParserError) -> Refusal:
    """Return how bytes are refused that the parser does not take."""
    return other_version() if str(error) in _OTHER_VERSIONS else malformed()


def other_version() -> Refusal:
    """Return the refusal of a version other than 1.0 and 1.1 (RFC 9110 §15.6.6)."""
    return Refusal(505, "http_version_not_supported", "HTTP/1.1 and HTTP/1.0 are spoken here.")


def check_authority(url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Compare the authority of a target in absolute form with the Host field.

    A proxy that routes by one of them, and a server that answers for the other, can be played off against each other:
    a client must send the same twice (RFC 9112 §3.2).

    Args:
        url: The target, with scheme and authority.
        headers: The fields, names in lower case.

    Raises:
        Refusal: 400, when they differ, or the scheme is not http or https.
    """
    scheme, _, rest = url.partition(b"://")
    authority = rest.partition(b"/")[0].partition(b"?")[0].lower()
    if scheme.lower() not in _SCHEMES or [value.lower() for name, value in headers if name == b"host"] != [authority]:
        raise Refusal(400, "bad_host", "The target must name the same host and port as the Host header field.")


def known_scope(scope: Mapping[str, Any], url: bytes, parser: HttpRequestParser) -> dict[str, Any]:
    """Return as much of an ASGI scope as the bytes so far amount to.

    Args:
        scope: what is known without them.
        url: the target, which may be incomplete.
        parser: has parsed the request line.
    """
    known = {**scope}
    if url:
        known.setdefault("method", parser.get_method().decode("ascii"))
        known.setdefault("path", url.partition(b"?")[0].decode("latin1"))
    return known


class _BodyCallbacks(NamedTuple):
    on_body: Callable[[bytes], None]
    on_message_complete: Callable[[], None]


def body_parser(
    headers: Iterable[tuple[bytes, bytes]], *, on_body: Callable[[bytes], None], on_complete: Callable[[], None]
) -> tuple[HttpRequestParser, bytes]:
    """Return a parser of the body that ``headers`` frame, and the head that it has to be fed first.

    Args:
        headers: The fields of the request, names in lower case.
        on_body: Is given each part of the body.
        on_complete: Is called when the body has ended.
    """
    framing = [b"%s: %s\r\n" % field for field in headers if field[0] in _FRAMING_FIELDS]
    head = b"POST / HTTP/1.1\r\nConnection: close\r\n%s\r\n" % b"".join(framing)
    return HttpRequestParser(_BodyCallbacks(on_body, on_complete)), head
