"""The outermost ASGI layer: bounds what a request may cost before Django sees any of it.

Django spools any body to disk before the first view (security-bar finding 7). So the limits are here, for both lanes
and for any server that speaks ASGI to them. ASGI starts once the head is complete: until then
``ironauth.server.connection`` bounds the cost.

The bodies that a process holds at once have one budget, of which each client network has a share. A body that is longer
than ``FREE_BYTES`` counts until its request is answered. Bytes that are declared and not sent cost nothing, so they do
not count. A shorter body never counts: large bodies of others must not keep a small form out because it arrives in two
parts.
"""

import asyncio
import ipaddress
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import chain
from typing import Final

from ironauth.infrastructure.core.asgi_types import Application, Message, Receive, Scope, Send
from ironauth.infrastructure.core.errors import DomainError
from ironauth.infrastructure.core.ids import choose_request_id
from ironauth.infrastructure.http.client_context import client_address, client_network
from ironauth.infrastructure.http.middleware import CLIENT_CLOSED_REQUEST
from ironauth.infrastructure.http.refusal import RETRY_AFTER_S, Refusal, answer_for, head_too_large, log_refusal
from ironauth.infrastructure.telemetry.logs import get_logger

#: Bytes of all bodies: 512 of 64 KiB. A small form has 100, and lasts 50 ms where it waits for a hash.
BUDGET_BYTES: Final = 32 * 1024 * 1024
#: Bytes of one network's bodies (IPv6: a /64): 64 of 64 KiB, four of an administrator's largest.
NETWORK_BYTES: Final = BUDGET_BYTES // 8
#: Bytes of all bodies from one IPv6 /48, which is rented as easily as one address.
SITE_BYTES: Final = BUDGET_BYTES // 2
#: A body that is no longer is not counted: as many as may run need 40 MiB.
FREE_BYTES: Final = 4 * 1024
_SITE_PREFIX: Final = 48


class BodyBudget:
    """Counts bytes; not safe between threads, as everything on the event loop."""

    def __init__(
        self, *, total: int = BUDGET_BYTES, by_network: int = NETWORK_BYTES, by_site: int = SITE_BYTES
    ) -> None:
        """Start empty; all three in bytes."""
        self.total = total
        self.by_network = by_network
        self.by_site = by_site
        self.held = 0
        self._by_holder: Counter[str] = Counter()

    def begin(self, scope: Scope) -> "HeldBody":
        """Return the count of one request's body, empty yet."""
        return HeldBody(self, scope)

    def shares_of(self, scope: Scope) -> dict[str, int]:
        """Return who a body of this request is counted for, and what each may hold. 5 µs: few bodies need it."""
        network = client_network(client_address(scope))
        shares = {network: self.by_network} if network else {}  # nobody can be told apart without an address
        if ":" in network:
            site = ipaddress.ip_network(network).supernet(new_prefix=_SITE_PREFIX)
            shares[str(site)] = self.by_site
        return shares

    def has_room(self, shares: dict[str, int], size: int) -> bool:
        """Return whether ``size`` bytes more fit into the budget and every share."""
        if self.held + size > self.total:
            return False
        return all(self._by_holder[holder] + size <= share for holder, share in shares.items())

    def add(self, shares: dict[str, int], size: int) -> None:
        """Count ``size`` bytes more, or less."""
        self.held += size
        for holder in shares:
            self._by_holder[holder] += size
            if not self._by_holder[holder]:
                del self._by_holder[holder]


class HeldBody:
    """The bytes of one body that are held."""

    __slots__ = ("_budget", "_scope", "_shares", "_size")

    def __init__(self, budget: BodyBudget, scope: Scope) -> None:
        self._budget = budget
        self._scope = scope
        self._shares: dict[str, int] | None = None  # known once something is counted
        self._size = 0

    def grow_to(self, size: int) -> None:
        """Count the body as ``size`` bytes.

        Raises:
            Refusal: 503, when they fit into the budget or one of the shares no more. The body stays as it is counted.
        """
        more = size - self._size
        if self._shares is None:
            self._shares = self._budget.shares_of(self._scope)
        if not self._budget.has_room(self._shares, more):
            raise Refusal(
                503,
                "overloaded",
                "Too many large bodies are being received; try again shortly.",
                headers={"Retry-After": str(RETRY_AFTER_S)},
            )
        self._budget.add(self._shares, more)
        self._size = size

    def release(self) -> None:
        """Count none of it any more; a second time does nothing."""
        if self._size and self._shares is not None:
            self._budget.add(self._shares, -self._size)
            self._size = 0


#: The contract's bounds (api.md "Common").
MAX_HEADER_FIELDS = 100
MAX_HEADER_BYTES = 16 * 1024
API_BODY_BYTES = 64 * 1024
BODY_TIMEOUT_S = 10.0
#: Of a session of the admin: a form with a few thousand fields; no file is ever uploaded.
PAGE_BODY_BYTES = 1024 * 1024
#: RFC 9110 §4.1 asks for 8,000 octets at least; this is the next power of two.
MAX_TARGET_BYTES = 8 * 1024
#: On the wire a field is "name: value\r\n".
_FIELD_OVERHEAD_BYTES = 4
#: Without one of them an HTTP/1.1 request has no body (RFC 9112 §6.3); the last says how one is to be read.
_BODY_FIELDS = frozenset({b"content-length", b"transfer-encoding", b"content-encoding"})
#: TRACE reflects headers (ASVS 4.1.4), CONNECT is for proxies; Django would answer both from a function view.
REFUSED_METHODS = frozenset({"TRACE", "CONNECT"})
ALLOWED_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

log = get_logger()


class Guard:
    """Checks head and body, then calls ``application`` with a body already complete and in memory."""

    def __init__(
        self,
        application: Application,
        *,
        longest_body: Callable[[Scope], int],
        is_staff: Callable[[Scope], Awaitable[bool]] | None = None,
        body_timeout_s: float = BODY_TIMEOUT_S,
        budget: BodyBudget | None = None,
    ) -> None:
        """Guard ``application``.

        Args:
            application: What answers.
            longest_body: The bytes a body may have at a path; 0 where none is taken.
            is_staff: Whether a session of the admin sends the request: asked for a body of more than 64 KiB.
                None for nobody.
            body_timeout_s: Seconds from the head to the end of the body.
            budget: The bytes of all bodies together; None for the usual number.
        """
        self.application = application
        self.longest_body = longest_body
        self.is_staff = is_staff
        self.body_timeout_s = body_timeout_s
        self.budget = budget or BodyBudget()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it with a problem document and close the connection.

        An error that escapes a lane becomes a generic 500, unless its answer has already begun.
        """
        try:
            length = _check_head(scope)
        except Refusal as refusal:
            await _refuse(scope, send, refusal)
            return
        if length is None:
            await self._answer(scope, receive, send)
            return
        held = self.budget.begin(scope)
        try:
            body = await self._read_body(scope, receive, length, held)
            if body is None:
                log_refusal(scope, CLIENT_CLOSED_REQUEST, 0.0, choose_request_id(None))
                return
            await self._answer(scope, _Replay(body, receive), send)
        except Refusal as refusal:
            await _refuse(scope, send, refusal)
        finally:
            held.release()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.application(scope, receive, send)
        except Exception:
            log.exception("unhandled_error", method=scope["method"], path=scope["path"])
            detail = "The server could not answer this request; its log has the cause under this request_id."
            with suppress(Exception):  # the answer had begun: the server reports that, and closes the connection
                await _refuse(scope, send, Refusal(500, "internal_error", detail))

    async def _read_body(self, scope: Scope, receive: Receive, length: int, held: HeldBody) -> bytes | None:
        """Return the whole body, or None when the client went away.

        ``length`` is the declared one, -1 if undeclared. Raises ``Refusal`` 413, 408 or 503.
        """
        limit = self.longest_body(scope)
        allowed = min(limit, API_BODY_BYTES)
        body = bytearray()  # a list would take 50 bytes more for each part
        try:
            async with asyncio.timeout(self.body_timeout_s):
                if length > allowed:
                    allowed = await self._larger_limit(scope, length, limit)
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part: bytes = message.get("body", b"")
                    size = len(body) + len(part)
                    if size > allowed:
                        allowed = await self._larger_limit(scope, size, limit)
                    more = message.get("more_body", False)
                    if size > FREE_BYTES:
                        held.grow_to(size)
                    if not more and not body:
                        return part
                    body += part
                    if not more:
                        return bytes(body)
        except TimeoutError:
            detail = f"The body was not finished within {self.body_timeout_s:g} s."
            raise Refusal(408, "request_timeout", detail) from None

    async def _larger_limit(self, scope: Scope, size: int, limit: int) -> int:
        """Return ``limit`` where a session of the admin sends ``size`` bytes, no more than that.

        Raises:
            Refusal: 413, 503, or 400 for ambiguous cookies.
        """
        if size > limit:
            raise _too_large(limit)
        try:
            if self.is_staff is not None and await self.is_staff(scope):
                return limit
        except DomainError as error:
            raise Refusal(error.status, error.code, error.detail, headers=error.headers) from None
        raise _too_large(API_BODY_BYTES)


class _Replay:
    """A ``receive`` that gives the body read above, then whatever the server says next (a disconnect)."""

    __slots__ = ("body", "receive")

    def __init__(self, body: bytes, receive: Receive) -> None:
        self.body: bytes | None = body
        self.receive = receive

    async def __call__(self) -> Message:
        body, self.body = self.body, None
        if body is None:
            return await self.receive()
        return {"type": "http.request", "body": body, "more_body": False}


def _check_head(scope: Scope) -> int | None:
    """Return None when there is no body, its declared length in bytes, or -1 if that is not declared.

    Raises:
        Refusal: 431, 414, 404, 405, 415 or 400.
    """
    headers = scope["headers"]
    if len(headers) > MAX_HEADER_FIELDS:
        raise Refusal(431, "headers_too_large", f"More than {MAX_HEADER_FIELDS} header fields.")
    size = len(headers) * _FIELD_OVERHEAD_BYTES + len(b"".join(chain.from_iterable(headers)))
    if size > MAX_HEADER_BYTES:
        raise head_too_large(MAX_HEADER_BYTES)
    _check_request_line(scope)
    return _body_length(scope)


def _body_length(scope: Scope) -> int | None:
    headers = scope["headers"]
    names = [name for name, _ in headers]
    if scope.get("http_version") == "1.1" and names.count(b"host") == 1 and _BODY_FIELDS.isdisjoint(names):
        return None  # as most are
    lengths: list[bytes] = []
    hosts = 0
    encoded = False
    # HTTP/2 and 3 may carry a body without either field.
    chunked = scope.get("http_version", "1.1") > "1.1"
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            chunked = True
        elif name == b"content-encoding":
            encoded = encoded or value.lower() not in (b"", b"identity")
    if hosts != 1:
        _check_hosts(scope, hosts)
    length = _declared_length(lengths) if lengths else (-1 if chunked else None)
    if encoded and length:
        detail = "The body must be sent as it is, without Content-Encoding."
        raise Refusal(415, "unsupported_media_type", detail, headers={"Accept-Encoding": "identity"})
    return length


def _check_request_line(scope: Scope) -> None:
    """Raise ``Refusal`` 414, 404 or 405 for a target or method that no lane may see."""
    if len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string", b"")) > MAX_TARGET_BYTES:
        raise Refusal(414, "target_too_long", f"The URL is longer than {MAX_TARGET_BYTES} bytes.")
    raw_path = scope.get("raw_path") or b""
    if b"%2" in raw_path and b"%2f" in raw_path.lower():
        # Decoded it is another path: what a proxy does not guard as /api/v1/ would reach it (CWE-436).
        raise Refusal(404, "not_found", "There is nothing here: no path has an encoded slash.")
    if scope["method"] in REFUSED_METHODS:
        allow = {"Allow": ALLOWED_METHODS}
        raise Refusal(405, "method_not_allowed", f"{scope['method']} is not offered.", headers=allow)


def _check_hosts(scope: Scope, hosts: int) -> None:
    """Raise ``Refusal`` 400 for several Host fields, and for none in HTTP/1.1."""
    if hosts or scope.get("http_version") == "1.1":
        raise Refusal(400, "bad_host", "Exactly one Host header field must be sent (RFC 9112 §3.2).")


def _declared_length(values: list[bytes]) -> int:
    """Return Content-Length; RFC 9110 §8.6: digits only, and repeated values must agree."""
    value = values[0]
    # 19 digits are more than any body; int() of a longer text is what must not happen.
    if any(other != value for other in values) or not value.isdigit() or len(value) > 19:  # noqa: PLR2004 - digits of 2**63
        raise Refusal(400, "bad_content_length", "Content-Length must be one whole number of bytes.")
    return int(value)


def _too_large(limit: int) -> Refusal:
    detail = f"The body is larger than {limit} bytes." if limit else "No body is taken here."
    return Refusal(413, "body_too_large", detail)


async def _refuse(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Send the problem and close the connection, as what follows on it cannot be trusted to be a request.

    What is left of the body is the server's to forget (``ironauth.server.connection``).
    """
    started = time.perf_counter()
    status, headers, body, request_id = answer_for(refusal, scope)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
    log_refusal(scope, status, time.perf_counter() - started, request_id)
