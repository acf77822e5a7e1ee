"""Asking other servers: one request and its answer on a thread of a pool, within limits, and cut off from any other.

No redirect is followed, no proxy of the environment is used, and no connection is kept unless the caller has room for
some. Nobody may trust what comes back.
"""

import os
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from http.client import HTTP_PORT, HTTPS_PORT, HTTPConnection, HTTPResponse, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from ironauth.infrastructure.outbound import public_addresses
from ironauth.infrastructure.outbound.kept_connections import KeptConnections, Line, Place

#: How it shows that the other side has closed a connection before it has answered.
_CLOSED = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


class ExchangeFailedError(Exception):
    """There was no answer that can be used; the text says why and repeats nothing of what the other server said."""


class Exchange:
    """One request and its answer. It blocks: run it on a thread, and call ``cut`` when its time is over.

    Without ``cut`` a server that sends a byte at a time would keep the thread. Where there are ``networks``, ``cut``
    works from the first attempt to connect.

    Args:
        url: Where the request goes.
        limit_s: Seconds that each step may take.
        longest: Bytes that the answer may have.
        networks: For an address that somebody else chose: the networks it may lead to that are not public. None: the
            operator chose it, and it may lead anywhere.
        kept: Connections to use again, and where this one is left. Only for a request that may be sent twice, as a
            server that closes a connection may have read it. None: a connection of its own, closed afterwards.

    Attributes:
        status: Of the answer; None until there is one.
        headers: Of the answer, by names in lower case.
    """

    def __init__(
        self,
        url: str,
        *,
        limit_s: float,
        longest: int,
        networks: Sequence[str] | None = None,
        kept: KeptConnections | None = None,
    ) -> None:
        self._address = urlsplit(url)
        self._networks = networks
        self._kept = kept
        self._limit_s = limit_s
        self._longest = longest
        self._lock = threading.Lock()
        self._handle: socket.socket | None = None
        self._over = False
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}

    def run(
        self, method: str, *, headers: Mapping[str, str], wanted: Collection[int], body: bytes | None = None
    ) -> bytes:
        """Send the request and return the body of its answer.

        A connection that was kept and that the other side has closed is made anew, once.

        Args:
            method: Of HTTP.
            headers: Of the request.
            wanted: The statuses of an answer that can be used.
            body: Of the request.

        Raises:
            OSError: There was no connection, or it broke; ``NotPublicError`` is one.
            HTTPException: The answer is not HTTP.
            ExchangeFailedError: It has another status, is too long or broken off.
        """
        sent = {**({} if self._kept else {"Connection": "close"}), **headers}
        line = self._kept.take(self._place()) if self._kept else None
        if line is not None:
            try:
                return self._asked(line, method, sent, wanted, body)
            except _CLOSED:
                if self.status is not None or self._over:
                    raise
        return self._asked(self._opened(), method, sent, wanted, body)

    def _opened(self) -> Line:
        """Return a new connection."""
        address = self._address
        connection = _connection(address, self._limit_s)
        connection.auto_open = 0  # never by itself: nobody would judge where it leads
        opened_at = self._kept.now() if self._kept else 0.0
        if self._networks is not None:
            try:
                connection.sock = _judged(address, self._networks, self._limit_s, self._hold)
            except BaseException:
                self._let_go()
                raise
            return Line(self._place(), connection, opened_at)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        return Line(self._place(), connection, opened_at)

    def _place(self) -> Place:
        address, networks = self._address, self._networks
        return address.scheme, address.hostname or "", address.port, None if networks is None else tuple(networks)

    def _asked(
        self, line: Line, method: str, headers: Mapping[str, str], wanted: Collection[int], body: bytes | None
    ) -> bytes:
        """Send the request on this connection, and return the answer's body."""
        connection, is_reusable = line.connection, False
        try:
            self._hold(connection.sock)
            address = self._address
            target = f"{address.path or '/'}{'?' + address.query if address.query else ''}"
            connection.request(method, target, body=body, headers=dict(headers))
            with connection.getresponse() as response:
                self.status = response.status
                self.headers = {name.lower(): value for name, value in response.getheaders()}
                if response.status not in wanted:
                    raise ExchangeFailedError(f"status {response.status}")
                answer = _body(response, self._longest)
                is_reusable = response.isclosed() and not response.will_close  # closed: read to its end
            return answer
        finally:
            is_over = self._let_go()
            if self._kept is not None and is_reusable and not is_over:
                self._kept.give(line)
            else:
                connection.close()

    def cut(self) -> None:
        """End the exchange; from another thread, at any time."""
        with self._lock:
            self._over = True
            if self._handle is not None:
                with suppress(OSError):  # the other side was faster
                    self._handle.shutdown(socket.SHUT_RDWR)

    def _hold(self, connected: socket.socket) -> None:
        """Keep a handle of our own for ``cut``: the connection may be closed by then, its number another file's."""
        with self._lock:
            if self._over:
                raise ExchangeFailedError("connected too late")
            if self._handle is not None:
                self._handle.close()
            self._handle = socket.socket(fileno=os.dup(connected.fileno()))

    def _let_go(self) -> bool:
        """Close our own handle, and tell whether the exchange was cut."""
        with self._lock:
            if self._handle is not None:
                self._handle.close()
                self._handle = None
            return self._over


def _connection(address: SplitResult, limit_s: float) -> HTTPConnection:
    host = address.hostname or ""
    if address.scheme == "https":
        return HTTPSConnection(host, address.port, timeout=limit_s, context=_tls())
    return HTTPConnection(host, address.port, timeout=limit_s)


def _judged(
    address: SplitResult, networks: Sequence[str], limit_s: float, opened: Callable[[socket.socket], None]
) -> socket.socket:
    """Return a connection to an address that is public or in ``networks``, with TLS for https.

    ``opened`` is called with each socket, as soon as there is one.
    """
    host, is_tls = address.hostname or "", address.scheme == "https"
    port = address.port or (HTTPS_PORT if is_tls else HTTP_PORT)
    line = public_addresses.connected(host, port, networks=networks, limit_s=limit_s, opened=opened)
    try:
        opened(line)  # again: cut just before it connected, it would not have noticed
        return _tls().wrap_socket(line, server_hostname=host) if is_tls else line
    except BaseException:
        line.close()
        raise


@cache
def _tls() -> ssl.SSLContext:
    """Return what verifies a server's certificate and name; made once, since it reads every authority."""
    return ssl.create_default_context()


def _body(response: HTTPResponse, longest: int) -> bytes:
    """Return the whole answer. Raises ``ExchangeFailedError`` for one too long or broken off."""
    body = response.read(longest + 1)
    if len(body) > longest:
        raise ExchangeFailedError(f"more than {longest} bytes")
    if response.length:  # what is missing: read() with a limit does not tell
        raise ExchangeFailedError("the answer broke off")
    return body
