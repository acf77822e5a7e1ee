"""``request_started`` and ``request_finished`` for anybody who listens, without Django's own thread-bound receivers.

Those (`reset_queries`, `close_old_connections`, `close_caches`, `reset_urlconf`) act on the thread they run in; on the
event loop there is nothing for them to do. `request_threads` and the database pool do their work where connections
live.
"""

from collections.abc import Callable, Sequence
from typing import Any

from django.core.cache import close_caches
from django.core.handlers.base import reset_urlconf
from django.db import close_old_connections, reset_queries
from django.dispatch import Signal

from ironauth.infrastructure.threads.request_threads import RequestThreads

Receiver = Callable[..., Any]
_STOCK: tuple[Receiver, ...] = (reset_queries, close_old_connections, close_caches, reset_urlconf)
_STOCK_IDS = frozenset(id(receiver) for receiver in _STOCK)  # how Signal.connect identifies a function
_all_stock: dict[Signal, list[Any]] = {}  # receivers that were found to be Django's own


def custom_receivers(signal: Signal, sender: type) -> tuple[Sequence[Receiver], Sequence[Receiver]] | None:
    """Return the live receivers of ``signal`` that are not Django's own (sync, async), or None for none.

    Connecting and disconnecting take effect at once: what is remembered is compared with all there are now.
    """
    if signal.receivers == _all_stock.get(signal):
        return None
    for entry in signal.receivers:
        if entry[0][0] not in _STOCK_IDS:
            break
    else:
        _all_stock[signal] = list(signal.receivers)
        return None
    sync, asynchronous = signal._live_receivers(sender)  # noqa: SLF001 - no public form
    return [receiver for receiver in sync if receiver not in _STOCK], asynchronous


async def send_to(
    receivers: tuple[Sequence[Receiver], Sequence[Receiver]], signal: Signal, threads: RequestThreads, **named: object
) -> None:
    """Call sync receivers together in a thread (they may block), then the async ones in order.

    Errors: the first a receiver raises, as `Signal.asend`.
    """
    sync, asynchronous = receivers
    if sync:
        await threads.run(_call_all, sync, {"signal": signal, **named})
    for receiver in asynchronous:
        await receiver(signal=signal, **named)


def _call_all(receivers: Sequence[Receiver], named: dict[str, object]) -> None:
    for receiver in receivers:
        receiver(**named)
