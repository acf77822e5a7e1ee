"""A client that goes away stops the work done for it."""

import asyncio

from ironauth.infrastructure.core.asgi_types import Receive


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
