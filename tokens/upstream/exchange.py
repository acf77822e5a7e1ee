"""Asking a provider: JSON from its addresses, within limits of time, size and network; on a small pool of its own.

A provider that is slow or down keeps its own two of that pool's threads busy, and nothing else: requests to it wait in
a queue of their own.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from django.conf import settings

from accounts.federation.errors import UpstreamUnavailable
from ironauth.config.addresses import is_local
from ironauth.infrastructure.core import strict_json
from ironauth.infrastructure.core.errors import Overloaded
from ironauth.infrastructure.outbound.kept_connections import KeptConnections
from ironauth.infrastructure.outbound.request import Exchange, ExchangeFailedError
from ironauth.infrastructure.telemetry.logs import get_logger
from ironauth.infrastructure.threads.executor import BoundedExecutor

LIMIT_S: Final = 5.0  # seconds from the connection to the end of an answer; a person is waiting
LONGEST: Final = 256 * 1024  # bytes; a key set of a large provider has 20
AT_ONCE: Final = 2  # requests to one provider
THREADS: Final = 4 * AT_ONCE  # so many providers may hang before the next one is kept waiting
#: A minute after its host was judged a connection is made anew; a sign-in that asks twice takes one.
KEPT: Final = KeptConnections(most=2 * THREADS, idle_s=15.0, life_s=60.0)
_executor: Final = BoundedExecutor(name="upstream", threads=THREADS)
_queues: Final[dict[str, "_Queue"]] = {}
_HEADERS: Final = {"Accept": "application/json", "User-Agent": "ironauth"}
_PAGE_HEADERS: Final = {**_HEADERS, "Accept": "text/html"}
_ANY_STATUS: Final = range(200, 600)


async def get(url: str, *, token: str = "") -> Any:
    """Return the JSON at an address.

    Args:
        url: The address.
        token: An access token to show, if any.

    Raises:
        UpstreamUnavailable: There is no such answer in time.
    """
    return await _asked(url, "GET", {"Authorization": f"Bearer {token}"} if token else {}, kept=KEPT)


async def post(url: str, form: Mapping[str, str], headers: Mapping[str, str], *, once: bool = False) -> Any:
    """Return the JSON that answers a form; also of a refusal, which a token endpoint sends as JSON with 400 or 401.

    Args:
        url: An endpoint that the provider's document names.
        form: The parameters of the body.
        headers: Further headers, such as the client's authentication.
        once: Whether it may never be sent twice: it goes on a connection of its own.

    Raises:
        UpstreamUnavailable: There is no such answer in time.
    """
    more = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    kept = None if once else KEPT
    return await _asked(url, "POST", more, urlencode(form).encode(), wanted=(200, 400, 401), kept=kept)


async def looked_at(url: str) -> tuple[int, bytes]:
    """Return the status of any page at an address, and its text; for an operator who tries a provider.

    Args:
        url: The address; no redirect is followed.

    Raises:
        UpstreamUnavailable: There is no such answer in time.
    """
    if not is_acceptable(url):
        raise UpstreamUnavailable("address")
    exchange = Exchange(url, limit_s=LIMIT_S, longest=LONGEST, networks=settings.IRONAUTH_UPSTREAM_NETWORKS)
    try:
        async with asyncio.timeout(LIMIT_S), _turn(urlsplit(url).netloc):
            page = await _executor.offload(exchange.run, "GET", headers=_PAGE_HEADERS, wanted=_ANY_STATUS)
    except (OSError, HTTPException, ExchangeFailedError, Overloaded) as error:
        raise UpstreamUnavailable(type(error).__name__) from error
    finally:
        exchange.cut()
    assert exchange.status is not None
    return exchange.status, page


class _Queue:
    """Requests to one provider: those that run and those that wait."""

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(AT_ONCE)
        self.inside = 0


class _Watch:
    """Closes connections whose time is over, though nobody asks again: one timer while any is kept."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Look after them in this event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(KEPT.idle_s, self._look)

    def _look(self) -> None:
        loop, self._loop = self._loop, None
        if KEPT.prune() and loop is not None:
            self.begin()


_watch: Final = _Watch()


@asynccontextmanager
async def _turn(provider: str) -> AsyncIterator[None]:
    """Wait until one more request to this host and port may run; the queue is dropped with its last request."""
    queue = _queues.setdefault(provider, _Queue())
    queue.inside += 1
    try:
        async with queue.free:
            yield
    finally:
        queue.inside -= 1
        if not queue.inside:
            _queues.pop(provider, None)


async def _asked(
    url: str,
    method: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
    *,
    wanted: tuple[int, ...] = (200,),
    kept: KeptConnections | None,
) -> Any:
    if not is_acceptable(url):
        raise UpstreamUnavailable("address")
    networks = settings.IRONAUTH_UPSTREAM_NETWORKS
    # Sent twice, a code is refused the second time, at worst: as it was when the connection had only broken. A refresh
    # token that is seen twice may end all access: it is asked for with ``once``.
    exchange = Exchange(url, limit_s=LIMIT_S, longest=LONGEST, networks=networks, kept=kept)
    try:
        async with asyncio.timeout(LIMIT_S), _turn(urlsplit(url).netloc):
            answer = await _executor.offload(
                exchange.run, method, headers={**_HEADERS, **headers}, wanted=wanted, body=body
            )
        return strict_json.loads(answer)
    except (OSError, HTTPException, ExchangeFailedError, Overloaded, ValueError) as error:
        # The provider's words, and its address, are not for the log: what failed is enough.
        cause = str(error) if isinstance(error, ExchangeFailedError) else type(error).__name__
        get_logger().warning("upstream_unavailable", host=urlsplit(url).hostname, cause=cause)
        raise UpstreamUnavailable(cause) from error
    finally:
        exchange.cut()
        _watch.begin()


def is_acceptable(url: str) -> bool:
    """Tell whether a provider's address may be asked: https, or http on this machine while DEBUG is on."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment or not url.isprintable():
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and settings.DEBUG and is_local(host))


async def close() -> None:
    """Let the threads end, and close the connections."""
    await asyncio.to_thread(_executor.shutdown, wait=False)
    KEPT.clear()
