"""The ceiling: an ASGI callable with a constant JSON body, under stock Uvicorn or IronAuth's own protocol class."""

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

from ironauth.server import huge_pages, server

_BODY = b'{"id":"01890a5d-ac96-774b-bcce-b302099a8057","email":"ada@bench.example","name":"Ada"}'
_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(_BODY)).encode())],
}
_END = {"type": "http.response.body", "body": _BODY}

type Message = MutableMapping[str, Any]


async def application(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Answer every HTTP request alike; take part in the lifespan protocol."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send(_START)
    await send(_END)


def main() -> int:
    """Serve on a loopback port as ``manage.py serve --workers 1`` does: same settings, same malloc tunables.

    ``--stock`` leaves Uvicorn its own protocol: the yardstick must not move with what we gain below ASGI.
    """
    huge_pages.unblock_interrupts()
    huge_pages.use_huge_pages()
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--stock", action="store_true", help="Uvicorn's own HTTP protocol")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ironauth.settings")  # the HTTP protocol's own answers need them
    bound = server.bind_tcp("127.0.0.1", options.port)
    server.listen(bound)
    config = server.configuration(workers=1)
    config.app = "perf.rig.bare_asgi:application"
    if options.stock:
        config.http = "httptools"
    uvicorn.Server(config).run([bound])
    return 0


if __name__ == "__main__":
    sys.exit(main())
