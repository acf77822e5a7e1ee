"""Counting requests of the API and the admin lane, with the URL pattern that their handlers found.

Counted is what a client saw. Nothing of a request becomes a label but its method, if it is one of RFC 9110's, so their
number is bounded by the URL configuration. The API lane's handler tells of its own; the admin lane has a layer around.
"""

import sys
import time
from typing import Any, Final

from ironauth.infrastructure.core.asgi_types import Application, Message, Receive, Scope, Send
from ironauth.infrastructure.http.middleware import CLIENT_CLOSED_REQUEST, STATIC_PREFIX
from ironauth.infrastructure.http.request_state import RequestState
from ironauth.infrastructure.telemetry.metrics import SUM, Recorder
from ironauth.infrastructure.telemetry.metrics_catalogue import SHORTEST_NS, bucket
from ironauth.server.instrumentation.route_label import METHODS, STATIC_ROUTE, listen

OTHER: Final = "other"
NO_ROUTE: Final = "none"  # no pattern fits, or the request was refused before one was looked for
API, ADMIN = "api", "admin"
INTERNAL_ERROR: Final = 500  # what the guard answers to an error


class _Counting:
    """How often and how long, for each method, route and status of one lane."""

    def __init__(self, recorder: Recorder, lane: str) -> None:
        self.recorder = recorder
        self._lane = lane
        self._tallies: dict[tuple[str, str | None, int], list[int]] = {}

    def begin(self) -> int:
        """Count one more that is running; return the time."""
        self.recorder.running += 1
        return time.perf_counter_ns()

    def count(self, method: str, route: str | None, status: int, begun: int) -> None:
        """Count one that has ended."""
        took_ns = time.perf_counter_ns() - begun
        self.recorder.running -= 1
        tally = self._tallies.get((method, route, status))
        if tally is None:
            tally = self._tally(method, route, status)
        tally[0 if took_ns <= SHORTEST_NS else bucket(took_ns)] += 1
        tally[SUM] += took_ns

    def _tally(self, method: str, route: str | None, status: int) -> list[int]:
        known = method if method in METHODS else OTHER
        shown = NO_ROUTE if route is None else f"/{route.removeprefix('/')}"
        tally = self.recorder.request_tally(known, shown, self._lane, status)
        if known != OTHER:  # else anybody could have a name remembered
            self._tallies[method, route, status] = tally
        return tally


class CountedApi(_Counting):
    """The API lane's `request_state.RequestObserver`."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder, API)

    def end(self, scope: Scope, state: RequestState, begun: int) -> None:
        """Count a request that has been answered, or given up.

        Args:
            scope: of the request.
            state: what the lane knows of it.
            begun: when it began, ``time.perf_counter_ns``.
        """
        request, response = state.request, state.response
        match = None if request is None else request.resolver_match
        if getattr(response, "head_is_sent", False):
            status = response.status_code  # type: ignore[union-attr] # there is one
        else:
            status = INTERNAL_ERROR if isinstance(sys.exception(), Exception) else CLIENT_CLOSED_REQUEST
        # `count`, without the call: beside other work it costs 0.3 µs, and each request pays it.
        took_ns = time.perf_counter_ns() - begun
        self.recorder.running -= 1
        method, route = scope["method"], None if match is None else match.route
        tally = self._tallies.get((method, route, status))
        if tally is None:
            tally = self._tally(method, route, status)
        tally[0 if took_ns <= SHORTEST_NS else bucket(took_ns)] += 1
        tally[SUM] += took_ns


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


class CountedPages(_Counting):
    """Counts what ``application``, the admin lane, answers; its handler is Django's own."""

    def __init__(self, application: Application, recorder: Recorder) -> None:
        """Wrap an application.

        Args:
            application: answers.
            recorder: counts.
        """
        super().__init__(recorder, ADMIN)
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by ``application``."""
        sending = _Sending(send)
        listen(scope, sending)
        begun = self.begin()
        try:
            await self._application(scope, receive, sending)
        except Exception:
            if sending.status == CLIENT_CLOSED_REQUEST:
                sending.status = INTERNAL_ERROR
            raise
        finally:
            route = sending.route or (STATIC_ROUTE if scope["path"].startswith(STATIC_PREFIX) else None)
            self.count(scope["method"], route, sending.status, begun)
