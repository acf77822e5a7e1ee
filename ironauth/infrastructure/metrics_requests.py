"""Counting requests: around the API and the admin lane, with the URL pattern that their handlers found.

Counted is what a client saw. Nothing of a request becomes a label but its method, if it is one of RFC 9110's, so their
number is bounded by the URL configuration.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from ironauth.infrastructure.asgi_types import Application, Message, Receive, Scope, Send
from ironauth.infrastructure.lanes import STATIC_PREFIX, is_api_path
from ironauth.infrastructure.metrics_recorder import Recorder
from ironauth.infrastructure.middleware import CLIENT_CLOSED_REQUEST
from ironauth.infrastructure.noted_route import METHODS, STATIC_ROUTE, listen

OTHER: Final = "other"
NO_ROUTE: Final = "none"  # no pattern fits, or the request was refused before one was looked for
API, ADMIN = "api", "admin"
INTERNAL_ERROR: Final = 500


class _Sending:
    """A ``send`` that remembers the status and, when a handler has found it, the route."""

    __slots__ = ("route", "send", "status")

    def __init__(self, send: Send) -> None:
        self.send = send
        self.status = CLIENT_CLOSED_REQUEST
        self.route: str | None = None

    def __call__(self, message: Message) -> Any:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        return self.send(message)  # not awaited here: a coroutine less


class MeasuredRequests:
    """Counts and times what the lanes behind the hot one answer; that one counts its own (``HotLane``)."""

    def __init__(self, application: Application, recorder: Recorder) -> None:
        self._application = application
        self._recorder = recorder
        self._observers: dict[tuple[str, str, str, int], Callable[[int], None]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by ``application``."""
        recorder = self._recorder
        sending = _Sending(send)
        listen(scope, sending)
        recorder.running += 1
        started = time.perf_counter_ns()
        try:
            await self._application(scope, receive, sending)
        except Exception:
            if sending.status == CLIENT_CLOSED_REQUEST:
                sending.status = INTERNAL_ERROR  # what the guard answers
            raise
        finally:
            recorder.running -= 1
            lane = API if is_api_path(scope) else ADMIN
            route = sending.route or (STATIC_ROUTE if scope["path"].startswith(STATIC_PREFIX) else NO_ROUTE)
            method = scope["method"]
            key = (method if method in METHODS else OTHER, route, lane, sending.status)
            observe = self._observers.get(key)
            if observe is None:
                observe = self._observers[key] = recorder.observer(recorder.request_base(*key))
            observe(started)
