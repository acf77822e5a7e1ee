"""One request of the API lane and its answer: what is known of them, who observes them, what stops and closes them."""

# What a response must be closed with has no public form.
# ruff: noqa: SLF001

import asyncio
from contextlib import suppress
from typing import Any, Protocol

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from ironauth.infrastructure.core.asgi_types import Receive, Scope


class RequestState:
    """What is known so far. The fields are the class's until they are set: no call is needed to make one."""

    request: HttpRequest | None = None  # None: there is no whole one, or its head cannot be decoded
    response: HttpResponseBase | None = None  # its ``head_is_sent``: the client has a status


class RequestObserver(Protocol):
    """Observes every request, on the event loop. A layer around the lane costs twice as much (5 µs, not 2)."""

    def begin(self) -> int:
        """Take note of a request; what is returned goes to ``end``."""

    def end(self, scope: Scope, state: RequestState, begun: int) -> None:
        """Take note of its end, be it an answer, an error that is being raised, or a client that has left."""


def may_block(response: Any) -> bool:
    """Tell whether closing closes anything but the request: a file, a generator."""
    return any(getattr(closer, "__func__", None) is not HttpRequest.close for closer in response._resource_closers)


def run_closers(response: Any) -> None:
    """Do what ``HttpResponseBase.close`` does, except for the signal; a failing closer must not stop the others."""
    for closer in response._resource_closers:
        with suppress(Exception):
            closer()
    response._resource_closers.clear()
    response.closed = True


async def finish_unless_gone(task: asyncio.Task[None], receive: Receive) -> None:
    """Wait for ``task``; cancel it, so the view sees ``CancelledError``, when the client disconnects first.

    Errors: what ``task`` raises; ``CancelledError`` when somebody else cancelled.
    """
    gone = False

    async def listen() -> None:
        nonlocal gone
        message = await receive()
        if message["type"] == "http.disconnect":
            gone = True
            task.cancel()

    listener = asyncio.create_task(listen())
    try:
        await task
    except asyncio.CancelledError:
        # The server's own cancellation must reach the server; only the one made above ends here.
        if not gone or _being_cancelled():
            raise
    finally:
        listener.cancel()


def _being_cancelled() -> bool:
    """Tell whether somebody else cancelled the task that runs this."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
