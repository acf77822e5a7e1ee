"""Which handler answers a path: the lean one (API lane) or stock Django (admin lane, where networks take turns).

A project that is built on this product includes our URLs in its own ROOT_URLCONF. Its views run under Django's handler,
with all of settings.MIDDLEWARE. Our own paths keep their lanes.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache
from typing import IO, Any, Final

from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http import HttpResponseBadRequest
from django.http.response import HttpResponseBase, StreamingHttpResponse
from django.urls import Resolver404, URLPattern, URLResolver, get_resolver

from ironauth.infrastructure.core.asgi_types import Application, Receive, Scope, Send
from ironauth.infrastructure.core.errors import Overloaded, Unavailable
from ironauth.infrastructure.core.ids import choose_request_id
from ironauth.infrastructure.core.live_settings import live
from ironauth.infrastructure.http.client_context import client_address, client_share, with_forwarded_scheme
from ironauth.infrastructure.http.error_pages import BUSY
from ironauth.infrastructure.http.fast_request import UNREADABLE_HEAD, StrictRequest, is_our_host
from ironauth.infrastructure.http.guard import API_BODY_BYTES, PAGE_BODY_BYTES
from ironauth.infrastructure.http.middleware import STATIC_PREFIX, harden, harden_unread
from ironauth.infrastructure.threads.request_threads import THREADS, RequestThreads, make_async

OURS: Final = "ironauth.urls"
#: Paths of a project remembered per process; one is at most as long as a request line.
MAX_PATHS: Final = 1024


class FairTurns:
    """Lets ``at_once`` requests run, of one network at most ``of_one``; the others wait, and networks alternate.

    Not thread-safe: it belongs to one event loop, and so does everything that calls it.
    """

    def __init__(self, *, at_once: int, of_one: int, waiting_of_one: int, wait_s: float) -> None:
        """``waiting_of_one``: requests of one network that may wait, each for ``wait_s`` seconds at most."""
        self.at_once = at_once
        self.of_one = of_one
        self.waiting_of_one = waiting_of_one
        self.wait_s = wait_s
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, network: str) -> AsyncIterator[None]:
        """Run this block in a turn of ``network``. Raises ``Overloaded`` when too many of it wait, or for too long."""
        if self._is_free(network):
            self._running[network] += 1
        else:
            await self._wait(network)
        try:
            yield
        finally:
            self._end(network)

    def _is_free(self, network: str) -> bool:
        return self._running.total() < self.at_once and self._running[network] < self.of_one

    async def _wait(self, network: str) -> None:
        """Wait for a turn, which is counted when this returns."""
        line = self._waiting.setdefault(network, deque())
        if len(line) >= self.waiting_of_one:
            raise Overloaded
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(called)
        try:
            async with asyncio.timeout(self.wait_s):
                await called
        except BaseException as error:
            if called.done() and not called.cancelled():
                self._end(network)  # it was called at the moment at which it gave up
            else:
                self._withdraw(network, called)
            if isinstance(error, TimeoutError):
                raise Overloaded from None
            raise

    def _withdraw(self, network: str, called: "asyncio.Future[None]") -> None:
        line = self._waiting.get(network, deque())
        if called in line:
            line.remove(called)
            if not line:
                del self._waiting[network]

    def _end(self, network: str) -> None:
        self._running[network] -= 1
        if not self._running[network]:
            del self._running[network]
        self._go_on()

    def _go_on(self) -> None:
        """Call those who may run now; the network of each is the last one from then on."""
        while network := next((each for each in self._waiting if self._is_free(each)), None):
            line = self._waiting[network]
            called = line.popleft()
            if not called.done():  # else its request was cancelled, and has not run since
                called.set_result(None)
                self._running[network] += 1
            if line:
                self._waiting.move_to_end(network)
            else:
                del self._waiting[network]


#: Pages for staff and their files: they need sessions, CSRF and messages, hence Django's stock middleware.
ADMIN_PATH = "/admin"  # without its slash Django redirects
ADMIN_PREFIXES = ("/admin/", STATIC_PREFIX)
#: Forms that run at once in the admin lane: one thread is left for pages and files. One network has all but one.
FORMS_AT_ONCE = THREADS - 1
FORMS_OF_ONE_NETWORK = FORMS_AT_ONCE - 1
#: Forms of one network that wait for their turn, and for how many seconds. nginx gives up after 12, and a form that has
#: its turn may wait 4 for a hash.
FORMS_WAITING = 16
FORM_WAIT_S = 5.0
#: Methods of requests that wait for no hash.
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


def is_api_path(scope: Scope) -> bool:
    """Tell whether the API lane answers ``scope``; a mount point (``root_path``) does not count.

    It answers whatever is not the admin's, nor of a project that is built on this product; a path nobody serves too:
    with a problem document or, for people, a page.
    """
    path = _path(scope)
    if path.startswith(ADMIN_PREFIXES) or path == ADMIN_PATH:
        return False
    return live.ROOT_URLCONF == OURS or not is_projects(path)


def _path(scope: Scope) -> str:
    """Return the path below the mount point."""
    path: str = scope["path"]
    root = scope.get("root_path")
    return path[len(root) :] if root and path.startswith(root) else path


def longest_body(scope: Scope) -> int:
    """Return how many bytes a body may have at the path of a request, none where files are served."""
    if is_api_path(scope):
        return API_BODY_BYTES
    return 0 if _path(scope).startswith(STATIC_PREFIX) else PAGE_BODY_BYTES


class LaneRouter:
    """Sends each request to its lane."""

    def __init__(self, api: Application, admin: Application) -> None:
        """Route between two ASGI applications."""
        self.api = api
        self.admin = admin

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Hand the request over, with the scheme a trusted proxy names; what is returned has to be awaited.

        A Host that is not ours stays out of the admin lane, where Django logs a traceback and answers with a page.
        """
        if live.IRONAUTH_TRUSTED_PROXIES:
            scope = with_forwarded_scheme(scope)
        return (self.api if is_api_path(scope) or not is_our_host(scope) else self.admin)(scope, receive, send)


class PageHandler(ASGIHandler):
    """Django's handler, with a strict reader of cookies, and sending files part by part."""

    request_class = StrictRequest

    def create_request(
        self, scope: Mapping[str, Any], body_file: IO[bytes]
    ) -> tuple[ASGIRequest, None] | tuple[None, HttpResponseBase]:
        """Return the request, or 400 for a head that Django cannot read (``UNREADABLE_HEAD``).

        Django's own handler answers 400 only where a text is no UTF-8, and lets every other error through.
        """
        try:
            request, refused = super().create_request(scope, body_file)
        except UNREADABLE_HEAD:
            request, refused = None, HttpResponseBadRequest()
        if request is not None:
            return request, None
        refusal = refused or HttpResponseBadRequest()
        refusal.headers["X-Request-ID"] = choose_request_id(None)
        harden_unread(refusal, scope)
        return None, refusal

    async def send_response(self, response: HttpResponseBase, send: Send) -> None:
        """Send ``response`` as Django does; one that no middleware has seen gets its id and the security headers."""
        if "X-Request-ID" not in response.headers:
            response.headers["X-Request-ID"] = choose_request_id(None)
            harden(response)
        if isinstance(response, StreamingHttpResponse):
            make_async(response)
        await super().send_response(response, send)


class AdminLane:
    """Stock Django on long-lived threads, instead of two new ones (and a new connection) per request."""

    def __init__(
        self, application: Application, threads: RequestThreads, *, first: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        """Run ``application``'s synchronous parts on ``threads``; ``first`` is awaited before a page.

        When it raises `Unavailable`, nothing else is asked of the lane: `BusyPageMiddleware` answers.
        """
        self.application = application
        self.threads = threads
        self._first = first
        self._turns = FairTurns(
            at_once=FORMS_AT_ONCE, of_one=FORMS_OF_ONE_NETWORK, waiting_of_one=FORMS_WAITING, wait_s=FORM_WAIT_S
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the stock handler; its own ThreadSensitiveContext joins this outer one.

        Forms take turns by client network: one that needs a hash waits for it on its thread. When too many wait, the
        form is answered as one that found the lane busy.
        """
        if self._first is not None and not scope["path"].startswith(STATIC_PREFIX):
            try:
                await self._first()
            except Unavailable as unavailable:
                scope = {**scope, BUSY: unavailable}
        if scope["method"] in _READING or BUSY in scope:
            await self._answer(scope, receive, send)
            return
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(self._turns.turn(client_share(client_address(scope))))
            except Overloaded as overloaded:
                scope = {**scope, BUSY: overloaded}
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self.threads.context():
            await self.application(scope, receive, send)


def is_projects(path: str) -> bool:
    """Return whether the project answers ``path``, whose first match is a pattern of its own, or which has none.

    Always False where ROOT_URLCONF does not include our URLs: then nothing is built on them.
    """
    return _is_projects(live.ROOT_URLCONF, path)


@lru_cache(maxsize=MAX_PATHS)
def _is_projects(urlconf: str, path: str) -> bool:
    patterns: list[URLPattern | URLResolver] = get_resolver(urlconf).url_patterns
    if not any(map(_is_ours, patterns)):
        return False
    for pattern in patterns:
        try:
            found = pattern.resolve(path.removeprefix("/"))
        except Resolver404:
            continue
        if found is not None:
            return not _is_ours(pattern)
    return True


def _is_ours(pattern: URLPattern | URLResolver) -> bool:
    return isinstance(pattern, URLResolver) and getattr(pattern.urlconf_module, "__name__", "") == OURS
