"""One request of the API lane and its answer: what is known of them, what observes, stops and closes them."""

# What a response must be closed with has no public form.
# ruff: noqa: SLF001

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from django.core.cache import close_caches
from django.core.handlers.base import reset_urlconf
from django.db import close_old_connections, reset_queries
from django.dispatch import Signal
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from ironauth.infrastructure.core.asgi_types import Receive, Scope
from ironauth.infrastructure.threads.request_threads import RequestThreads


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

    Args:
        task: The view's task.
        receive: ASGI's, once the whole body has been read.

    Raises:
        asyncio.CancelledError: Something else than a disconnect has cancelled it.
        Exception: What ``task`` raises.
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


# Django's own receivers of ``request_started`` and ``request_finished`` act on the thread they run in; on the event
# loop there is nothing for them to do. `request_threads` and the database pool do their work where connections live.
Receiver = Callable[..., Any]
_STOCK: tuple[Receiver, ...] = (reset_queries, close_old_connections, close_caches, reset_urlconf)
_STOCK_IDS = frozenset(id(receiver) for receiver in _STOCK)  # how Signal.connect identifies a function
_all_stock: dict[Signal, list[Any]] = {}  # receivers that were found to be Django's own


def custom_receivers(signal: Signal, sender: type) -> tuple[Sequence[Receiver], Sequence[Receiver]] | None:
    """Return the live receivers of ``signal`` that are not Django's own (sync, async), or None for none.

    Connecting and disconnecting take effect at once: what is remembered is compared with all there are now.

    Args:
        signal: One of Django's request signals.
        sender: The class that sends it.
    """
    if signal.receivers == _all_stock.get(signal):
        return None
    for entry in signal.receivers:
        if entry[0][0] not in _STOCK_IDS:
            break
    else:
        _all_stock[signal] = list(signal.receivers)
        return None
    sync, asynchronous = signal._live_receivers(sender)
    return [receiver for receiver in sync if receiver not in _STOCK], asynchronous


async def send_to(
    receivers: tuple[Sequence[Receiver], Sequence[Receiver]], signal: Signal, threads: RequestThreads, **named: object
) -> None:
    """Call sync receivers together in a thread (they may block), then the async ones in order.

    Args:
        receivers: What ``custom_receivers`` returned.
        signal: The signal that they receive.
        threads: The threads of this request.
        **named: The arguments of the signal.

    Raises:
        Exception: The first that a receiver raises, as with ``Signal.asend``.
    """
    sync, asynchronous = receivers
    if sync:
        await threads.run(_call_all, sync, {"signal": signal, **named})
    for receiver in asynchronous:
        await receiver(signal=signal, **named)


def _call_all(receivers: Sequence[Receiver], named: dict[str, object]) -> None:
    for receiver in receivers:
        receiver(**named)
