"""The API lane's handler: Django's ``ASGIHandler`` without its thread hops.

Kept: signals, middleware, URL resolving, streaming, files, cancellation when the client goes away, resource closers.
Left out (measured, design §2): a thread-sensitive context per request, Django's own thread-bound signal receivers
(`request_threads` does their work where connections live), closing the response in a thread, a task that listens for
a disconnect while the answer is computed without ever waiting.
"""

# Overrides of Django methods keep its signatures; what a response must be closed with has no public form.
# ruff: noqa: SLF001

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, nullcontext
from functools import lru_cache
from inspect import iscoroutinefunction
from io import BytesIO
from typing import Any, cast

from django.conf import settings
from django.core.exceptions import BadRequest, ImproperlyConfigured, MiddlewareNotUsed, RequestAborted
from django.core.handlers.asgi import ASGIHandler
from django.core.signals import request_finished, request_started
from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase, StreamingHttpResponse
from django.urls import Resolver404, ResolverMatch, URLResolver, get_resolver, set_script_prefix, set_urlconf
from django.utils.module_loading import import_string

from ironauth.infrastructure.api.problem import exception_handler, report_unexpected
from ironauth.infrastructure.core.asgi_types import Receive, Scope, Send
from ironauth.infrastructure.http import error_pages
from ironauth.infrastructure.http.cookies import AmbiguousCookies
from ironauth.infrastructure.http.fast_request import UNREADABLE_HEAD, LeanRequest, check_host
from ironauth.infrastructure.http.middleware import harden_unread
from ironauth.infrastructure.http.request_state import (
    RequestObserver,
    RequestState,
    custom_receivers,
    finish_unless_gone,
    may_block,
    run_closers,
    send_to,
)
from ironauth.infrastructure.threads.request_threads import RequestThreads, make_async

Hook = Callable[..., Awaitable[Any]]
GetResponse = Callable[[HttpRequest], Awaitable[HttpResponseBase]]

#: Paths remembered per process. Only paths without parameters are, and a project has fewer of those.
MAX_PATHS = 512


class RouteMemory:
    """Matches of ROOT_URLCONF for paths without parameters, forgotten when the URLconf becomes another one."""

    def __init__(self) -> None:
        self._resolver: URLResolver | None = None
        self._matches: dict[str, ResolverMatch] = {}

    def match(self, path: str) -> ResolverMatch:
        """Return what the current URLconf resolves ``path`` to. Raises ``Resolver404``."""
        resolver = get_resolver()
        if resolver is not self._resolver:
            self._resolver, self._matches = resolver, {}
        found = self._matches.get(path)
        if found is None:
            found = resolver.resolve(path)
            if not found.args and not found.kwargs and len(self._matches) < MAX_PATHS:
                self._matches[path] = found
        return found


class LeanHandler(ASGIHandler):
    """Answers HTTP requests with settings.API_MIDDLEWARE and ROOT_URLCONF; every error becomes a problem document."""

    request_class = LeanRequest

    def __init__(self, threads: RequestThreads, *, observer: RequestObserver | None = None) -> None:
        """Build the middleware chain; ``threads`` run synchronous views, iterators and receivers, if there are any.

        ``observer`` observes every request.

        Raises:
            ImproperlyConfigured: A middleware is not async, or ATOMIC_REQUESTS is set.
        """
        self.threads = threads
        self._observer = observer
        self._routes = RouteMemory()
        super().__init__()

    # ------------------------------------------------------------ start-up

    def load_middleware(self, is_async: bool = True) -> None:
        """Chain settings.API_MIDDLEWARE around the view; a synchronous link would put all below it in a thread."""
        if any(options["ATOMIC_REQUESTS"] for options in settings.DATABASES.values() if "ATOMIC_REQUESTS" in options):
            raise ImproperlyConfigured("ATOMIC_REQUESTS cannot wrap async views: set it to False")
        self._view_middleware: list[Hook] = []
        self._template_response_middleware: list[Hook] = []
        self._exception_middleware: list[Hook] = []
        chain = self._answering_errors(self._get_response_async)
        for path in reversed(settings.API_MIDDLEWARE):
            factory = import_string(path)
            if not getattr(factory, "async_capable", False):
                raise ImproperlyConfigured(f"{path} is not async capable: move it to MIDDLEWARE (the admin lane)")
            try:
                link = factory(chain)
            except MiddlewareNotUsed:
                continue
            self._collect_hooks(path, link)
            chain = self._answering_errors(link)
        self._middleware_chain = chain

    def _collect_hooks(self, path: str, link: Any) -> None:
        for name, hooks in (
            ("process_view", self._view_middleware),
            ("process_template_response", self._template_response_middleware),
            ("process_exception", self._exception_middleware),
        ):
            hook = getattr(link, name, None)
            if hook is None:
                continue
            if not iscoroutinefunction(hook):
                raise ImproperlyConfigured(f"{path}.{name} is not async: declare it with `async def`")
            hooks.insert(0 if name == "process_view" else len(hooks), hook)

    def _answering_errors(self, get_response: GetResponse) -> GetResponse:
        """Wrap one link so that the next one outwards always gets a response, as Django does."""

        async def answer(request: HttpRequest) -> HttpResponseBase:
            try:
                return await get_response(request)
            except Exception as exc:  # noqa: BLE001 - the boundary where every error becomes an answer
                await report_unexpected(exc, request)
                return exception_handler(exc, {"request": request})

        return answer

    # ------------------------------------------------------------ one request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request.

        Raises:
            ValueError: The protocol is another one.
        """
        if scope["type"] != "http":
            raise ValueError(f"LeanHandler serves HTTP, not {scope['type']}: route it elsewhere")
        state = RequestState()
        observer = self._observer
        begun = observer.begin() if observer is not None else 0
        try:
            try:
                body_file = await self.read_body(receive)
            except RequestAborted:
                return
            if receivers := custom_receivers(request_started, self.__class__):
                await send_to(receivers, request_started, self.threads, sender=self.__class__, scope=scope)
            # Eager: runs at once, in its own copy of the context, and is usually done when the constructor returns.
            task = asyncio.Task(
                self._respond(scope, body_file, send, state), loop=asyncio.get_running_loop(), eager_start=True
            )
            try:
                if task.done():
                    task.result()
                else:
                    await finish_unless_gone(task, receive)
            finally:
                # Outside the task: once the answer is sent, servers report a disconnect, which must not stop this.
                await self._close(state.response)
        finally:
            if observer is not None:
                observer.end(scope, state, begun)

    async def read_body(self, receive: Receive) -> BytesIO:
        """Return the body in memory; the guard has bounded it. Raises ``RequestAborted`` when the client leaves."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestAborted
        body_file = BytesIO(message.get("body", b""))
        if message.get("more_body", False):
            body_file.seek(0, 2)
            while message.get("more_body", False):
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestAborted
                body_file.write(message.get("body", b""))
            body_file.seek(0)
        return body_file

    async def _respond(self, scope: Scope, body_file: BytesIO, send: Send, state: RequestState) -> None:
        """Make the response, note it in ``state`` for anybody who closes it, and send it."""
        if root_path := scope.get("root_path"):
            set_script_prefix(root_path)
        try:
            request = self.request_class(scope, body_file)
        except UNREADABLE_HEAD as exc:
            response: HttpResponseBase = exception_handler(_BadHead(str(exc)), {})
            # No middleware has seen this request: the answer gets its id and the security headers here.
            response.headers["X-Request-ID"] = json.loads(cast("Any", response).content)["request_id"]
            harden_unread(response, scope)
        else:
            state.request = request
            response = await self.run_get_response(request)
        state.response = response
        await self.send_response(response, send)

    async def run_get_response(self, request: HttpRequest) -> HttpResponseBase:
        """Answer ``request`` through the middleware chain."""
        response: Any = await self._middleware_chain(request)
        if response.streaming or vars(request).get("_files"):  # without files there is nothing to close
            response._resource_closers.append(request.close)
        response._handler_class = self.__class__
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size
        return cast("HttpResponseBase", response)

    async def _get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """Refuse what no view is to see, or answer."""
        check_host(request)
        try:
            _ = request.COOKIES if "HTTP_COOKIE" in request.META else None
        except AmbiguousCookies as error:
            return error_pages.for_ambiguous_cookies(request, error)
        return await self._answer_of_view(request)

    async def _answer_of_view(self, request: HttpRequest) -> HttpResponseBase:
        """Resolve the URL and call the view with its hooks."""
        try:
            match = self.resolve_request(request)
        except Resolver404:
            if not error_pages.wants_page(request):
                raise
            return error_pages.page_for(request)
        callback, args, kwargs = match.func, match.args, match.kwargs
        for hook in self._view_middleware:
            if response := await hook(request, callback, args, kwargs):
                return cast("HttpResponseBase", response)
        try:
            if _is_async(callback):
                response = await callback(request, *args, **kwargs)
            else:
                response = await self.threads.run(callback, request, *args, **kwargs)
            self.check_response(response, callback)
            if callable(getattr(response, "render", None)):
                response = await self._render(request, response)
        except Exception as exc:
            for hook in self._exception_middleware:
                if answer := await hook(request, exc):
                    return cast("HttpResponseBase", answer)
            raise
        return cast("HttpResponseBase", response)

    def check_response(self, response: Any, callback: Any, name: str | None = None) -> None:
        """Refuse what Django refuses, without its questions where the answer is plain. Raises ``ValueError``."""
        if not isinstance(response, HttpResponseBase):
            super().check_response(response, callback, name)

    async def _render(self, request: HttpRequest, response: Any) -> HttpResponseBase:
        """Render a template response in a thread: templates are files, and their tags may query."""
        for hook in self._template_response_middleware:
            response = await hook(request, response)
            self.check_response(response, hook, name=f"{hook.__qualname__}")
        return cast("HttpResponseBase", await self.threads.run(response.render))

    def resolve_request(self, request: HttpRequest) -> ResolverMatch:
        """Find the view. Raises ``Resolver404``."""
        if hasattr(request, "urlconf"):  # a middleware chose another one
            set_urlconf(request.urlconf)
            match = get_resolver(request.urlconf).resolve(request.path_info)
        else:
            match = self._routes.match(request.path_info)
        request.resolver_match = match
        return match

    # ------------------------------------------------------------ the answer

    async def send_response(self, response: Any, send: Send) -> None:
        """Send head and body; a body that is not streamed carries its Content-Length."""
        # The mapping's own store: items() goes through its __getitem__ once more per header (5 µs a response).
        stored = response.headers._store.values()
        headers = [(name.encode("ascii"), value.encode("latin1")) for name, value in stored]
        if response.cookies:
            cookies = response.cookies.values()
            headers.extend((b"Set-Cookie", cookie.OutputString().encode("ascii")) for cookie in cookies)
        status = response.status_code
        body = b""
        if not response.streaming:
            body = response.content
            if status >= 200 and status not in (204, 304) and "content-length" not in response.headers._store:  # noqa: PLR2004 - RFC 9110 §8.6
                headers.append((b"Content-Length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        response.head_is_sent = True
        if response.streaming:
            await self._stream(response, send)
        elif len(body) <= self.chunk_size:
            await send({"type": "http.response.body", "body": body})
        else:
            for chunk, last in self.chunk_bytes(body):
                await send({"type": "http.response.body", "body": chunk, "more_body": not last})

    async def _stream(self, response: StreamingHttpResponse, send: Send) -> None:
        """Send the parts as they come; a synchronous iterator is advanced in a thread."""
        async with nullcontext() if response.is_async else self.threads.context():
            make_async(response)
            parts = cast("AsyncGenerator[bytes]", aiter(response))
            async with aclosing(parts):
                async for part in parts:
                    for chunk, _ in self.chunk_bytes(part):
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body"})

    async def _close(self, response: Any) -> None:
        """Run the resource closers, in a thread only where they may block, and send ``request_finished``."""
        if response is not None:
            if type(response).close is not HttpResponseBase.close:
                await self.threads.run(response.close)  # an override; the base method in it sends the signal
                return
            if may_block(response):
                await self.threads.run(run_closers, response)
            else:
                run_closers(response)
        if receivers := custom_receivers(request_finished, self.__class__):
            await send_to(receivers, request_finished, self.threads, sender=self.__class__)


@lru_cache(maxsize=512)  # one entry per view of the project
def _is_async(callback: Callable[..., Any]) -> bool:
    return iscoroutinefunction(callback)


class _BadHead(BadRequest):
    """The head of the request cannot be decoded."""
